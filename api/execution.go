package api

import (
	"net/url"
	"strings"
)

// ExecutionStatus is where an execution is in its life.
type ExecutionStatus string

// The statuses; all but the first two are final.
const (
	StatusQueued      ExecutionStatus = "queued"
	StatusRunning     ExecutionStatus = "running"
	StatusOK          ExecutionStatus = "ok"
	StatusError       ExecutionStatus = "error"
	StatusTimeout     ExecutionStatus = "timeout"
	StatusInterrupted ExecutionStatus = "interrupted"
	StatusCancelled   ExecutionStatus = "cancelled"
	StatusDied        ExecutionStatus = "died"
)

// ExecutionStatuses are all statuses of an execution.
var ExecutionStatuses = []ExecutionStatus{
	StatusQueued, StatusRunning, StatusOK, StatusError, StatusTimeout, StatusInterrupted, StatusCancelled, StatusDied,
}

// Final reports whether an execution of this status will not change any more.
func (s ExecutionStatus) Final() bool { return s != StatusQueued && s != StatusRunning }

// VariablesState says what became of the variables.
type VariablesState string

// The variables after an execution.
const (
	VariablesKept VariablesState = "kept"
	VariablesLost VariablesState = "lost"
)

// ExecutionRequest is the body of POST executions and of an execute frame. A nil field was not given.
type ExecutionRequest struct {
	ID          *string  `json:"id,omitzero"`
	Code        *string  `json:"code,omitzero"`
	TimeoutS    *float64 `json:"timeout_s,omitzero"`
	Silent      *bool    `json:"silent,omitzero"`
	StopOnError *bool    `json:"stop_on_error,omitzero"`
	AllowStdin  *bool    `json:"allow_stdin,omitzero"`
	Checkpoint  *bool    `json:"checkpoint,omitzero"` // make one before the cell runs
	Force       *bool    `json:"force,omitzero"`      // run it even where the guard would refuse it
	// Tools are carried out by whoever sends the request: see Execution.PendingToolCalls.
	Tools []Tool `json:"tools,omitzero"`

	// What follows comes from other protocols only.

	// Expressions are evaluated after the code, by name: see [UserExpressions].
	Expressions map[string]string `json:"-"`
	// Origin is kept with the execution for the front that submits it.
	Origin []byte `json:"-"`
}

// PackagesRequest is the body of POST packages. A nil field was not given.
type PackagesRequest struct {
	Requirements []string `json:"requirements"`
	ID           *string  `json:"id,omitzero"` // of the execution that installs
	TimeoutS     *float64 `json:"timeout_s,omitzero"`
}

// Execution is one numbered run of a cell.
type Execution struct {
	ID             string          `json:"id"`
	SessionID      string          `json:"session_id"`
	ExecutionCount *int64          `json:"execution_count"`
	Code           string          `json:"code"`
	Status         ExecutionStatus `json:"status"`
	Reason         string          `json:"reason,omitzero"`
	State          VariablesState  `json:"state"`
	// Undone says that the session went back to a point before the execution.
	Undone         bool           `json:"undone,omitzero"`
	Outputs        []Output       `json:"outputs,omitzero"`         // nil where outputs are left out
	OutputsOmitted bool           `json:"outputs_omitted,omitzero"` // some are missing here; its events have those that the log keeps
	Text           string         `json:"text"`
	Error          *ErrorOutput   `json:"error,omitzero"`
	Artifacts      []Artifact     `json:"artifacts"`
	Generation     int64          `json:"generation"`
	Usage          ExecutionUsage `json:"usage"`
	ToolCalls      int64          `json:"tool_calls"`
	// Refundable says that the execution has ended and had no effect outside of the session: it called no tool but built-in ones,
	// installed nothing, and had neither a network nor a writable mount.
	Refundable bool   `json:"refundable,omitzero"`
	Guard      *Guard `json:"guard,omitzero"`
	// PendingToolCalls wait for the client that gave the execution its tools.
	PendingToolCalls []PendingToolCall `json:"pending_tool_calls,omitzero"`
	RejectedTools    []RejectedTool    `json:"rejected_tools,omitzero"` // of those in the request
	TruncatedBytes   int64             `json:"truncated_bytes"`
	CreatedAt        Time              `json:"created_at"`
	StartedAt        *Time             `json:"started_at"`
	FinishedAt       *Time             `json:"finished_at"`
}

// GuardRepeatedFailure is the guard's kind for the same cell failing with the same error.
const GuardRepeatedFailure = "repeated_failure"

// Guard says that an execution repeats what went wrong before: how often so far, and what to do about it.
type Guard struct {
	Kind  string `json:"kind"`
	Count int64  `json:"count"`
	Hint  string `json:"hint"`
}

// ErrorOutput is an exception that reached the end of a cell.
type ErrorOutput struct {
	Ename     string   `json:"ename"`
	Evalue    string   `json:"evalue"`
	Traceback []string `json:"traceback"`
	// Hint is what to do about a common error, or "". The last line of the traceback says it too.
	Hint string `json:"hint,omitzero"`
	// Frames are those that the traceback shows, in its order: a reader may fold what is not the user's.
	Frames []ErrorFrame `json:"frames,omitzero"`
}

// ErrorFrame is a frame of a traceback. Its lines are those from TracebackStart on, before TracebackEnd.
type ErrorFrame struct {
	File           string `json:"file"`
	Line           int64  `json:"line"`
	Function       string `json:"function"`
	User           bool   `json:"user"`          // the code is a cell's or a workspace file's, no library's
	Cell           string `json:"cell,omitzero"` // the id of the execution whose cell it is
	TracebackStart int    `json:"traceback_start"`
	TracebackEnd   int    `json:"traceback_end"`
}

// ExecutionUsage is what an execution took.
type ExecutionUsage struct {
	DurationMS      int64 `json:"duration_ms"`
	CPUMS           int64 `json:"cpu_ms"`
	PeakMemoryBytes int64 `json:"peak_memory_bytes"`
}

// Artifact is a file that an execution created, changed or deleted. All but Path and Change are absent for a
// deleted one. The bytes of an Omitted one were not kept, and it has no SHA256 and no URL.
type Artifact struct {
	Path      string `json:"path"`
	Change    Change `json:"change"`
	Size      *int64 `json:"size,omitzero"`
	MediaType string `json:"media_type,omitzero"`
	SHA256    string `json:"sha256,omitzero"`
	URL       string `json:"url,omitzero"`
	Omitted   bool   `json:"omitted,omitzero"`
}

// SessionArtifact is an artifact in the list of a session: with the execution that made it, and its event.
type SessionArtifact struct {
	Artifact
	ExecutionID string `json:"execution_id"`
	Seq         int64  `json:"seq"`
	Time        Time   `json:"time"`
}

// Change is what an execution did to a file.
type Change string

// The changes.
const (
	Created  Change = "created"
	Modified Change = "modified"
	Deleted  Change = "deleted"
)

// ArtifactURL is where the bytes of a digest are served.
func ArtifactURL(sha256 string) string { return "/v1/artifacts/" + sha256 }

// FileURL is where a file of a session is served, as it is now.
func FileURL(session, path string) string {
	parts := strings.Split(path, "/")
	for i, part := range parts {
		parts[i] = url.PathEscape(part)
	}
	return "/v1/sessions/" + url.PathEscape(session) + "/files/" + strings.Join(parts, "/")
}

// File is an entry of a folder of the workspace. Kind is "file", "directory", "symlink" or "other".
type File struct {
	Name       string `json:"name"`
	Path       string `json:"path"`
	Kind       string `json:"kind"`
	Size       int64  `json:"size"`
	ModifiedAt Time   `json:"modified_at"`
	MediaType  string `json:"media_type,omitzero"`
}
