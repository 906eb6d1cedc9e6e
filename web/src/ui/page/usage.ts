// The last minute of a session's CPU use, from its usage frames.

import type { UsageFrame } from "../../proto/types";

export const seconds = 60;

export interface CPU { at: number; total: number; history: readonly number[] } // history: share of the allowed processors

export function withUsage(cpu: CPU | undefined, frame: UsageFrame, at: number): CPU {
  const total = frame.usage.cpu_seconds;
  if (!cpu || at <= cpu.at) return { at, total, history: [] };
  const share = Math.max(0, total - cpu.total) / ((at - cpu.at) / 1000) / Math.max(frame.limits.cpus, 0.01);
  return { at, total, history: [...cpu.history.slice(1 - seconds), Math.min(1, share)] };
}

// line is the history as points of an SVG polyline.
export function line(history: readonly number[], width: number, height: number): string {
  const step = width / (seconds - 1);
  const start = seconds - history.length;
  return history.map((v, i) => `${((start + i) * step).toFixed(1)},${(height - 1 - v * (height - 2)).toFixed(1)}`).join(" ");
}
