// Made by events.mjs from the golden files of the wire contract. Do not edit.

export interface ApprovalRequestEvent {
  seq: number;
  time: string;
  type: "approval_request";
  execution_id?: string;
  approval_id: string;
  call_id: string;
  kind: string;
  summary: string;
  detail: string;
  patterns: string[];
  expires_at: string;
}

export interface ApprovalResolvedEvent {
  seq: number;
  time: string;
  type: "approval_resolved";
  execution_id?: string;
  approval_id: string;
  decision: string;
  by?: string;
  reason?: string;
}

export interface ArtifactEvent {
  seq: number;
  time: string;
  type: "artifact";
  execution_id?: string;
  path: string;
  change: string;
  size?: number;
  media_type?: string;
  sha256?: string;
  url?: string;
  data?: string;
}

export interface CheckpointCreatedEvent {
  seq: number;
  time: string;
  type: "checkpoint_created";
  execution_id?: string;
  checkpoint: {
    id: string;
    name: string;
    execution_id?: string;
    execution_count: number | null;
    created_at: string;
    level: string;
    bytes: number;
    not_saved: {
      name: string;
      type: string;
      reason?: string;
    }[];
  };
}

export interface CheckpointDroppedEvent {
  seq: number;
  time: string;
  type: "checkpoint_dropped";
  execution_id?: string;
  checkpoint_id: string;
  reason?: string;
  level?: string;
}

export interface ClearOutputEvent {
  seq: number;
  time: string;
  type: "clear_output";
  execution_id?: string;
  wait: boolean;
}

export interface CommCloseEvent {
  seq: number;
  time: string;
  type: "comm_close";
  execution_id?: string;
  comm_id: string;
  data: Record<string, any>;
  metadata: Record<string, any>;
}

export interface CommHandledEvent {
  seq: number;
  time: string;
  type: "comm_handled";
  execution_id?: string;
}

export interface CommMsgEvent {
  seq: number;
  time: string;
  type: "comm_msg";
  execution_id?: string;
  comm_id: string;
  data: Record<string, any>;
  metadata: Record<string, any>;
}

export interface CommOpenEvent {
  seq: number;
  time: string;
  type: "comm_open";
  execution_id?: string;
  comm_id: string;
  target_name: string;
  data: Record<string, any>;
  metadata: Record<string, any>;
  buffers: string[];
}

export interface DisplayDataEvent {
  seq: number;
  time: string;
  type: "display_data";
  execution_id?: string;
  data: Record<string, any>;
  metadata: Record<string, any>;
  display_id?: string;
}

export interface DocumentChangedEvent {
  seq: number;
  time: string;
  type: "document_changed";
  execution_id?: string;
  revision: number;
}

export interface ErrorEvent {
  seq: number;
  time: string;
  type: "error";
  execution_id?: string;
  ename: string;
  evalue: string;
  traceback: string[];
  hint?: string;
  frames?: {
    file: string;
    line: number;
    function: string;
    user: boolean;
    cell?: string;
    traceback_start: number;
    traceback_end: number;
  }[];
  limit?: {
    name: string;
    value: number;
    used: number;
  };
}

export interface ExecuteResultEvent {
  seq: number;
  time: string;
  type: "execute_result";
  execution_id?: string;
  data: Record<string, any>;
  metadata: Record<string, any>;
  execution_count: number | null;
}

export interface ExecutionFinishedEvent {
  seq: number;
  time: string;
  type: "execution_finished";
  execution_id?: string;
  execution: {
    id: string;
    session_id: string;
    execution_count: number | null;
    code: string;
    status: string;
    state: string;
    text: string;
    artifacts: Record<string, any>[];
    generation: number;
    usage: {
      duration_ms: number;
      cpu_ms: number;
      peak_memory_bytes: number;
    };
    tool_calls: number;
    truncated_bytes: number;
    created_at: string;
    started_at: string | null;
    finished_at: string | null;
    refundable?: boolean;
  };
}

export interface ExecutionQueuedEvent {
  seq: number;
  time: string;
  type: "execution_queued";
  execution_id?: string;
  code: string;
}

export interface ExecutionStartedEvent {
  seq: number;
  time: string;
  type: "execution_started";
  execution_id?: string;
  code: string;
  execution_count: number | null;
}

export interface InputClosedEvent {
  seq: number;
  time: string;
  type: "input_closed";
  execution_id?: string;
  request_id: string;
  how: string;
}

export interface InputRequestEvent {
  seq: number;
  time: string;
  type: "input_request";
  execution_id?: string;
  request_id: string;
  prompt: string;
  password: boolean;
}

export interface KernelDiedEvent {
  seq: number;
  time: string;
  type: "kernel_died";
  execution_id?: string;
  reason?: string;
  generation: number;
  signal?: string;
  limit?: {
    name: string;
    value: number;
    used: number;
  };
  exit_code?: number;
}

export interface KernelResetEvent {
  seq: number;
  time: string;
  type: "kernel_reset";
  execution_id?: string;
  reason?: string;
  generation: number;
}

export interface KernelWokenEvent {
  seq: number;
  time: string;
  type: "kernel_woken";
  execution_id?: string;
  generation: number;
  not_restored: {
    name: string;
    reason?: string;
  }[];
  duration_ms: number;
}

export interface PackageInstalledEvent {
  seq: number;
  time: string;
  type: "package_installed";
  execution_id?: string;
  requirements: string[];
  ok: boolean;
}

export interface RolledBackEvent {
  seq: number;
  time: string;
  type: "rolled_back";
  execution_id?: string;
  checkpoint_id: string;
  what: string;
  undo: string;
  not_restored: {
    name: string;
    reason?: string;
  }[];
}

export interface SessionForkedEvent {
  seq: number;
  time: string;
  type: "session_forked";
  execution_id?: string;
  session_id: string;
  checkpoint_id: string;
  not_restored: Record<string, any>[];
}

export interface SessionStateEvent {
  seq: number;
  time: string;
  type: "session_state";
  execution_id?: string;
  state: string;
  reason?: string;
}

export interface StreamEvent {
  seq: number;
  time: string;
  type: "stream";
  execution_id?: string;
  name: string;
  text: string;
  truncated?: {
    bytes: number;
    sha256: string;
    url: string;
  };
}

export interface ToolCallEvent {
  seq: number;
  time: string;
  type: "tool_call";
  execution_id?: string;
  call_id: string;
  tool: string;
  arguments: any;
}

export interface ToolResultEvent {
  seq: number;
  time: string;
  type: "tool_result";
  execution_id?: string;
  call_id: string;
  ok: boolean;
  duration_ms: number;
  error?: {
    code: string;
    message: string;
  };
}

export interface UpdateDisplayDataEvent {
  seq: number;
  time: string;
  type: "update_display_data";
  execution_id?: string;
  data: Record<string, any>;
  metadata: Record<string, any>;
  display_id?: string;
}

export interface UserExpressionsEvent {
  seq: number;
  time: string;
  type: "user_expressions";
  execution_id?: string;
  values: Record<string, any>;
}

/** An event of a session's log. The server may send further types: ignore them. */
export type TalariaEvent =
  | ApprovalRequestEvent
  | ApprovalResolvedEvent
  | ArtifactEvent
  | CheckpointCreatedEvent
  | CheckpointDroppedEvent
  | ClearOutputEvent
  | CommCloseEvent
  | CommHandledEvent
  | CommMsgEvent
  | CommOpenEvent
  | DisplayDataEvent
  | DocumentChangedEvent
  | ErrorEvent
  | ExecuteResultEvent
  | ExecutionFinishedEvent
  | ExecutionQueuedEvent
  | ExecutionStartedEvent
  | InputClosedEvent
  | InputRequestEvent
  | KernelDiedEvent
  | KernelResetEvent
  | KernelWokenEvent
  | PackageInstalledEvent
  | RolledBackEvent
  | SessionForkedEvent
  | SessionStateEvent
  | StreamEvent
  | ToolCallEvent
  | ToolResultEvent
  | UpdateDisplayDataEvent
  | UserExpressionsEvent;

/** An execution as the server sends it. */
export interface RawExecution {
  id: string;
  session_id: string;
  execution_count: number | null;
  code: string;
  status: string;
  state: string;
  outputs?: Record<string, any>[];
  text: string;
  artifacts: Record<string, any>[];
  generation: number;
  usage: {
    duration_ms: number;
    cpu_ms: number;
    peak_memory_bytes: number;
  };
  tool_calls: number;
  refundable?: boolean;
  truncated_bytes: number;
  created_at: string;
  started_at: string | null;
  finished_at: string | null;
  reason?: string;
  undone?: boolean;
  outputs_omitted?: boolean;
  error?: Pick<ErrorEvent, "ename" | "evalue" | "traceback" | "hint" | "frames">;
  guard?: {
    kind: string;
    count: number;
    hint: string;
  };
  rejected_tools?: {
    name: string;
    reason?: string;
  }[];
  pending_tool_calls?: {
    call_id: string;
    tool: string;
    arguments: any;
  }[];
}
