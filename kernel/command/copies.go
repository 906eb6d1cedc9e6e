package command

import (
	"errors"

	"talaria/kernel/record"
)

// withCopies is the version of the host protocol that introduced copies.
const withCopies = 10

// withAside is the version that introduced interpreters that step aside.
const withAside = 14

// MaxCopies is how many copies of its interpreter a kernel may have.
const MaxCopies = 128

// Commands about copies of a kernel's interpreter: each waits with everything in memory as it was, and can take the
// interpreter's place. They end with the kernel, and are the first to be killed when its memory runs out; a record
// CopyLost then says so.
type (
	// MakeCopy makes a copy, under a name that the caller chooses, if no cell runs. It fails with ErrKernelBusy otherwise,
	// and also if a cell begins before the copy is made. Repeating it changes nothing.
	MakeCopy struct {
		ID string `json:"id"`
	}
	// WakeCopy ends the interpreter, unless it has stepped aside, and all processes that it has started, and makes the copy the
	// interpreter. It fails with
	// ErrKernelBusy while a cell runs, and with ErrNoCopy if there is no such copy; then nothing has changed. The copy is used
	// up: a caller that wants to go back to it again makes another one. Repeating the last one that was carried out changes
	// nothing.
	WakeCopy struct {
		ID string `json:"id"`
	}
	// StepAside makes the interpreter itself a copy of that name, if no cell runs: nothing is forked, so it takes equally long
	// whatever the interpreter's size. It is for a caller that wakes the copy For next, and fails with ErrNoCopy if there is no such
	// copy. An interpreter that cannot step aside, because it has threads, makes an ordinary copy. Connections and locks of files
	// that the interpreter has are given up, as in any copy. Errors and repeats are those of MakeCopy.
	StepAside struct {
		ID  string `json:"id"`
		For string `json:"for"`
	}
	// Resume makes an interpreter that has stepped aside go on, if no copy has taken its place, and replies whether it had. The next
	// cell does the same.
	Resume struct{}
	// DropCopy ends a copy, also one that is being made. Without one of that name it does nothing. An interpreter that has stepped
	// aside goes on instead, if no copy has taken its place.
	DropCopy struct {
		ID string `json:"id"`
	}
	// ListCopies asks for the names of the copies that wait.
	ListCopies struct{}
)

// Copy is a copy that was made, or why there is none.
type Copy struct {
	// Refused says why this interpreter cannot be copied now, as a clause for people; "" if it was.
	Refused string `json:"refused,omitzero"`
	// Losses are what the copy does not have.
	Losses []record.Loss `json:"losses,omitempty"`
	// Resident is the memory that the interpreter had then, in bytes. The copy takes as much of its own as either of them
	// writes to.
	Resident int64 `json:"resident,omitzero"`
	// Held is the memory that all copies of the kernel take by now in addition to the interpreter, in bytes, as far as the
	// system can tell.
	Held int64 `json:"held,omitzero"`
}

// Copied is the runner's answer to a request for a copy. PID is that of the copy inside, or 0.
type Copied struct {
	PID int `json:"pid"`
	Copy
}

// ErrNoCopy reports that the kernel has no copy of that name, or no longer.
var ErrNoCopy = errors.New("the kernel has no such copy of its interpreter")

// Spec implements [Command].
func (MakeCopy) Spec() Spec { return Spec{Name: "make_copy", Since: withCopies, Waits: true} }

// Spec implements [Command].
func (WakeCopy) Spec() Spec {
	return Spec{Name: "wake_copy", Since: withCopies, Waits: true}
}

// Spec implements [Command].
func (StepAside) Spec() Spec { return Spec{Name: "step_aside", Since: withAside, Waits: true} }

// Spec implements [Command].
func (Resume) Spec() Spec { return Spec{Name: "resume", Since: withAside, Waits: true} }

// Spec implements [Command].
func (DropCopy) Spec() Spec { return Spec{Name: "drop_copy", Since: withCopies} }

// Spec implements [Command].
func (ListCopies) Spec() Spec { return Spec{Name: "copies", Since: withCopies} }

func (MakeCopy) reply() (r Copy)       { return r }
func (StepAside) reply() (r Copy)      { return r }
func (Resume) reply() (r bool)         { return r }
func (ListCopies) reply() (r []string) { return r }
