import { defineConfig } from "vitest/config";

// The browser tests: the real binary, and the Chromium that is installed. Times are generous, since machines are busy.
export default defineConfig({
  test: { include: ["e2e/**/*.test.ts"], environment: "node", fileParallelism: false, testTimeout: 120_000, hookTimeout: 120_000 },
});
