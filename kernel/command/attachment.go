package command

import (
	"encoding/json"
	"time"

	"talaria/kernel"
	"talaria/kernel/record"
)

// KernelInfo is what is known about a kernel once it can execute.
type KernelInfo struct {
	Layers  []string
	Handle  kernel.Handle
	Started time.Time
	Engine  string // that executes the kernel's cells
}

// Attachment is what a consumer that attaches later must know about a kernel.
type Attachment struct {
	Info KernelInfo
	// Last is the number of the newest record so far.
	Last uint64
	// Given is the id of the last execution that the kernel was given, or "". It must not be given again: it is
	// running, or its Finished record is among the records up to Last.
	Given string
	// Asks are the open asks. Their records are among those up to Last.
	Asks []OpenAsk
}

// OpenAsk names an ask that waits for its answer.
type OpenAsk struct {
	Kind record.AskKind
	ID   string
}

// sentAttachment is the form in which an Attachment crosses the connection between a server and a host. Versions up to
// 3 of the host protocol know only one kind of ask, the installation, by its id.
type sentAttachment struct {
	plainAttachment
	Installing string
}

type plainAttachment Attachment

// MarshalJSON implements [json.Marshaler].
func (a Attachment) MarshalJSON() ([]byte, error) {
	sent := sentAttachment{plainAttachment: plainAttachment(a)}
	for _, open := range a.Asks {
		if open.Kind == record.AskInstall {
			sent.Installing = open.ID
		}
	}
	return json.Marshal(sent)
}

// UnmarshalJSON implements [json.Unmarshaler].
func (a *Attachment) UnmarshalJSON(b []byte) error {
	var sent sentAttachment
	if err := json.Unmarshal(b, &sent); err != nil {
		return err
	}
	*a = Attachment(sent.plainAttachment)
	if a.Asks == nil && sent.Installing != "" {
		a.Asks = []OpenAsk{{record.AskInstall, sent.Installing}}
	}
	return nil
}
