package frame

import (
	"talaria/kernel/command"
	"talaria/kernel/record"
)

// afterAnswer is the body of the answer to an ask for something after the cell.
type afterAnswer struct {
	CheckpointID string `json:"checkpoint_id"`
}

// ForAfter returns the answer to an ask for something after the cell.
func ForAfter(c command.AnswerAfter) AskAnswer {
	if c.Error != "" {
		return AskAnswer{Error: c.Error}
	}
	return AskAnswer{Body: afterAnswer{c.CheckpointID}}
}

func decodeAfter(f *fields) record.AskBody {
	text := func(name string) string { return Truncate(f.optionalText(name), record.MaxAfterText) }
	if f.oneOf("action", "checkpoint", "rollback") == "checkpoint" {
		return record.AfterCell{Name: text("name"), Level: text("level")}
	}
	return record.AfterCell{Rollback: true, To: text("to"), What: text("what"), KeepUserEdits: f.flag("keep_user_edits")}
}
