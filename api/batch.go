package api

import (
	"bytes"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
)

// The bounds of a batch. Its body ends at [MaxBody].
const (
	MaxBatchItems = 10_000
	MaxBatchFiles = 100 // of one item
)

// BatchRequest is the body of POST batch: cells to run, in any order, but those of one session in the order given.
type BatchRequest struct {
	Items []BatchItemRequest `json:"items"`
	// Concurrency bounds the items that run at a time; nil: as many as the server runs.
	Concurrency *int64 `json:"concurrency,omitzero"`
	// DeadlineS is when what has not ended is cancelled, in seconds from now; nil: never.
	DeadlineS *float64 `json:"deadline_s,omitzero"`
}

// BatchItemRequest is one cell. Without a session it runs in one of its own, which is a fork if ForkOf names a session.
type BatchItemRequest struct {
	Session *string `json:"session,omitzero"`
	ForkOf  *string `json:"fork_of,omitzero"`
	Code    *string `json:"code,omitzero"`
	// Files are written into the workspace before the cell runs, by path.
	Files map[string]BatchFile `json:"files,omitzero"`
}

// BatchFile is the content of a file: in JSON a string, or {"base64": string} if it is not text.
type BatchFile []byte

type base64File struct {
	Base64 []byte `json:"base64"`
}

// MarshalJSON implements [json.Marshaler].
func (f BatchFile) MarshalJSON() ([]byte, error) {
	if utf8.Valid(f) {
		return Marshal(string(f))
	}
	return Marshal(base64File{f})
}

// UnmarshalJSON implements [json.Unmarshaler].
func (f *BatchFile) UnmarshalJSON(data []byte) error {
	if trimmed := bytes.TrimSpace(data); len(trimmed) > 0 && trimmed[0] == '"' {
		var text string
		err := json.Unmarshal(data, &text)
		*f = BatchFile(text)
		return err
	}
	var encoded struct {
		Base64 *[]byte `json:"base64"`
	}
	if err := json.Unmarshal(data, &encoded, json.RejectUnknownMembers(true)); err != nil || encoded.Base64 == nil {
		return Errorf(CodeInvalidRequest, `a file must be a string, or {"base64": "..."} in standard base64`)
	}
	*f = *encoded.Base64
	return nil
}

// BatchStatus is where a batch is in its life.
type BatchStatus string

// The statuses; the last two are final.
const (
	BatchQueued    BatchStatus = "queued"
	BatchRunning   BatchStatus = "running"
	BatchDone      BatchStatus = "done"
	BatchCancelled BatchStatus = "cancelled"
)

// Final reports whether a batch of this status will not change any more.
func (s BatchStatus) Final() bool { return s == BatchDone || s == BatchCancelled }

// The reasons of a cancelled batch.
const (
	BatchReasonRequest  = "request" // a DELETE
	BatchReasonDeadline = "deadline"
)

// Batch is a job that runs many cells.
type Batch struct {
	ID          string      `json:"id"`
	Status      BatchStatus `json:"status"`
	Reason      string      `json:"reason,omitzero"`      // why it was cancelled
	Concurrency int64       `json:"concurrency,omitzero"` // 0: none of its own
	DeadlineAt  *Time       `json:"deadline_at,omitzero"`
	Total       int64       `json:"total"`    // items
	Finished    int64       `json:"finished"` // items that have ended
	LastSeq     int64       `json:"last_seq"` // of its events
	CreatedAt   Time        `json:"created_at"`
	StartedAt   *Time       `json:"started_at"`
	FinishedAt  *Time       `json:"finished_at"`
	Items       []BatchItem `json:"items,omitzero"` // by index; nil in a list of batches
}

// StatusFailed is the status of an item of a batch that could not run; the item's error says why.
const StatusFailed ExecutionStatus = "failed"

// BatchItem is one cell of a batch. Its status is that of its execution, or [StatusFailed].
type BatchItem struct {
	Index       int             `json:"index"`
	Status      ExecutionStatus `json:"status"`
	SessionID   string          `json:"session_id,omitzero"`   // absent while a session has yet to be made
	ExecutionID string          `json:"execution_id,omitzero"` // absent until the session has it
	// SessionDeleted says that the session was made for the item and is gone, as the item has all that came of it.
	SessionDeleted bool            `json:"session_deleted,omitzero"`
	Execution      *BatchExecution `json:"execution,omitzero"` // once it has ended
	Error          *Error          `json:"error,omitzero"`     // why it could not run
}

// BatchExecution is what came of an item: its [Execution] without code and outputs. Text, error and artifacts are
// shortened if the batch is large.
type BatchExecution struct {
	ID               string          `json:"id"`
	SessionID        string          `json:"session_id"`
	Status           ExecutionStatus `json:"status"`
	Reason           string          `json:"reason,omitzero"`
	State            VariablesState  `json:"state"`
	Text             string          `json:"text"`
	Error            *BatchError     `json:"error,omitzero"`
	Artifacts        []Artifact      `json:"artifacts"`
	ArtifactsOmitted bool            `json:"artifacts_omitted,omitzero"` // some are missing here
	Usage            ExecutionUsage  `json:"usage"`
	CreatedAt        Time            `json:"created_at"`
	StartedAt        *Time           `json:"started_at"`
	FinishedAt       *Time           `json:"finished_at"`
}

// BatchError is an exception that reached the end of a cell; the traceback is part of the text.
type BatchError struct {
	Ename  string `json:"ename"`
	Evalue string `json:"evalue"`
}

// The types of a batch's events.
const (
	BatchEventJob  = "job"
	BatchEventItem = "item"
)

// BatchEvent says that a batch or one of its items has a new status. Seq begins at 1 and has no gaps.
type BatchEvent struct {
	Seq    int64       `json:"seq"`
	Time   Time        `json:"time"`
	Type   string      `json:"type"`            // BatchEventJob or BatchEventItem
	Status BatchStatus `json:"status,omitzero"` // of the batch
	Reason string      `json:"reason,omitzero"` // of the batch
	Item   *BatchItem  `json:"item,omitzero"`   // as it was then
}
