package command

import (
	"context"
	"errors"
	"fmt"

	"talaria/kernel"
)

// NamedError is an error that callers of a host branch on, with the name that represents it in messages.
type NamedError struct {
	Name string
	Err  error
}

// Errors lists all errors that callers of a host branch on. An error that wraps several is sent under the name of the
// first.
var Errors = []NamedError{
	{"no_kernel", ErrNoKernel},
	{"unresponsive", ErrUnresponsive},
	{"kernel_exists", ErrKernelExists},
	{"kernel_busy", ErrKernelBusy},
	{"repeated", ErrRepeated},
	{"no_input_pending", ErrNoInputPending},
	{"no_install_pending", ErrNoInstallPending},
	{"no_call_pending", ErrNoCallPending},
	{"no_after_pending", ErrNoAfterPending},
	{"host_closed", ErrHostClosed},
	{"needs_reset", kernel.ErrNeedsReset},
	{"no_terminal", ErrNoTerminal},
	{"too_many_terminals", ErrTooManyTerminals},
	{"no_program", ErrNoProgram},
	{"too_many_programs", ErrTooManyPrograms},
	{"input_closed", ErrInputClosed},
	{"no_copy", ErrNoCopy},
	{"unknown_command", ErrUnknown},
	{"deadline", context.DeadlineExceeded},
	{"cancelled", context.Canceled},
}

// The errors that callers of a host branch on.
var (
	ErrNoKernel     = errors.New("no kernel")
	ErrKernelExists = errors.New("the kernel already exists")
	ErrKernelBusy   = errors.New("the kernel is busy")
	ErrRepeated     = errors.New("the execution was given to this kernel before")
	ErrHostClosed   = errors.New("the host is closed")
)

// ErrNoInputPending reports that no question with that id is open.
var ErrNoInputPending = errors.New("no input is pending")

// ErrNoInstallPending reports that no change of packages with that request id is open.
var ErrNoInstallPending = errors.New("no installation is pending")

// ErrTooOld reports that the host that owns the kernel has an earlier version and cannot do this.
var ErrTooOld = errors.New("the kernel's host is of an earlier version")

// The errors that callers of terminals branch on.
var (
	ErrNoTerminal       = errors.New("no such terminal")
	ErrTooManyTerminals = fmt.Errorf("a session may have %d terminals", MaxTerminals)
)
