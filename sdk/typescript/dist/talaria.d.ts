import type { RawExecution, TalariaEvent } from "./events.js";
export type * from "./events.js";
/** A request that failed. A cell that raises is not one: see `Execution.error`. */
export declare class TalariaError extends Error {
    readonly code: string;
    readonly status: number;
    readonly hint: string;
    /** `code` is a stable word to branch on, `unreachable` when no server answers; `status` is 0 without an answer. */
    constructor(code: string, message: string, status?: number, options?: ErrorOptions);
}
export interface TalariaOptions {
    url: string;
    token: string;
    /** How many milliseconds a call keeps trying to reach a server that it has reached before; 60,000 by default. */
    outage?: number;
}
/** A session as the server describes it. */
export interface SessionInfo {
    id: string;
    state: string;
    log_id: string;
    first_seq: number;
    last_seq: number;
    [field: string]: any;
}
export interface FileEntry {
    name: string;
    path: string;
    kind: "file" | "directory" | "symlink" | "other";
    size: number;
    modified_at: string;
    media_type?: string;
}
/** A value that a cell displayed, in every form that it has. */
export declare class Result {
    data: Record<string, any>;
    metadata: Record<string, any>;
    readonly displayId?: string | undefined;
    /** Whether it is the value of the cell's last expression. */
    readonly isMain: boolean;
    constructor(data: Record<string, any>, metadata: Record<string, any>, displayId?: string | undefined, 
    /** Whether it is the value of the cell's last expression. */
    isMain?: boolean);
    get text(): string;
    /** Not sanitized. */
    get html(): string | undefined;
    /** The bytes of the picture, if it is one. */
    get png(): Uint8Array<ArrayBuffer> | undefined;
}
export interface ExecutionError {
    name: string;
    value: string;
    traceback: string;
    hint?: string;
}
/** A cell that has finished. */
export declare class Execution {
    readonly id: string;
    status: string;
    reason?: string;
    /** What became of the variables: `kept` or `lost`. */
    state: string;
    /** What a language model should read. */
    text: string;
    stdout: string;
    stderr: string;
    results: Result[];
    error?: ExecutionError;
    artifacts: Record<string, any>[];
    /** The execution as the server sent it. */
    raw?: Omit<RawExecution, "outputs">;
    constructor(id: string);
    /** Whether the cell ran to its end without an exception. */
    get ok(): boolean;
    /** The bytes of all pictures, in their order. */
    get pngs(): Uint8Array<ArrayBuffer>[];
    /** The bytes of the last picture, if there is one. */
    get png(): Uint8Array<ArrayBuffer> | undefined;
}
export interface RunOptions {
    /** The execution's id, a fresh one by default. An id that ran before gives that execution again. */
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
}
interface Call {
    method: string;
    path: string;
    query?: Record<string, string>;
    body?: BodyInit;
    headers?: Record<string, string>;
    /** Whether it may be sent again when the connection was lost; by default, whether the method is idempotent. */
    repeatable?: boolean;
    signal?: AbortSignal;
}
declare class Transport {
    #private;
    readonly url: string;
    readonly outage: number;
    constructor(options: TalariaOptions);
    unreachable(cause: any): TalariaError;
    json(method: string, path: string, body?: unknown, extra?: Partial<Call>): Promise<any>;
    send(call: Call): Promise<Response>;
    /** Yields events, each once and in order, over one connection after the other. */
    events(request: (after: number) => Call, after: number, signal?: AbortSignal, follow?: boolean): AsyncGenerator<TalariaEvent, void, void>;
}
/** A server. */
export declare class Talaria {
    #private;
    constructor(options: TalariaOptions);
    /** Gets the session with this id, or creates it. `options` are the fields of `PUT /v1/sessions/{id}`. */
    session(id?: string, options?: Record<string, unknown>): Promise<Session>;
    /** Lists sessions, newest first; `query` filters them as `GET /v1/sessions` does. */
    sessions(query?: Record<string, string>): Promise<SessionInfo[]>;
}
/** A session: live Python, a workspace and a log. `info` is the session as the server last described it. */
export declare class Session {
    #private;
    info: SessionInfo;
    readonly id: string;
    readonly files: Files;
    constructor(http: Transport, info: SessionInfo);
    /**
     * Runs a cell and resolves once it has finished; a cell that raised has `error` set. A lost connection is taken up
     * again; the cell runs once.
     */
    run(code: string, options?: RunOptions): Promise<Execution>;
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
    /** Starts a fresh interpreter. Variables are lost; files and packages stay unless told otherwise. */
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
/** The files of a session. Paths are relative to its workspace. */
export declare class Files {
    #private;
    private readonly base;
    constructor(http: Transport, base: string);
    /** Lists one folder by name. */
    list(folder?: string): Promise<FileEntry[]>;
    /** Downloads a file. */
    read(name: string): Promise<Uint8Array<ArrayBuffer>>;
    /** Downloads a file piece by piece. */
    stream(name: string): Promise<ReadableStream<Uint8Array>>;
    /** Uploads a file in one step, with its folders. A stream works in Node and in Chromium over HTTP/2. */
    write(name: string, data: string | Uint8Array<ArrayBuffer> | Blob | ReadableStream): Promise<FileEntry>;
    /** Deletes a file, a link itself, or a folder with everything in it. It may be gone already. */
    delete(name: string): Promise<void>;
}
