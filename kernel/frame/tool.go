package frame

import (
	"encoding/json"
	"slices"

	"talaria/api"
	"talaria/kernel/command"
	"talaria/kernel/record"
)

const (
	maxToolCode    = 64       // bytes
	maxToolMessage = 64 << 10 // bytes; a longer message is cut
)

// ToolEnd reports how a call ended that the runner was told to carry out.
type ToolEnd struct {
	ID   string // of the execution
	Body record.ToolEnded
}

func (ToolEnd) frame() {}

// The bodies of the answers.
type (
	toolsAnswer struct {
		Tools []command.ToolSpec `json:"tools"`
	}
	toolAnswer struct {
		Result json.RawMessage `json:"result,omitempty"`
		Run    bool            `json:"run,omitzero"`
		Mounts []string        `json:"mounts,omitempty"`
	}
)

// ForTools returns the answer that lists the tools.
func ForTools(tools []command.ToolSpec) AskAnswer {
	return AskAnswer{Body: toolsAnswer{append([]command.ToolSpec{}, tools...)}}
}

// ForTool returns the answer to a call.
func ForTool(c command.AnswerTool) AskAnswer {
	switch {
	case c.Error != nil:
		message := c.Error.Message
		if message == "" {
			message = c.Error.Code
		}
		return AskAnswer{Error: message, Code: c.Error.Code}
	case c.Run:
		return AskAnswer{Body: toolAnswer{Run: true, Result: c.Result, Mounts: c.Mounts}}
	case len(c.Result) == 0:
		return AskAnswer{Body: toolAnswer{Result: json.RawMessage("null")}}
	}
	return AskAnswer{Body: toolAnswer{Result: c.Result}}
}

func decodeTools(*fields) record.AskBody { return record.ToolsRequest{} }

func decodeTool(f *fields) record.AskBody {
	call := record.ToolCall{Tool: f.text("tool")}
	if len(call.Tool) == 0 || len(call.Tool) > record.MaxToolName {
		f.fail("tool", "empty or too long")
	}
	value, _ := f.take("arguments")
	switch {
	case value.Kind() != '{':
		f.fail("arguments", "not an object")
	case len(value) > record.MaxToolArguments:
		f.fail("arguments", "too long")
	}
	call.Arguments = json.RawMessage(slices.Clone(value))
	return call
}

func decodeToolEnd(f *fields) ToolEnd {
	e := ToolEnd{ID: f.name("id")}
	e.Body.CallID = f.matching("ask", api.ValidID)
	e.Body.OK = f.flag("ok")
	e.Body.Code = Truncate(f.optionalText("code"), maxToolCode)
	e.Body.Message = Truncate(f.optionalText("message"), maxToolMessage)
	e.Body.DurationMS = int64(f.whole("duration_ms"))
	return e
}
