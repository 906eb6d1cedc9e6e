package command

import (
	"encoding/json"
	"errors"
)

// MaxToolResult bounds the result of a call, in bytes of JSON.
const MaxToolResult = 16 << 20

// ErrNoCallPending tells that no ask about tools with that request id is open.
var ErrNoCallPending = errors.New("no tool call is pending")

// Commands that answer what code inside asks about tools. All are ErrNoCallPending where that request is not open, and
// what asked stays open where its answer cannot be sent.
type (
	// AnswerTools tells a cell which tools it may call.
	AnswerTools struct {
		RequestID string     `json:"request_id"`
		Tools     []ToolSpec `json:"tools"`
	}
	// AnswerTool answers a call, with one of: a result; a failure; or Run, which has the runner carry a built-in tool out
	// itself. A record ToolEnded tells how that ended.
	AnswerTool struct {
		RequestID string          `json:"request_id"`
		Result    json.RawMessage `json:"result,omitempty"`
		Run       bool            `json:"run,omitempty"`
		Error     *ToolFailure    `json:"error,omitempty"`
	}
	// ToolProgress tells the cell how a call goes on. Where the connection to the host breaks meanwhile, it may be
	// told twice.
	ToolProgress struct {
		RequestID string `json:"request_id"`
		Message   string `json:"message,omitempty"`
	}
)

// ToolSpec describes a tool to the code that may call it.
type ToolSpec struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Server      string          `json:"server,omitempty"`     // the MCP server that provides it, or ""
	Parameters  json.RawMessage `json:"parameters,omitempty"` // JSON Schema of an object
	Builtin     bool            `json:"builtin,omitzero"`     // the runner can carry it out
	Gone        bool            `json:"gone,omitzero"`        // it was registered before: calling it is ToolUnavailable
}

// ToolFailure is why a call failed. The runner raises the exception that its code stands for: unavailable, timeout, limit,
// provider_gone and denied have one of their own, all others are a ToolError.
type ToolFailure struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

// Spec implements [Command].
func (AnswerTools) Spec() Spec {
	return Spec{Name: "tools", Since: withTools, Repeated: ErrNoCallPending, Inline: true}
}

// Spec implements [Command].
func (AnswerTool) Spec() Spec {
	return Spec{Name: "tool_result", Since: withTools, Repeated: ErrNoCallPending, Inline: true}
}

// Spec implements [Command].
func (ToolProgress) Spec() Spec { return Spec{Name: "tool_progress", Since: withTools, Inline: true} }
