package command

import (
	"encoding/json"
	"errors"
)

// MaxToolResult bounds the result of a call, in bytes of JSON.
const MaxToolResult = 16 << 20

// ErrNoCallPending reports that no ask about tools with that request id is open.
var ErrNoCallPending = errors.New("no tool call is pending")

// The commands that answer what code inside asks about tools. All fail with ErrNoCallPending if that request is not
// open, and leave the ask open if the answer cannot be sent.
type (
	// AnswerTools tells a cell which tools it may call.
	AnswerTools struct {
		RequestID string     `json:"request_id"`
		Tools     []ToolSpec `json:"tools"`
	}
	// AnswerTool answers a call with one of: a result; a failure; or Run, which makes the runner carry a built-in tool
	// out itself, with Result as its arguments. A ToolEnded record reports how that ended.
	AnswerTool struct {
		RequestID string          `json:"request_id"`
		Result    json.RawMessage `json:"result,omitempty"`
		Run       bool            `json:"run,omitempty"`
		Mounts    []string        `json:"mounts,omitempty"` // with Run: the mounts, which the tool may use besides the workspace
		Error     *ToolFailure    `json:"error,omitempty"`
	}
	// ToolProgress reports the progress of a call to the cell. If the connection to the host breaks meanwhile, it may
	// be reported twice.
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
	Gone        bool            `json:"gone,omitzero"`        // it was registered before: a call fails with ToolUnavailable
}

// ToolFailure says why a call failed. The runner raises the exception that belongs to its code: unavailable, timeout,
// limit, provider_gone and denied each have their own, and every other code raises a ToolError.
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
