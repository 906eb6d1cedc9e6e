const HINTS: Record<string, string> = {
  unreachable: "check the URL, and that `talaria serve` is running there; a page of another origin must be in `origins`",
  unauthorized: "pass a valid token: `talaria token show` prints the first owner's",
  session_not_found: "the session was deleted, or belongs to another owner; session(id) creates it again",
  session_conflict: "ifExists: 'keep' takes the session as it is, and 'apply' changes what can change",
  execution_conflict: "this id was used with other code; use a new id for each cell",
  events_expired: "read the events again from the session's first_seq - 1",
  log_changed: "the log was replaced; read the events again from after=0",
  checkpoint_gone: "checkpoints() lists the existing ones, with their levels; a name keeps one",
  queue_full: "wait until some of the session's cells have finished",
  disk_limit: "delete files, or raise limits.disk_bytes",
};

/** A request that failed. A cell that raises is not one: see `Execution.error`. */
export class TalariaError extends Error {
  readonly hint: string;
  /** `code` is a stable word to branch on, `unreachable` when no server answers; `status` is 0 without an answer. */
  constructor(readonly code: string, message: string, readonly status = 0, options?: ErrorOptions) {
    super(message, options);
    this.name = "TalariaError";
    this.hint = HINTS[code] ?? "";
  }
}
