package record

import "encoding/json"

// Bounds of the call of a tool.
const (
	MaxToolName      = 256     // bytes
	MaxToolArguments = 1 << 20 // bytes of JSON
)

// ToolsRequest asks which tools the execution may call.
type ToolsRequest struct{}

// Kind implements [AskBody].
func (ToolsRequest) Kind() AskKind { return AskTools }

// ToolCall is the call of a tool. The id of its ask is the id of the call. Arguments is a JSON object of at most
// MaxToolArguments bytes; nothing more is known of it, and Tool need not be the name of any tool.
type ToolCall struct {
	Tool      string
	Arguments json.RawMessage
}

// Kind implements [AskBody].
func (ToolCall) Kind() AskKind { return AskTool }

// ToolEnded tells how a call ended that the runner itself carried out, as the runner tells it: hostile until checked
// against the calls that were given to it. Without OK, Code and Message say why it failed.
type ToolEnded struct {
	CallID        string
	OK            bool
	Code, Message string
	DurationMS    int64
}

func (ToolEnded) record() {}
