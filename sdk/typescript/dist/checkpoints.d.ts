/** Something that a checkpoint or a hibernating session lacks. */
export interface NotSaved {
    name: string;
    type?: string;
    reason: string;
}
/** Something that could not be restored. */
export interface NotRestored {
    name: string;
    reason: string;
}
/** What a checkpoint has besides files: variables in memory, variables on disk, or nothing. */
export type CheckpointLevel = "live" | "saved" | "files";
/** A state of a session that it can go back to. */
export interface Checkpoint {
    id: string;
    name?: string;
    /** The newest execution that had ended, or "". */
    execution_id: string;
    execution_count: number;
    created_at: string;
    level: CheckpointLevel;
    /** Why it has no variables, or why they are only on disk. */
    reason?: string;
    /** Whether a rollback made it, of the state before. */
    undo?: boolean;
    bytes: number;
    /** What it lacks. */
    not_saved: NotSaved[];
}
/** How a file or variable changed. */
export type Change = "created" | "modified" | "deleted";
/** What changed between two checkpoints. */
export interface CheckpointDiff {
    files: {
        path: string;
        change: Change;
        size: number;
    }[];
    variables: {
        name: string;
        change: Change;
    }[];
    /** There are more changes than are listed. */
    truncated?: boolean;
}
/** What a rollback restores. */
export type RollbackPart = "all" | "variables" | "files";
/** The result of a rollback. */
export interface Rollback {
    checkpoint_id: string;
    execution_id: string;
    /** A checkpoint of the state before: going back to it undoes the rollback, as far as `undo_level` allows. */
    undo: string;
    undo_level: CheckpointLevel;
    not_restored: NotRestored[];
    /** How many files were changed. */
    files: number;
    duration_ms: number;
}
