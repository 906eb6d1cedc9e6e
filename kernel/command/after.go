package command

import "errors"

// withAfter is the version of the host protocol that introduced asks for what is to be done after a cell.
const withAfter = 11

// ErrNoAfterPending reports that no ask for something after the cell with that request id is open.
var ErrNoAfterPending = errors.New("nothing to be done after the cell is pending")

// AnswerAfter answers a request for something that is to be done after the cell: with the id of the checkpoint that will be
// made, or that the session will go back to, or with an error for people. It fails with ErrNoAfterPending if that request is not
// open, and leaves it open if the answer cannot be sent.
type AnswerAfter struct {
	RequestID    string `json:"request_id"`
	CheckpointID string `json:"checkpoint_id,omitzero"`
	Error        string `json:"error,omitzero"`
}

// Spec implements [Command].
func (AnswerAfter) Spec() Spec {
	return Spec{Name: "after", Since: withAfter, Repeated: ErrNoAfterPending, Inline: true}
}
