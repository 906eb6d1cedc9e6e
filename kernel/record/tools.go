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
// MaxToolArguments bytes. Nothing else about it has been checked, and Tool may not be the name of any tool.
type ToolCall struct {
	Tool      string
	Arguments json.RawMessage
}

// Kind implements [AskBody].
func (ToolCall) Kind() AskKind { return AskTool }

// ToolEnded reports how a call ended that the runner itself carried out. The report comes from the runner: it is
// hostile until checked against the calls that the runner was given. If OK is false, Code and Message say why the call
// failed.
type ToolEnded struct {
	CallID        string
	OK            bool
	Code, Message string
	DurationMS    int64
}

func (ToolEnded) record() {}
