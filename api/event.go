package api

import (
	"bytes"
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Event is one entry of a session's log. Body decides its type.
type Event struct {
	Seq         int64
	Time        Time
	ExecutionID string
	Body        EventBody
}

// EventBody is the part of an event that its type decides: one of the structs of this file, or [RawEvent].
type EventBody interface{ EventType() string }

// MIMEBundle is a representation of a value in several media types: strings, or JSON for JSON types.
type MIMEBundle map[string]Raw

type (
	// SessionStateEvent tells that the session's state changed.
	SessionStateEvent struct {
		State  SessionState `json:"state"`
		Reason string       `json:"reason,omitzero"`
	}
	// ExecutionQueued tells that a cell waits.
	ExecutionQueued struct {
		Code string `json:"code"`
	}
	// ExecutionStarted tells that a cell runs. ExecutionCount is nil for a silent one.
	ExecutionStarted struct {
		Code           string `json:"code"`
		ExecutionCount *int64 `json:"execution_count"`
	}
	// ExecutionFinished is the last event of an execution; its Outputs are left out.
	ExecutionFinished struct {
		Execution Execution `json:"execution"`
	}
	// Stream is text that was printed. Name is "stdout" or "stderr".
	Stream struct {
		Name      string     `json:"name"`
		Text      string     `json:"text"`
		Truncated *Truncated `json:"truncated,omitzero"`
	}
	// DisplayData is a value shown by the cell.
	DisplayData struct {
		Data      MIMEBundle     `json:"data"`
		Metadata  map[string]Raw `json:"metadata"`
		DisplayID string         `json:"display_id,omitzero"`
	}
	// UpdateDisplayData replaces what was shown under a display id.
	UpdateDisplayData struct {
		Data      MIMEBundle     `json:"data"`
		Metadata  map[string]Raw `json:"metadata"`
		DisplayID string         `json:"display_id,omitzero"`
	}
	// ExecuteResult is the value of a cell's last expression.
	ExecuteResult struct {
		Data           MIMEBundle     `json:"data"`
		Metadata       map[string]Raw `json:"metadata"`
		ExecutionCount int64          `json:"execution_count"`
	}
	// ErrorEvent is an exception that reached the end of a cell.
	// Limit is the limit that is behind it, if one is known to be.
	ErrorEvent struct {
		ErrorOutput
		Limit *Limit `json:"limit,omitzero"`
	}
	// ClearOutput empties the cell's output, with Wait only when the next output comes.
	ClearOutput struct {
		Wait bool `json:"wait"`
	}
	// InputRequested is a question of the cell.
	InputRequested struct {
		RequestID string `json:"request_id"`
		Prompt    string `json:"prompt"`
		Password  bool   `json:"password"`
	}
	// InputClosed tells that a question is open no longer. How is "answered", "interrupted" or "timeout".
	InputClosed struct {
		RequestID string `json:"request_id"`
		How       string `json:"how"`
	}
	// ArtifactEvent tells of a file that the cell made, changed or deleted, with its bytes where they are few.
	ArtifactEvent struct {
		Artifact
		Data []byte `json:"data,omitzero"`
	}
	// KernelDied tells that an interpreter ended by itself or by a limit.
	KernelDied struct {
		Reason     string `json:"reason"`
		Generation int64  `json:"generation"`
		ExitCode   *int64 `json:"exit_code,omitzero"`
		Signal     string `json:"signal,omitzero"`
		Limit      *Limit `json:"limit,omitzero"`
	}
	// KernelReset tells that a fresh interpreter takes over, in Generation.
	KernelReset struct {
		Reason     string `json:"reason"`
		Generation int64  `json:"generation"`
	}
	// PackageInstalled tells that an installation has ended. Where it is not OK, nothing has changed.
	PackageInstalled struct {
		Requirements []string `json:"requirements"`
		OK           bool     `json:"ok"`
	}
	// ToolCalled tells that a cell calls a tool.
	ToolCalled struct {
		CallID    string `json:"call_id"`
		Tool      string `json:"tool"`
		Arguments Raw    `json:"arguments"`
	}
	// ToolReturned tells how a call ended.
	ToolReturned struct {
		CallID     string     `json:"call_id"`
		OK         bool       `json:"ok"`
		Error      *ToolError `json:"error,omitzero"`
		DurationMS int64      `json:"duration_ms"`
	}
	// ApprovalRequested asks a person for an approval.
	ApprovalRequested struct {
		ApprovalID string       `json:"approval_id"`
		CallID     string       `json:"call_id,omitzero"`
		Kind       ApprovalKind `json:"kind"`
		Summary    string       `json:"summary"`
		Detail     string       `json:"detail"`
		Patterns   []string     `json:"patterns,omitzero"`
		ExpiresAt  Time         `json:"expires_at"`
	}
	// ApprovalResolved tells how the question ended. By is empty where nobody decided.
	ApprovalResolved struct {
		ApprovalID string           `json:"approval_id"`
		Decision   ApprovalDecision `json:"decision"`
		By         string           `json:"by,omitzero"`
		Reason     string           `json:"reason,omitzero"`
	}
	// DocumentChanged tells that the notebook page's document has a new revision.
	DocumentChanged struct {
		Revision int64 `json:"revision"`
	}
	// RawEvent is an event that is not decoded: as the log keeps it, or of a type that this program does not know.
	// JSON is the whole event, head included; it is shared and must not be changed.
	RawEvent struct {
		Type string
		JSON Raw
	}
)

// Truncated is the notice that a log lacks bytes of a stream; the artifact holds the whole.
type Truncated struct {
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256,omitzero"` // "" where limits.artifact_bytes had no room to keep it
	URL    string `json:"url,omitzero"`
}

// Limit names a limit that was hit.
type Limit struct {
	Name  string `json:"name"`
	Value int64  `json:"value"`
	Used  int64  `json:"used"`
}

func (SessionStateEvent) EventType() string { return "session_state" }
func (ExecutionQueued) EventType() string   { return "execution_queued" }
func (ExecutionStarted) EventType() string  { return "execution_started" }
func (ExecutionFinished) EventType() string { return "execution_finished" }
func (Stream) EventType() string            { return "stream" }
func (DisplayData) EventType() string       { return "display_data" }
func (UpdateDisplayData) EventType() string { return "update_display_data" }
func (ExecuteResult) EventType() string     { return "execute_result" }
func (ErrorEvent) EventType() string        { return "error" }
func (ClearOutput) EventType() string       { return "clear_output" }
func (InputRequested) EventType() string    { return "input_request" }
func (InputClosed) EventType() string       { return "input_closed" }
func (ArtifactEvent) EventType() string     { return "artifact" }
func (KernelDied) EventType() string        { return "kernel_died" }
func (KernelReset) EventType() string       { return "kernel_reset" }
func (PackageInstalled) EventType() string  { return "package_installed" }
func (ToolCalled) EventType() string        { return "tool_call" }
func (ToolReturned) EventType() string      { return "tool_result" }
func (ApprovalRequested) EventType() string { return "approval_request" }
func (ApprovalResolved) EventType() string  { return "approval_resolved" }
func (DocumentChanged) EventType() string   { return "document_changed" }
func (e RawEvent) EventType() string        { return e.Type }

type eventHead struct {
	Seq         int64  `json:"seq"`
	Time        Time   `json:"time"`
	Type        string `json:"type"`
	ExecutionID string `json:"execution_id,omitzero"`
}

// MarshalJSON writes the event as one flat object: the head, then the fields of its body.
func (e Event) MarshalJSON() ([]byte, error) {
	if raw, ok := e.Body.(RawEvent); ok {
		return raw.JSON, nil
	}
	head, err := Marshal(eventHead{e.Seq, e.Time, e.Body.EventType(), e.ExecutionID})
	if err != nil {
		return nil, err
	}
	body, err := Marshal(e.Body)
	if err != nil {
		return nil, err
	}
	return join(head, body), nil
}

// UnmarshalJSON reads an event; a type that is not known becomes an [RawEvent], and fields that are not known
// are passed over, so that an older client reads a newer server.
func (e *Event) UnmarshalJSON(data []byte) error {
	var head eventHead
	if err := json.Unmarshal(data, &head); err != nil {
		return err
	}
	*e = Event{Seq: head.Seq, Time: head.Time, ExecutionID: head.ExecutionID}
	decode, ok := decoders[head.Type]
	if !ok {
		e.Body = RawEvent{Type: head.Type, JSON: bytes.Clone(data)}
		return nil
	}
	body, err := decode(data)
	if err != nil {
		return fmt.Errorf("event %d of type %s: %w", head.Seq, head.Type, err)
	}
	e.Body = body
	return nil
}

// Decoded is the event with its body decoded where it is a [RawEvent] of a known type.
func (e Event) Decoded() (Event, error) {
	raw, ok := e.Body.(RawEvent)
	if !ok {
		return e, nil
	}
	var out Event
	err := json.Unmarshal(raw.JSON, &out)
	return out, err
}

// eventKinds are all types of events. What decodes, describes or checks events is made from this list.
var eventKinds = []eventKind{
	kindOf[SessionStateEvent](),
	kindOf[ExecutionQueued](),
	kindOf[ExecutionStarted](),
	kindOf[ExecutionFinished](),
	kindOf[Stream](),
	kindOf[DisplayData](),
	kindOf[UpdateDisplayData](),
	kindOf[ExecuteResult](),
	kindOf[ErrorEvent](),
	kindOf[ClearOutput](),
	kindOf[InputRequested](),
	kindOf[InputClosed](),
	kindOf[ArtifactEvent](),
	kindOf[KernelDied](),
	kindOf[KernelReset](),
	kindOf[PackageInstalled](),
	kindOf[ToolCalled](),
	kindOf[ToolReturned](),
	kindOf[ApprovalRequested](),
	kindOf[ApprovalResolved](),
	kindOf[DocumentChanged](),
	kindOf[CommOpened](),
	kindOf[CommSent](),
	kindOf[CommClosed](),
	kindOf[CommHandled](),
	kindOf[UserExpressions](),
	kindOf[CheckpointCreated](),
	kindOf[CheckpointDropped](),
	kindOf[RolledBack](),
	kindOf[KernelWoken](),
	kindOf[SessionForked](),
}

// eventKind is one type of events.
type eventKind struct {
	zero   EventBody
	decode func([]byte) (EventBody, error)
}

func kindOf[T EventBody]() eventKind {
	var zero T
	return eventKind{zero: zero, decode: func(data []byte) (EventBody, error) {
		var body T
		err := json.Unmarshal(data, &body)
		return body, err
	}}
}

// EventBodies are the bodies of all types of events, without values.
func EventBodies() []EventBody {
	bodies := make([]EventBody, len(eventKinds))
	for i, kind := range eventKinds {
		bodies[i] = kind.zero
	}
	return bodies
}

var decoders = func() map[string]func([]byte) (EventBody, error) {
	all := map[string]func([]byte) (EventBody, error){}
	for _, kind := range eventKinds {
		all[kind.zero.EventType()] = kind.decode
	}
	return all
}()

// Text is s as a JSON string, for a [MIMEBundle].
func Text(s string) Raw {
	raw, err := jsontext.AppendQuote(nil, s)
	if err != nil { // invalid UTF-8 was replaced
		return raw
	}
	return raw
}

// EncodeBody is the body's JSON and type, as a log keeps them.
func EncodeBody(body EventBody) (typ string, encoded []byte, err error) {
	encoded, err = Marshal(body)
	return body.EventType(), encoded, err
}

// JoinEvent makes the event that has this head and this encoded body. The bytes are the same for the same arguments,
// forever: logs of earlier versions rely on it.
func JoinEvent(seq int64, at Time, typ, executionID string, body []byte) Event {
	head, err := Marshal(eventHead{seq, at, typ, executionID})
	if err != nil {
		panic(err) // strings and numbers always encode
	}
	return Event{seq, at, executionID, RawEvent{typ, join(head, body)}}
}

func join(head, body []byte) []byte {
	if string(body) == "{}" {
		return head
	}
	out := make([]byte, 0, len(head)+len(body))
	out = append(out, head[:len(head)-1]...)
	out = append(out, ',')
	return append(out, body[1:]...)
}
