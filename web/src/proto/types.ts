// The words on the wire that the page uses; docs/api.md and the pages that it lists have them all. Fields that the page does not read are left out.

export type Json = null | boolean | number | string | Json[] | { [key: string]: Json };
export type Bundle = { [mime: string]: Json };

export interface Limit { name: string; value: number; used: number }

export interface Limits {
  memory_bytes: number;
  cpus: number;
  pids: number;
  disk_bytes: number;
  execution_timeout_s: number;
  output_bytes: number;
}

export interface Usage {
  memory_bytes: number;
  peak_memory_bytes?: number;
  cpu_seconds: number;
  disk_bytes: number;
  pids: number;
  processes: { pid: number; name: string }[];
}

export type SessionState = "starting" | "idle" | "busy" | "hibernated" | "dead";

export interface Session {
  id: string;
  name: string;
  state: SessionState;
  reason?: string;
  environment: string;
  isolation: { tier: string; layers: string[] };
  beside?: string;
  limits: Limits;
  network: { mode: "none" | "allow" | "full"; allow?: string[] };
  idle_timeout_s: number;
  on_idle: "hibernate" | "drop";
  reap_at?: string;
  metadata: { [key: string]: string };
  checkpoints: { mode: "auto" | "manual" | "off" };
  execution_count: number;
  log_id: string;
  first_seq: number;
  last_seq: number;
  kernel: { generation: number; python: string; started_at: string | null };
  usage: Usage;
  created_at: string;
  last_active_at: string;
}

export type Status = "queued" | "running" | "ok" | "error" | "timeout" | "interrupted" | "cancelled" | "died";

export interface Execution {
  id: string;
  execution_count: number | null;
  code: string;
  status: Status;
  reason?: string;
  state: "kept" | "lost";
  generation: number;
  usage: { duration_ms: number; cpu_ms: number; peak_memory_bytes: number };
  truncated_bytes: number;
  started_at: string | null;
  finished_at: string | null;
}

// ErrorFrame is a frame of a traceback: whose it is, and which of its lines.
export interface ErrorFrame {
  file: string;
  line: number;
  function: string;
  user: boolean;
  cell?: string; // the execution whose cell it is
  traceback_start: number;
  traceback_end: number;
}

export interface Truncated { bytes: number; sha256: string; url: string }

// Cut tells of a display of which the page got large JSON values only in part: the whole of each by its MIME type ("metadata"
// for that), and the true size of each list and object that lacks entries.
export interface Cut { whole: ReadonlyMap<string, Blob>; sizes: ReadonlyMap<object, number> }

export interface ToolError { code?: string; message: string }

// ToolCallRecord is a call in the audit.
export interface ToolCallRecord {
  call_id: string;
  execution_id: string;
  tool: string;
  provider: string;
  arguments?: Json; // absent where it is long
  status: "open" | "ok" | "error";
  error?: ToolError;
  created_at: string;
  duration_ms?: number;
}

// ApprovalRecord is a question to a person in the audit.
export interface ApprovalRecord {
  approval_id: string;
  execution_id?: string;
  kind: string;
  summary: string;
  created_at: string;
  decision?: string;
  by?: string;
  reason?: string;
}

// Checkpoint is a state of the session to go back to.
export interface Checkpoint {
  id: string;
  name?: string;
  execution_id: string; // the newest execution that had ended; "" before the first
  execution_count: number;
  created_at: string;
  level: "live" | "saved" | "files"; // variables in memory, on disk, or none
  reason?: string; // why it has no variables, or why they are on disk only
  undo?: boolean; // a rollback made it, of what was before
  bytes: number;
  not_saved: { name: string; type?: string; reason: string }[];
}

export type RollbackPart = "all" | "variables" | "files";

export type Change = "created" | "modified" | "deleted";

// CheckpointDiff is what changed since a checkpoint.
export interface CheckpointDiff {
  files: { path: string; change: Change; size: number }[];
  variables: { name: string; change: Change }[];
  truncated?: boolean;
}

interface Head { seq: number; time: string; execution_id?: string }

export type Event = Head & (
  | { type: "session_state"; state: SessionState; reason?: string }
  | { type: "execution_queued"; code: string }
  | { type: "execution_started"; code: string; execution_count: number | null }
  | { type: "execution_finished"; execution: Execution }
  | { type: "stream"; name: "stdout" | "stderr"; text: string; truncated?: Truncated }
  | { type: "display_data" | "update_display_data"; data: Bundle; metadata: Bundle; display_id?: string; cut?: Cut }
  | { type: "execute_result"; data: Bundle; metadata: Bundle; execution_count: number; cut?: Cut }
  | { type: "error"; ename: string; evalue: string; traceback: string[]; limit?: Limit; hint?: string; frames?: ErrorFrame[] }
  | { type: "clear_output"; wait: boolean }
  | { type: "input_request"; request_id: string; prompt: string; password: boolean }
  | { type: "input_closed"; request_id: string; how: string }
  | { type: "artifact"; path: string; change: string; size?: number; media_type?: string; url?: string }
  | { type: "kernel_died"; reason: string; generation: number; exit_code?: number; signal?: string; limit?: Limit }
  | { type: "kernel_reset"; reason: string; generation: number }
  | { type: "package_installed"; requirements: string[]; ok: boolean }
  | { type: "tool_call"; call_id: string; tool: string; arguments: Json }
  | { type: "tool_result"; call_id: string; ok: boolean; error?: ToolError; duration_ms: number }
  | { type: "approval_request"; approval_id: string; call_id?: string; kind: "tool" | "cell" | "network" | "packages";
      summary: string; detail: string; patterns?: string[]; expires_at: string }
  | { type: "approval_resolved"; approval_id: string; decision: "once" | "session" | "deny" | "expired" | "cancelled"; by?: string; reason?: string }
  | { type: "document_changed"; revision: number }
  | { type: "comm_open"; comm_id: string; target_name: string; data: Json; metadata: Bundle; buffers?: string[] }
  | { type: "comm_msg" | "comm_close"; comm_id: string; data: Json; metadata: Bundle }
  | { type: "comm_handled" }
  | { type: "user_expressions"; values: Bundle }
  | { type: "checkpoint_created"; checkpoint: Checkpoint }
  | { type: "checkpoint_dropped"; checkpoint_id: string; reason: string; level?: string }
  | { type: "kernel_woken"; generation: number; not_restored: { name: string; reason: string }[]; duration_ms: number }
  | { type: "session_forked"; session_id: string; not_restored: { name: string; reason: string }[] }
  | { type: "rolled_back"; checkpoint_id: string; what: RollbackPart; undo: string;
      not_restored: { name: string; reason: string }[] }
);

export interface UsageFrame { type: "usage"; usage: Usage; limits: Limits; reap_at?: string }

export interface Problem { type: string; title: string; status: number; detail: string; code: string }

export interface Reply { type: "reply"; id: string | null; ok: boolean; result?: unknown; error?: Problem }

export interface PartsFrame { type: "parts"; bytes: number } // a large message follows, in binary frames
export type Message = Hello | Reply | UsageFrame | PartsFrame | Event;

export interface Hello { type: "hello"; protocol: number; session: Session }

export interface FileEntry {
  name: string;
  path: string;
  kind: "file" | "directory" | "symlink" | "other";
  size: number;
  modified_at: string;
  media_type?: string;
}

export interface Variable { name: string; type: string; shape?: number[] | string; dtype?: string; size_bytes?: number; preview: string }

export interface TableSort { column: number; descending: boolean }

// Page is a part of a list; next_cursor asks for the next one.
export interface Page<T> { items: T[]; next_cursor?: string }

export interface TablePage { offset: number; total: number; rows: Json[][] }

export interface Completion { matches: string[]; cursor_start: number; cursor_end: number }

export interface Inspection { found: boolean; data: Bundle }

// One cell of the notebook page. id is unique in its document.
export interface Cell { id: string; cell_type: "code" | "markdown" | "raw"; source: string }

// The page's arrangement. Executions that were queued up to `through` are in it, or were taken out of it on purpose.
export interface Document { revision: number; title: string; through: number; imported: boolean; cells: Cell[] }
