// What cells asked people to allow: the latest questions, each with its answer once there is one.

import type { Event } from "../proto/types";

const mostKept = 100;
const mostPatterns = 20;
const mostText = { summary: 500, detail: 33_000, by: 200, reason: 500 }; // characters

export interface Approval {
  id: string;
  runID?: string;
  kind: string;
  summary: string;
  detail: string;
  patterns: readonly string[]; // what made the cell ask
  askedAt: string;
  expiresAt: string;
  decision?: string; // undefined while it waits for an answer
  by?: string;
  reason?: string;
}

const cut = (text: string | undefined, most: number): string => (text && text.length > most ? `${text.slice(0, most)}…` : text ?? "");

// withQuestion drops the oldest answered question where there are too many.
export function withQuestion(approvals: readonly Approval[], event: Event & { type: "approval_request" }): readonly Approval[] {
  const question: Approval = {
    id: event.approval_id, runID: event.execution_id, kind: event.kind, askedAt: event.time, expiresAt: event.expires_at,
    summary: cut(event.summary, mostText.summary), detail: cut(event.detail, mostText.detail),
    patterns: (event.patterns ?? []).slice(0, mostPatterns).map((name) => cut(name, mostText.by)),
  };
  const oldest = approvals.length >= mostKept ? approvals.find((one) => one.decision) ?? approvals[0] : undefined;
  return [...approvals.filter((one) => one !== oldest && one.id !== question.id), question];
}

export const withDecision = (approvals: readonly Approval[], event: Event & { type: "approval_resolved" }): readonly Approval[] =>
  approvals.map((one) => (one.id !== event.approval_id ? one : {
    ...one, decision: event.decision, by: event.by && cut(event.by, mostText.by), reason: event.reason && cut(event.reason, mostText.reason),
  }));

export const pending = (approvals: readonly Approval[]): readonly Approval[] => approvals.filter((one) => !one.decision);
