/** A request that failed. A cell that raises is not one: see `Execution.error`. */
export declare class TalariaError extends Error {
    readonly code: string;
    readonly status: number;
    readonly hint: string;
    /** `code` is a stable word to branch on, `unreachable` when no server answers; `status` is 0 without an answer. */
    constructor(code: string, message: string, status?: number, options?: ErrorOptions);
}
