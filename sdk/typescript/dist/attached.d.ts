/** A question that a session asks a person before it continues. */
export interface Approval {
    approval_id: string;
    kind: "tool" | "cell" | "network" | "packages";
    /** What is requested, in one line. */
    summary: string;
    detail?: string;
    /** Without an answer by then, it is denied. */
    expires_at: string;
    execution_id?: string;
}
/** What a callback for approvals returns; undefined leaves the answer to someone else. */
export type Decision = "once" | "session" | "deny" | undefined;
export type Decide = (approval: Approval) => Decision | Promise<Decision>;
