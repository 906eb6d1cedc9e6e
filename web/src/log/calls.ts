// The tool calls of a run: the latest ones in full, and how many there were, since one cell may make thousands.

import type { Event, Json, ToolError } from "../proto/types";

const mostKept = 100; // calls of a run
const mostText = 4000; // characters of arguments, or of an error

export interface ToolCall {
  id: string;
  tool: string;
  summary: string; // the arguments as Python writes a call
  arguments: string; // JSON, or its beginning
  startedAt: string;
  ok?: boolean; // undefined while it is open
  error?: ToolError;
  durationMs?: number;
}

// Calls is what the page knows of a run's calls: `latest` are the last of `made`.
export interface Calls { made: number; failed: number; latest: readonly ToolCall[] }

export const noCalls: Calls = { made: 0, failed: 0, latest: [] };

const cut = (text: string, most: number): string => (text.length > most ? `${text.slice(0, most)}…` : text);

export function withCall(calls: Calls, event: Event & { type: "tool_call" }): Calls {
  const call: ToolCall = {
    id: event.call_id, tool: cut(event.tool, 200), startedAt: event.time,
    summary: summaryOf(event.arguments), arguments: argumentsText(event.arguments),
  };
  return { ...calls, made: calls.made + 1, latest: [...calls.latest, call].slice(-mostKept) };
}

export function withResult(calls: Calls, event: Event & { type: "tool_result" }): Calls {
  const error = event.error && { code: event.error.code, message: cut(event.error.message, mostText) };
  return {
    ...calls,
    failed: calls.failed + (event.ok ? 0 : 1),
    latest: calls.latest.map((call) => (call.id === event.call_id ? { ...call, ok: event.ok, error, durationMs: event.duration_ms } : call)),
  };
}

// argumentsText is arguments as JSON, or its beginning.
export function argumentsText(value: Json): string {
  try {
    return cut(JSON.stringify(value), mostText);
  } catch {
    return "too deep to show";
  }
}

// summaryOf writes arguments as a call in Python names them.
export function summaryOf(value: Json): string {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return "";
  const few = Object.entries(value).slice(0, 8).map(([name, part]) => `${cut(name, 40)}=${cut(short(part), 60)}`);
  return cut(few.join(", "), 200);
}

function short(value: Json): string {
  if (typeof value === "string") return JSON.stringify(value.slice(0, 100));
  if (typeof value !== "object" || value === null) return String(value);
  return Array.isArray(value) ? "[…]" : "{…}";
}

export const weightOfCalls = ({ latest }: Calls): number =>
  latest.reduce((sum, call) => sum + call.arguments.length + call.summary.length + (call.error?.message.length ?? 0), 0);
