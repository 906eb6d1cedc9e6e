import type { RawExecution, TalariaEvent } from "./events.js";
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
    /** The bytes of the picture, if the value is one. */
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
    /** The bytes of all pictures, in order. */
    get pngs(): Uint8Array<ArrayBuffer>[];
    /** The bytes of the last picture, if there is one. */
    get png(): Uint8Array<ArrayBuffer> | undefined;
}
/** Builds an execution from its events; each is taken once. */
export declare class Collector {
    #private;
    readonly execution: Execution;
    done: boolean;
    constructor(id: string);
    /** Adds an event, and returns the result that it displayed or changed. */
    take(event: TalariaEvent): Result | undefined;
}
