// What a state means, in plain sentences.

import type { Limit, Session, Status } from "../proto/types";
import type { Run } from "../log/state";
import { bytes, count, duration, plural } from "./format";

const limitNames: Record<string, string> = {
  memory_bytes: "memory", disk_bytes: "disk space", disk_inodes: "file count", pids: "process and thread",
  tmp_bytes: "temporary space", execution_timeout_s: "time", execution_cpu_s: "CPU time",
};

function amounts(limit: Limit): string {
  const amount = limit.name.endsWith("_bytes") ? bytes : count;
  return `${amount(limit.value)}; ${amount(limit.used)} used`;
}

export const limitWords = (limit: Limit): string => `the ${limitNames[limit.name] ?? limit.name} limit (${amounts(limit)})`;

// whyWords says why a kernel exited.
export function whyWords(reason: string | undefined, exitCode?: number): string {
  const [kind = "", detail = ""] = (reason ?? "").split(/:(.*)/s);
  switch (kind) {
    case "memory_limit": return "it used all of its memory";
    case "disk_limit": return "it wrote far beyond its disk limit";
    case "out_of_memory": return "the machine ran out of memory";
    case "timeout": return "it ran past its timeout and ignored the interrupt";
    case "cpu_limit": return "it exceeded its CPU time limit";
    case "idle_timeout": return "it was idle for too long";
    case "reset": return "it was reset";
    case "deleted": return "the session was deleted";
    case "exit": return `it ended itself or crashed (code ${detail || exitCode})`;
    case "signal": return `it was killed by ${detail}`;
    case "server_shutdown": return "the server was shut down";
    case "server_crash": return "the server crashed";
    case "host_crash": return "the kernel host or the machine crashed";
    case "start_failed": return "its sandbox could not be started";
    case "beside_ended": return "the kernel whose sandbox it shared ended";
    case "control_closed":
    case "sandbox_lost": return "the cell broke its own sandbox";
    case "records_lost": return "the server could not read what it reported";
    case "not_executing": return "it stopped accepting cells";
    case "copy_did_not_wake": return "going back to a checkpoint took too long";
    case "loading_variables": return "loading the saved variables took too long";
    case "restart": return "the server restarted";
    case "died": return "the previous process had died";
    case "": return "the reason is unknown";
  }
  return kind.replaceAll("_", " ");
}

export interface Told { word: string; sentence: string; tone: "quiet" | "running" | "bad" | "waiting" }

// A reset may delete the files too.
const kept = (run: Run): string =>
  !run.lost ? "Variables are kept." : run.reason === "reset" || run.reason === "deleted" ? "Variables are lost." : "Variables are lost; files are kept.";

// runWords describes how a run ended, and what became of the variables wherever that is in question.
// fatal is the limit that killed its kernel.
export function runWords(run: Run, asked: "" | "input" | "approval", ahead: number, fatal?: Limit): Told {
  const limit = run.outputs.find((o) => o.kind === "error" && o.limit);
  if (asked === "approval") return { word: "needs approval", sentence: "Waiting for approval.", tone: "waiting" };
  switch (run.status as Status) {
    case "queued": return { word: "queued", sentence: ahead > 0 ? `Waiting for ${plural(ahead, "cell")}.` : "Waiting for its turn.", tone: "waiting" };
    case "running": return asked
      ? { word: "needs input", sentence: "Waiting for your answer.", tone: "waiting" }
      : { word: "running", sentence: "Running.", tone: "running" };
    case "ok": return { word: "done", sentence: run.durationMs === undefined ? "Done." : `Ran in ${duration(run.durationMs)}.`, tone: "quiet" };
    case "error": return limit?.kind === "error" && limit.limit
      ? { word: "limit", sentence: `Stopped at ${limitWords(limit.limit)}. ${kept(run)}`, tone: "bad" }
      : { word: "error", sentence: "Ended with an error.", tone: "bad" };
    case "timeout": return { word: "timed out", sentence: `Timed out. ${kept(run)}`, tone: "bad" };
    case "interrupted": return { word: "stopped", sentence: `Stopped on request. ${kept(run)}`, tone: "bad" };
    case "cancelled": return { word: "not run", sentence: `Never started: ${cancelWords(run.reason)}.${run.lost ? " Variables are lost." : ""}`, tone: "quiet" };
    case "died": return { word: "died", sentence: `Python exited: ${whyWords(run.reason)}${fatal ? ` (${amounts(fatal)})` : ""}. ${kept(run)}`, tone: "bad" };
  }
}

function cancelWords(reason: string | undefined): string {
  if (reason === "interrupted") return "the queue was stopped";
  if (reason === "stop_on_error") return "an earlier cell failed";
  if (reason === "denied") return "it was not approved";
  return `Python exited before its turn: ${whyWords(reason)}`;
}

export function approvalWords(kind: string): string {
  switch (kind) {
    case "tool": return "Allow this tool call?";
    case "cell": return "Run this cell?";
    case "network": return "Open the network?";
    case "packages": return "Install these packages?";
  }
  return "Allow this?";
}

// askedWords is the rest of the question: which tool, network or packages. A cell stands below it in full.
export function askedWords({ kind, summary }: { kind: string; summary: string }): string {
  return kind === "cell" ? "" : summary;
}

// decisionWords says how a question ended, and who answered it.
export function decisionWords({ decision, by, reason }: { decision?: string; by?: string; reason?: string }): string {
  const whose = `${by ? ` by ${by}` : ""}${reason ? ` (“${reason}”)` : ""}`;
  switch (decision) {
    case "once": return `allowed once${whose}`;
    case "session": return `allowed for this session${whose}`;
    case "deny": return `denied${whose}`;
    case "expired": return `denied: ${reason ?? "nobody answered in time"}`;
    case "cancelled": return "withdrawn";
  }
  return decision ?? "waiting for an answer";
}

// resolvedWords is a sentence about a question that was answered elsewhere.
export function resolvedWords(approval: { kind: string; decision?: string; by?: string; reason?: string }): string {
  if (approval.decision === "cancelled") return "The approval request was withdrawn.";
  return `${subjectOf(approval.kind)} was ${decisionWords(approval)}.`;
}

function subjectOf(kind: string): string {
  switch (kind) {
    case "tool": return "The tool call";
    case "cell": return "The cell";
    case "network": return "Network access";
    case "packages": return "The installation";
  }
  return "The request";
}

// idleWords says what an idle Python does when its time is up, and what stays.
export const idleWords = (onIdle: Session["on_idle"], when: string): string =>
  onIdle === "drop" ? `Python stops ${when}; files stay` : `Python goes to sleep ${when}; variables and files stay`;

export const networkWords = (network: Session["network"]): string =>
  network.mode === "none" ? "no network" : network.mode === "full" ? "full network" : `network: ${allowed(network.allow ?? [])}`;

const allowed = (places: readonly string[]): string =>
  !places.length ? "nothing allowed" : places.length === 1 ? places[0] ?? "" : plural(places.length, "host");

const zone = Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit" });

// titleOf is the name of a session; one without a name is known by when it was created.
export const titleOf = (s: Pick<Session, "name" | "created_at">): string => s.name || `Untitled, ${zone.format(Date.parse(s.created_at))}`;

// tierWords says what stands between a session and the machine.
export function tierWords(tier: string): string {
  switch (tier) {
    case "namespace": return "a sandbox with its own file system, processes and network (tier namespace)";
    case "landlock": return "rules on files and system calls, without its own file system or network (tier landlock)";
    case "": return "known once Python has started";
  }
  return `tier ${tier}`;
}
