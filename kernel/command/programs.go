package command

import (
	"errors"
	"fmt"

	"talaria/kernel"
)

const (
	// MaxPrograms is how many programs of one kernel may run at once.
	MaxPrograms = 32
	// ProgramBytes is how much of each stream of a program is kept.
	ProgramBytes = 1 << 20
)

// The errors of programs.
var (
	ErrNoProgram       = errors.New("no such program")
	ErrTooManyPrograms = fmt.Errorf("a session may have %d programs", MaxPrograms)
	// ErrInputClosed: the program was started without standard input, nothing reads it any more, or it was closed.
	ErrInputClosed = errors.New("the program reads no standard input")
)

type (
	// StartProgram starts a program inside the kernel's sandbox, beside the interpreter. The reply is its id. If
	// MaxPrograms run already, it fails with ErrTooManyPrograms. Those that have ended are forgotten beyond that number, at first
	// those that nobody reads; a few more are kept for who does. A program that does not exist, or a folder, makes it fail with ErrNoProgram.
	StartProgram struct {
		Args  []string          `json:"args"`
		Env   map[string]string `json:"env,omitempty"`   // in addition to the sandbox's own
		Dir   string            `json:"dir,omitempty"`   // "": the workspace
		Tag   string            `json:"tag,omitempty"`   // the caller's name for it, which ListPrograms returns
		Stdin bool              `json:"stdin,omitempty"` // open its standard input, for WriteProgram; otherwise it is empty
		Group bool              `json:"group,omitempty"` // signals go to its process group, which is killed when it ends
	}
	// ListPrograms asks for the programs that run.
	ListPrograms struct{}
	// ReadProgram waits for output after two offsets, one for each stream, or for the program's end. Output that is no
	// longer kept is left out, and the reply's offsets tell it.
	ReadProgram struct {
		ID     string `json:"id"`
		Stdout int64  `json:"stdout,omitzero"`
		Stderr int64  `json:"stderr,omitzero"`
	}
	// WriteProgram writes as much of Data to the program's standard input as it accepts within a second. The reply is that
	// number of bytes. It fails with ErrInputClosed if the program reads no input, and with ErrNoProgram if it has ended.
	WriteProgram struct {
		ID   string `json:"id"`
		Data []byte `json:"data,omitempty"`
	}
	// CloseProgramInput closes the program's standard input, which then ends for the program. Closing it again changes
	// nothing.
	CloseProgramInput struct {
		ID string `json:"id"`
	}
	// SignalProgram sends a signal to the program alone, or to its process group with Group or if it was started with Group; a host
	// of an earlier build ignores Group here. It fails with ErrNoProgram if the program has ended.
	SignalProgram struct {
		ID     string `json:"id"`
		Signal int    `json:"signal"`
		Group  bool   `json:"group,omitempty"`
	}
)

// ProgramInfo describes a program that runs.
type ProgramInfo struct {
	ID    string
	Args  []string
	Dir   string
	Tag   string
	Place kernel.ProcessPlace `json:",omitzero"` // when it had started; earlier hosts do not know it
}

// ProgramOutput is a piece of what a program has printed.
type ProgramOutput struct {
	Stdout, Stderr Piece
	Ended          bool // nothing comes after this piece
	Code           int  // exit status, if Ended
	Signal         int  // that ended it, if Ended; then Code has no meaning
}

// Piece is a part of a stream.
type Piece struct {
	Offset int64 // of the first byte of Data
	Data   []byte
}

// Spec implements [Command]. Earlier hosts would ignore the fields that were added later.
func (c StartProgram) Spec() Spec {
	since := withPrograms
	switch {
	case c.Group:
		since = withProgramGroups
	case c.Stdin || c.Tag != "":
		since = withProgramInput
	}
	return Spec{Name: "start_program", Since: since, Once: true}
}

// Spec implements [Command].
func (ListPrograms) Spec() Spec { return Spec{Name: "programs", Since: withPrograms} }

// Spec implements [Command].
func (ReadProgram) Spec() Spec { return Spec{Name: "read_program", Since: withPrograms, Waits: true} }

// Spec implements [Command].
func (WriteProgram) Spec() Spec {
	return Spec{Name: "write_program", Since: withProgramInput, Once: true}
}

// Spec implements [Command].
func (CloseProgramInput) Spec() Spec {
	return Spec{Name: "close_program_input", Since: withProgramInput}
}

// Spec implements [Command].
func (SignalProgram) Spec() Spec {
	return Spec{Name: "signal_program", Since: withPrograms, Once: true}
}

func (StartProgram) reply() (r string)        { return r }
func (ListPrograms) reply() (r []ProgramInfo) { return r }
func (ReadProgram) reply() (r ProgramOutput)  { return r }
func (WriteProgram) reply() (r int)           { return r }
