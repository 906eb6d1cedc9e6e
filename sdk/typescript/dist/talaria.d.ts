import { type Decide } from "./attached.js";
import type { TalariaEvent } from "./events.js";
import { type Execution, type Result } from "./execution.js";
import { Files } from "./files.js";
import { type Tool } from "./tools.js";
import { Transport, type TalariaOptions } from "./transport.js";
export type { Approval, Decide, Decision } from "./attached.js";
export type * from "./events.js";
export { TalariaError } from "./errors.js";
export { Execution, Result, type ExecutionError } from "./execution.js";
export { Files, type FileEntry } from "./files.js";
export { ToolError, type Tool, type ToolCall } from "./tools.js";
export type { TalariaOptions } from "./transport.js";
/** A session as the server describes it. */
export interface SessionInfo {
    id: string;
    state: string;
    log_id: string;
    first_seq: number;
    last_seq: number;
    [field: string]: any;
}
/** One of your tokens: for all of your sessions, or for `session` alone with `rights` until `expires_at`. */
export interface TokenInfo {
    id: string;
    session?: string;
    rights?: string[];
    created_at: string;
    expires_at?: string;
    last_used_at?: string;
}
export interface RunOptions {
    /** The execution's id, a fresh one by default. An id that ran before returns that execution. */
    id?: string;
    /** In seconds; 0 is none. */
    timeout?: number;
    silent?: boolean;
    stopOnError?: boolean;
    /** Aborting it interrupts the cell and rejects with its reason. */
    signal?: AbortSignal;
    onStdout?: (text: string) => void;
    onStderr?: (text: string) => void;
    onDisplay?: (result: Result) => void;
    onEvent?: (event: TalariaEvent) => void;
    /** Answers `input()`, which raises without it. */
    onInput?: (prompt: string, password: boolean) => string | Promise<string>;
    /** Tools that this cell alone may call, over plain HTTP; `Session.tool` has those of the session. */
    tools?: Tool[];
}
/** A server. */
export declare class Talaria {
    #private;
    constructor(options: TalariaOptions);
    /**
     * Gets the session with this id, or creates it. `options` are the fields of `PUT /v1/sessions/{id}`. `clientId` names
     * this program as a provider of tools, so that it keeps its idempotent calls when it is started again within 30 s; one
     * program at a time uses it. Without it, calls survive lost connections only.
     */
    session(id?: string, options?: Record<string, unknown>, { clientId }?: {
        clientId?: string;
    }): Promise<Session>;
    /** Lists sessions, newest first; `query` filters them as `GET /v1/sessions` does. */
    sessions(query?: Record<string, string>): Promise<SessionInfo[]>;
    /** Lists your tokens that have not expired, those for one session included, without the tokens themselves. */
    tokens(): Promise<TokenInfo[]>;
    /**
     * Revokes one of your tokens by its id, with its logins, sockets and streams. It rejects with `not_found` if the id is
     * not one of yours.
     */
    revokeToken(id: string): Promise<void>;
}
/** A session: live Python, a workspace and a log. `info` is the session as the server last described it. */
export declare class Session {
    #private;
    info: SessionInfo;
    readonly id: string;
    readonly files: Files;
    constructor(http: Transport, info: SessionInfo, clientId?: string);
    /**
     * Runs a cell and resolves once it has finished; a cell that raised has `error` set. A lost connection is
     * opened again; the cell runs once.
     */
    run(code: string, options?: RunOptions): Promise<Execution>;
    /**
     * Lets the session's cells call a function of this program: `from hermes_tools import NAME`. It resolves once the
     * server has the tool, and rejects with `tool_rejected` where it does not take it. A lost connection is opened
     * again; only a call of an `idempotent` tool goes on meanwhile, and none is carried out or answered twice. Node ends
     * only after `close`.
     */
    tool<Arguments = any>(tool: Tool<Arguments>): Promise<void>;
    /** Withdraws a tool that `tool` provided. It may be gone already. */
    removeTool(name: string): Promise<void>;
    /**
     * Has a function decide what the session asks approval for: `once`, `session` or `deny`, or undefined to leave the
     * answer to somebody else. One that throws denies.
     */
    onApproval(decide: Decide): Promise<void>;
    /** Resolves after `close` or the session's end. Rejects with why the connection for tools was lost for good. */
    serve(): Promise<void>;
    /** Withdraws the tools and the callback for approvals. The session itself stays. */
    close(): Promise<void>;
    /**
     * Yields the events of the session's log after a position, then live unless `follow` is false. Each comes once and
     * in order, through lost connections too. A log that was replaced is `log_changed`.
     */
    events(options?: {
        after?: number;
        follow?: boolean;
        logId?: string;
        signal?: AbortSignal;
    }): AsyncGenerator<TalariaEvent, void, void>;
    /** Asks the server for the session as it is now. */
    refresh(): Promise<SessionInfo>;
    /** Interrupts one execution; without an id, the running one, and cancels those that wait. */
    interrupt(executionId?: string): Promise<void>;
    /** Answers the question that a cell waits on. */
    input(value: string, requestId?: string): Promise<void>;
    /** Starts a fresh interpreter. Variables are lost; files and packages stay by default. */
    reset(options?: {
        keepFiles?: boolean;
        keepPackages?: boolean;
    }): Promise<void>;
    /** Deletes the session with its files and log. It is not an error if it is gone already. */
    delete(): Promise<void>;
    /** Downloads the bytes of one of `Execution.artifacts`, as they were then. */
    artifact(artifact: {
        url?: string;
    }): Promise<Uint8Array<ArrayBuffer>>;
}
