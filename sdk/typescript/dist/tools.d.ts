/** A function of this program that cells call: `from hermes_tools import NAME`. */
export interface Tool<Arguments = any> {
    name: string;
    /** Tells the cell's author what the tool does; it becomes the docstring of the function there. */
    description?: string;
    /** The JSON Schema of the arguments, an object. Without it, any arguments are accepted, by name. */
    parameters?: Record<string, unknown>;
    /**
     * Carries a call out. What it returns is converted to JSON; what it throws becomes a `ToolError` in the cell, with the code of
     * a `ToolError` of this library. Any number of calls may run at once.
     */
    run(args: Arguments, call: ToolCall): unknown;
    /** How many seconds one call may take; 300 by default. */
    timeoutS?: number;
    /** Whether a call may be carried out twice without harm. Such calls survive a lost connection. */
    idempotent?: boolean;
    /** Whether it changes nothing. */
    readOnly?: boolean;
    /** Whether a person is asked before each call. */
    requiresApproval?: boolean;
}
/** A call of a tool. */
export interface ToolCall {
    /** Stays the same when an idempotent call is made again after a reconnect. */
    readonly id: string;
    readonly tool: string;
    /** The id of the cell's execution. */
    readonly executionId: string;
    /** When the server gives up on the call, by its clock. Missing for a tool that was passed to `run`. */
    readonly deadline?: Date;
    /** Is aborted when the call is cancelled; its reason is a TalariaError, code `call_cancelled`. */
    readonly signal: AbortSignal;
    /** Reports the progress of the call to the cell. It does nothing for a tool that was passed to `run`. */
    progress(message: string): void;
}
/** Throw this in a tool to give the cell an error: `hermes_tools.ToolError` with this `code` and `message`. */
export declare class ToolError extends Error {
    readonly code: string;
    constructor(message: string, code?: string, options?: ErrorOptions);
}
