package api

// CheckpointMode says when checkpoints are made that nobody asks for.
type CheckpointMode string

// The modes of checkpoints.
const (
	CheckpointsAuto   CheckpointMode = "auto"   // after each cell, while nothing else happens
	CheckpointsManual CheckpointMode = "manual" // only on request
	CheckpointsOff    CheckpointMode = "off"    // none, and no others either
)

// CheckpointModes are all modes of checkpoints.
var CheckpointModes = []CheckpointMode{CheckpointsAuto, CheckpointsManual, CheckpointsOff}

// CheckpointLevel says what a checkpoint has besides the files of the workspace.
type CheckpointLevel string

// The levels of checkpoints.
const (
	CheckpointLive  CheckpointLevel = "live"  // the variables as they are, in a copy of the interpreter
	CheckpointSaved CheckpointLevel = "saved" // the variables that could be written to disk
	CheckpointFiles CheckpointLevel = "files" // nothing
)

// CheckpointLevels are all levels of checkpoints.
var CheckpointLevels = []CheckpointLevel{CheckpointLive, CheckpointSaved, CheckpointFiles}

// RollbackPart is what a rollback brings back.
type RollbackPart string

// The parts of a rollback.
const (
	RollbackAll       RollbackPart = "all"
	RollbackVariables RollbackPart = "variables"
	RollbackFiles     RollbackPart = "files"
)

// RollbackParts are all parts of a rollback.
var RollbackParts = []RollbackPart{RollbackAll, RollbackVariables, RollbackFiles}

// CheckpointsRequest asks for settings of checkpoints; nil ones stay as they are.
type CheckpointsRequest struct {
	Mode        *CheckpointMode `json:"mode,omitzero"`
	Keep        *int64          `json:"keep,omitzero"`
	MemoryBytes *int64          `json:"memory_bytes,omitzero"`
}

// Checkpoints are the settings of a session's checkpoints. Keep bounds those without a name. MemoryBytes bounds what live ones
// take in addition to the interpreter.
type Checkpoints struct {
	Mode        CheckpointMode `json:"mode"`
	Keep        int64          `json:"keep"`
	MemoryBytes int64          `json:"memory_bytes"`
}

// Checkpoint is a state of a session to go back to.
type Checkpoint struct {
	ID   string `json:"id"`
	Name string `json:"name,omitzero"`
	// ExecutionID is the newest execution that had ended; "" before the first.
	ExecutionID    string          `json:"execution_id"`
	ExecutionCount int64           `json:"execution_count"`
	CreatedAt      Time            `json:"created_at"`
	Level          CheckpointLevel `json:"level"`
	// Reason says why the variables are not in it, or why they are saved and not live; "" if there is nothing to say.
	Reason string `json:"reason,omitzero"`
	// Undo says that a rollback made it, of what was before.
	Undo  bool  `json:"undo,omitzero"`
	Bytes int64 `json:"bytes"` // of its files and saved variables, and of the memory that the interpreter had then if Level is live
	// NotSaved is what it does not have: variables and other things that cannot be copied or saved, and files that were not kept.
	NotSaved []NotSaved `json:"not_saved"`
}

// NotSaved is a variable, thread, connection, process or file that a checkpoint does not have.
type NotSaved struct {
	Name   string `json:"name"`
	Type   string `json:"type,omitzero"`
	Reason string `json:"reason"`
}

// NotRestored is what a rollback could not bring back.
type NotRestored struct {
	Name   string `json:"name"`
	Reason string `json:"reason"`
}

// CheckpointRequest is the body of POST on a session's checkpoints.
type CheckpointRequest struct {
	Name  *string          `json:"name,omitzero"`
	Level *CheckpointLevel `json:"level,omitzero"` // default: the first of the levels that is possible
}

// RollbackRequest is the body of POST /rollback. Exactly one of the first two is given; ExecutionID means the state right after
// that execution.
type RollbackRequest struct {
	CheckpointID *string       `json:"checkpoint_id,omitzero"`
	ExecutionID  *string       `json:"execution_id,omitzero"`
	What         *RollbackPart `json:"what,omitzero"`
	// KeepUserEdits leaves files as they are that clients or tools changed after the checkpoint.
	KeepUserEdits *bool `json:"keep_user_edits,omitzero"`
}

// RollbackReply is what a rollback has done.
type RollbackReply struct {
	CheckpointID string          `json:"checkpoint_id"`
	ExecutionID  string          `json:"execution_id"`
	Undo         string          `json:"undo"` // the checkpoint of what was before
	UndoLevel    CheckpointLevel `json:"undo_level"`
	NotRestored  []NotRestored   `json:"not_restored"`
	Files        int64           `json:"files"` // that were changed
	DurationMS   int64           `json:"duration_ms"`
}

// CheckpointDiff is what changed between two checkpoints, or between one and now.
type CheckpointDiff struct {
	Files     []FileChange     `json:"files"`
	Variables []VariableChange `json:"variables"`
	// Truncated says that there are more changes than are listed.
	Truncated bool `json:"truncated,omitzero"`
}

// FileChange is a file that differs. Size is its size at the later point.
type FileChange struct {
	Path   string `json:"path"`
	Change Change `json:"change"`
	Size   int64  `json:"size"`
}

// VariableChange is a variable that differs, as far as its type, size and preview tell.
type VariableChange struct {
	Name   string `json:"name"`
	Change Change `json:"change"`
}

type (
	// CheckpointCreated tells of a new checkpoint.
	CheckpointCreated struct {
		Checkpoint Checkpoint `json:"checkpoint"`
	}
	// CheckpointDropped tells that a checkpoint is gone, or, with a Level, what is left of it.
	CheckpointDropped struct {
		CheckpointID string          `json:"checkpoint_id"`
		Reason       string          `json:"reason"`
		Level        CheckpointLevel `json:"level,omitzero"`
	}
	// RolledBack tells that the session is as it was at a checkpoint. The event's ExecutionID is that of the checkpoint.
	RolledBack struct {
		CheckpointID string        `json:"checkpoint_id"`
		What         RollbackPart  `json:"what"`
		Undo         string        `json:"undo"`
		NotRestored  []NotRestored `json:"not_restored"`
	}
)

// EventType implements [EventBody].
func (CheckpointCreated) EventType() string { return "checkpoint_created" }

// EventType implements [EventBody].
func (CheckpointDropped) EventType() string { return "checkpoint_dropped" }

// EventType implements [EventBody].
func (RolledBack) EventType() string { return "rolled_back" }
