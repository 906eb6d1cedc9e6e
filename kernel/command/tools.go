package command

import (
	"encoding/json"
	"errors"
)

var ErrNoCallPending = errors.New("no call is pending")

type (
	AnswerTools struct {
		RequestID string
		Tools     []ToolSpec
	}
	ToolSpec struct {
		Name, Description, Server string
		Parameters                json.RawMessage
		Builtin                   bool
	}
	AnswerTool struct {
		RequestID string
		Result    json.RawMessage
		Run       bool
		Error     *ToolFailure
	}
	ToolFailure  struct{ Code, Message string }
	ToolProgress struct{ RequestID, Message string }
)

func (AnswerTools) Spec() Spec  { return Spec{Name: "tools", Inline: true} }
func (AnswerTool) Spec() Spec   { return Spec{Name: "tool", Inline: true} }
func (ToolProgress) Spec() Spec { return Spec{Name: "tool_progress", Inline: true} }
