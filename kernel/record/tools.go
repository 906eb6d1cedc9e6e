package record

import "encoding/json"

const (
	AskTools AskKind = "tools" // which tools there are: a [ToolsRequest]
	AskTool  AskKind = "tool"  // the call of a tool: a [ToolCall]
)

type (
	ToolsRequest struct{}
	ToolCall     struct {
		Tool      string
		Arguments json.RawMessage
	}
	ToolEnded struct {
		CallID        string
		OK            bool
		Code, Message string
		DurationMS    int64
	}
)

func (ToolsRequest) Kind() AskKind { return AskTools }
func (ToolCall) Kind() AskKind     { return AskTool }
func (ToolEnded) record()          {}
