package command

import "talaria/kernel/record"

// withSavedCopies is the version of the host protocol that introduced saving the variables of a copy.
const withSavedCopies = 12

// Commands about the variables of a kernel in a file. All but SaveCopy fail with ErrKernelBusy while a cell runs, and if a cell
// comes first.
type (
	// SaveVariables writes the variables to a file of the workspace, which is replaced. Path is relative to it.
	SaveVariables struct {
		Path     string  `json:"path"`
		Seconds  float64 `json:"seconds"` // that it may take; what there is no time for is named as lost
		MaxBytes int64   `json:"max_bytes"`
	}
	// SaveCopy does the same with the variables that a copy of the interpreter has, which waits on as before; the interpreter does
	// not take part. It fails with ErrNoCopy if there is no such copy, or if it ends meanwhile.
	SaveCopy struct {
		ID       string  `json:"id"`
		Path     string  `json:"path"`
		Seconds  float64 `json:"seconds"`
		MaxBytes int64   `json:"max_bytes"`
	}
	// LoadVariables makes variables that were saved those of the kernel. Digest is that of the reply to SaveVariables: another
	// file is refused, and so is a damaged one.
	LoadVariables struct {
		Path   string `json:"path"`
		Digest string `json:"digest"`
	}
)

// SavedVariables is what was saved. With a reason, nothing was. What code inside says about itself is only as true as its user
// wants it to be.
type SavedVariables struct {
	Reason string        `json:"reason,omitzero"` // as a clause for people
	Count  int64         `json:"count,omitzero"`
	Lost   []record.Loss `json:"lost,omitempty"`
	Bytes  int64         `json:"bytes,omitzero"`
	Digest string        `json:"digest,omitzero"`
}

// LoadedVariables is what was loaded. With a reason, nothing was.
type LoadedVariables struct {
	Reason string        `json:"reason,omitzero"` // as a clause for people
	Count  int64         `json:"count,omitzero"`
	Lost   []record.Loss `json:"lost,omitempty"` // also what was not saved
}

// Spec implements [Command].
func (SaveVariables) Spec() Spec { return Spec{Name: "save_variables", Since: withCopies, Waits: true} }

// Spec implements [Command].
func (SaveCopy) Spec() Spec { return Spec{Name: "save_copy", Since: withSavedCopies, Waits: true} }

// Spec implements [Command].
func (LoadVariables) Spec() Spec { return Spec{Name: "load_variables", Since: withCopies, Waits: true} }

func (SaveVariables) reply() (r SavedVariables)  { return r }
func (SaveCopy) reply() (r SavedVariables)       { return r }
func (LoadVariables) reply() (r LoadedVariables) { return r }
