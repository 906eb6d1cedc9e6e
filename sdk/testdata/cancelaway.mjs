// Aborts a cell while the server is away, and prints what run rejects with, whether that was soon, and how often the
// cell was interrupted once the server was back.
// Usage: cancelaway.mjs MODULE
import { createServer } from "node:http";

const { Talaria } = await import(process.argv[2]);
let interrupted;
let interrupts = 0;
const done = new Promise((resolve) => { interrupted = resolve; });
const serve = (port) => new Promise((resolve) => {
  const server = createServer((request, response) => {
    response.setHeader("Connection", "close");
    response.end(JSON.stringify({ id: "s", log_id: "l" }));
    if (!request.url.endsWith("/interrupt")) return;
    interrupts++;
    interrupted();
  }).listen(port, "127.0.0.1", () => resolve(server));
});
const server = await serve(0);
const { port } = server.address();
const session = await new Talaria({ url: `http://127.0.0.1:${port}`, token: "t", outage: 10_000 }).session("s");
await new Promise((resolve) => server.close(resolve));
const abort = new AbortController();
setTimeout(() => abort.abort(new Error("enough")), 300);
const began = Date.now();
const e = await session.run("1", { signal: abort.signal }).catch((e) => e);
const soon = Date.now() - began < 6_000;
await serve(port);
await done;
console.log(e.message, soon, interrupts);
process.exit();
