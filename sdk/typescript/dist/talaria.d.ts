import { type Decide } from "./attached.js";
import type { Checkpoint, CheckpointDiff, CheckpointLevel, NotRestored, NotSaved, Rollback, RollbackPart } from "./checkpoints.js";
import type { TalariaEvent } from "./events.js";
import { Execution, type Result } from "./execution.js";
import { Files } from "./files.js";
import { type MapCode, type MapOptions, type MapResult } from "./map.js";
import { type Tool } from "./tools.js";
import { Transport, type TalariaOptions } from "./transport.js";
export type { Approval, Decide, Decision } from "./attached.js";
export type { Checkpoint, CheckpointDiff, CheckpointLevel, NotRestored, NotSaved, Rollback, RollbackPart } from "./checkpoints.js";
export type * from "./events.js";
export { TalariaError } from "./errors.js";
export { Execution, Result, type ExecutionError } from "./execution.js";
export { Files, type FileEntry } from "./files.js";
export { MapResult, type MapCode, type MapItem, type MapOptions } from "./map.js";
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
    rights?: Right[];
    created_at: string;
    expires_at?: string;
    last_used_at?: string;
}
/** What a session token may do: read (which every token may), run cells, change files, or use terminals. */
export type Right = "read" | "run" | "write" | "terminal";
/** A token for one session. */
export interface SessionToken {
    id: string;
    token: string;
    rights: Right[];
    created_at: string;
    expires_at: string;
}
export interface SessionOptions {
    /**
     * Names this program as a provider of tools, so that it keeps its idempotent calls when it is restarted within 30 s;
     * only one program may use it at a time. Without it, calls survive only lost connections.
     */
    clientId?: string;
    /** A session that exists with other settings: `keep` takes it as it is, `apply` changes it; by default `session_conflict`. */
    ifExists?: "keep" | "apply";
}
export interface RunOptions {
    /** The execution's id, a fresh one by default. The id of an earlier execution returns that execution. */
    id?: string;
    /** In seconds; 0 means none. */
    timeout?: number;
    silent?: boolean;
    stopOnError?: boolean;
    /** Makes a checkpoint right before the cell runs. */
    checkpoint?: boolean;
    /** Aborting it interrupts the cell and rejects with its reason. */
    signal?: AbortSignal;
    onStdout?: (text: string) => void;
    onStderr?: (text: string) => void;
    onDisplay?: (result: Result) => void;
    onEvent?: (event: TalariaEvent) => void;
    /** Answers `input()`, which raises without it. */
    onInput?: (prompt: string, password: boolean) => string | Promise<string>;
    /** Tools that only this cell may call, over plain HTTP; see `Session.tool` for those of the session. */
    tools?: Tool[];
}
/** A server. */
export declare class Talaria {
    #private;
    constructor(options: TalariaOptions);
    /**
     * Gets the session with this id, or creates it. `settings` are the fields of `PUT /v1/sessions/{id}`. With a token for
     * one session, pass the id of that session and no settings.
     */
    session(id?: string, settings?: Record<string, unknown>, { clientId, ifExists }?: SessionOptions): Promise<Session>;
    /** Lists sessions, newest first; `query` filters them as `GET /v1/sessions` does. */
    sessions(query?: Record<string, string>): Promise<SessionInfo[]>;
    /** Lists your tokens that have not expired, including session tokens, without the tokens themselves. */
    tokens(): Promise<TokenInfo[]>;
    /**
     * Revokes one of your tokens by its id, and ends its logins, sockets and streams. It rejects with `not_found` if the
     * id is not one of yours.
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
     * Runs a cell and resolves once it has finished; a cell that raised has `error` set. A lost connection is reopened;
     * the cell runs only once.
     */
    run(code: string, options?: RunOptions): Promise<Execution>;
    /**
     * Runs a cell, or a function of the session, for each of the inputs, in copies of the interpreter. It resolves with all
     * items in the order of the inputs once the map has ended. A lost connection is reopened; nothing runs twice.
     */
    map(code: MapCode, inputs: unknown[], options?: MapOptions): Promise<MapResult>;
    /**
     * Makes a checkpoint of the variables and files as they are now, while no cell runs or waits. Checkpoints without a
     * name make room for newer ones. `level` is `live` for variables in memory, exactly as they are; `saved` for variables on disk,
     * which survive the kernel and can be forked; or `files`. By default it is the first of these that is possible.
     */
    checkpoint(name?: string, { level }?: {
        level?: CheckpointLevel;
    }): Promise<Checkpoint>;
    /** Lists the session's checkpoints, newest first. */
    checkpoints(): Promise<Checkpoint[]>;
    /** Resolves with what changed between a checkpoint and another one, or since a checkpoint. */
    diff(checkpoint: Checkpoint | string, to?: Checkpoint | string): Promise<CheckpointDiff>;
    /** Deletes a checkpoint, given as an object or by its id. It is not an error if it no longer exists. */
    deleteCheckpoint(checkpoint: Checkpoint | string): Promise<void>;
    /**
     * Takes the session back to a checkpoint, given as an object or by its id, or to the state right after an execution.
     * `keepUserEdits` leaves alone the files that no cell has changed since. If the checkpoint does not have what is
     * requested, it rejects with `checkpoint_gone` and changes nothing.
     */
    rollback(to: Checkpoint | Execution | string, { what, keepUserEdits }?: {
        what?: RollbackPart;
        keepUserEdits?: boolean;
    }): Promise<Rollback>;
    /**
     * Creates up to 64 sessions with the variables, files, packages and settings that this one has now; this one
     * continues undisturbed. It rejects with `kernel_busy` while a cell runs or waits. `name` is their display name.
     * `info.not_restored` of a fork names what could not be copied. If only some forks can be created, for example
     * because of a limit, it resolves with those; if none can, it rejects. With a checkpoint, variables and files come
     * from the checkpoint.
     */
    fork(count?: number, name?: string, { checkpoint }?: {
        checkpoint?: Checkpoint | string;
    }): Promise<Session[]>;
    /**
     * Creates a token for this session only, for a program that must not have yours, such as a page. By default, `rights`
     * is only `read`, and `expires`, in seconds, is an hour. `id` in the result is for `revokeToken`.
     */
    token({ rights, expires }?: {
        rights?: Right[];
        expires?: number;
    }): Promise<SessionToken>;
    /**
     * Saves the variables to disk and ends the interpreter; the next cell, or `wake`, restores them. It resolves with what
     * could not be saved, and rejects with `kernel_busy` while a cell runs or waits.
     */
    hibernate(): Promise<NotSaved[]>;
    /** Starts an interpreter with the saved variables, if none is running. It resolves with what could not be restored. */
    wake(): Promise<NotRestored[]>;
    /**
     * Lets the session's cells call a function of this program: `from hermes_tools import NAME`. It resolves once the
     * server has the tool, and rejects with `tool_rejected` if the server rejects it. A lost connection is reopened; only
     * a call of an `idempotent` tool continues meanwhile, and no call is executed or answered twice. Node exits only
     * after `close`.
     */
    tool<Arguments = any>(tool: Tool<Arguments>): Promise<void>;
    /** Withdraws a tool that `tool` provided. It is not an error if it is no longer provided. */
    removeTool(name: string): Promise<void>;
    /**
     * Lets a function decide what the session asks approval for: `once`, `session` or `deny`, or undefined to leave the
     * answer to somebody else. If it throws, the answer is `deny`.
     */
    onApproval(decide: Decide): Promise<void>;
    /** Resolves after `close` or the session's end. Rejects with the reason if the connection for tools is lost for good. */
    serve(): Promise<void>;
    /** Withdraws the tools and the callback for approvals. The session itself stays. */
    close(): Promise<void>;
    /**
     * Yields the events of the session's log after a position, then live unless `follow` is false. Each event arrives
     * once and in order, even if the connection is lost. If the log was replaced, it rejects with `log_changed`.
     */
    events(options?: {
        after?: number;
        follow?: boolean;
        logId?: string;
        signal?: AbortSignal;
    }): AsyncGenerator<TalariaEvent, void, void>;
    /** Fetches the current state of the session from the server. */
    refresh(): Promise<SessionInfo>;
    /** Interrupts one execution; without an id, interrupts the running one and cancels those that wait. */
    interrupt(executionId?: string): Promise<void>;
    /** Answers the question that a cell is asking. */
    input(value: string, requestId?: string): Promise<void>;
    /** Starts a fresh interpreter. Variables are lost; files and packages stay by default. */
    reset(options?: {
        keepFiles?: boolean;
        keepPackages?: boolean;
    }): Promise<void>;
    /** Deletes the session with its files and log. It is not an error if it no longer exists. */
    delete(): Promise<void>;
    /** Downloads the bytes of one of `Execution.artifacts`, as the cell left them. */
    artifact(artifact: {
        url?: string;
    }): Promise<Uint8Array<ArrayBuffer>>;
}
