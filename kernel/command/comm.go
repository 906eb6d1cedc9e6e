package command

import (
	"encoding/json"

	"talaria/kernel/record"
)

// MaxCommMessages is how many messages of front ends a kernel keeps that it has not handled.
const MaxCommMessages = 1024

// CommMessage gives a message of a comm to the kernel. Code inside handles messages in order, between cells and while a
// cell awaits; the record CommHandled with the execution id [record.CommMessageID] follows then. It fails with
// ErrRepeated if the kernel was given a message with this id before, and with ErrKernelBusy if it has not handled
// MaxCommMessages of those before.
type CommMessage struct {
	ID       string                     `json:"id"`
	Action   record.CommAction          `json:"action"`
	Comm     string                     `json:"comm"`
	Target   string                     `json:"target,omitempty"` // of a message that opens a comm
	Data     json.RawMessage            `json:"data,omitempty"`
	Metadata map[string]json.RawMessage `json:"metadata,omitempty"`
	Buffers  [][]byte                   `json:"buffers,omitempty"`
}

// ListComms asks which comms are open: their targets, by id.
type ListComms struct{}

// Spec implements [Command].
func (CommMessage) Spec() Spec {
	return Spec{Name: "comm_message", Since: withComms, Repeated: ErrRepeated, Inline: true}
}

// Spec implements [Command].
func (ListComms) Spec() Spec { return Spec{Name: "comms", Since: withComms} }

func (ListComms) reply() (r map[string]string) { return r }
