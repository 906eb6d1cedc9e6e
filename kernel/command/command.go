// Package command defines what a kernel can be asked to do, its replies, and their errors.
package command

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"talaria/api"
	"talaria/kernel"
	"talaria/kernel/record"
)

// Command is something that a living kernel can be asked to do. Commands are plain data: a command and its reply can
// be encoded as JSON, and so can cross the connection between a server and a host. A host carries them out.
type Command interface {
	Spec() Spec
}

// Spec describes a kind of command.
type Spec struct {
	// Name is the command's name in messages between a server and a host. A name is never reused for something else.
	Name string
	// Since is the first version of the host protocol that has the command.
	Since int
	// Once forbids sending the command again after the connection broke before the reply, because doing it twice does
	// harm.
	Once bool
	// Repeated is the error for a command that is sent again although it was carried out the first time. It then
	// counts as success.
	Repeated error
	// Inline commands are carried out in the order in which they arrive. They must not wait for anything slow.
	Inline bool
	// Waits says that the reply may take as long as the caller is willing to wait.
	Waits bool
}

// Asking is a command whose reply is an R. The method reply only names the type.
type Asking[R any] interface {
	Command
	reply() R
}

// Doer carries commands out. A host is one.
type Doer interface {
	// Do gives a command to the kernel with that key. It returns the reply, which is nil if the command has none, or
	// ErrNoKernel if the key is not known. ctx bounds the wait; once given, a command may be carried out even if ctx
	// ends.
	Do(ctx context.Context, key record.Key, c Command) (reply any, err error)
}

// Ask gives a command to a kernel and returns the reply.
func Ask[R any](ctx context.Context, d Doer, key record.Key, c Asking[R]) (R, error) {
	reply, err := d.Do(ctx, key, c)
	r, ok := reply.(R)
	if err == nil && !ok {
		err = fmt.Errorf("command %s: the reply is a %T", c.Spec().Name, reply)
	}
	return r, err
}

// Tell gives a command without a reply to a kernel.
func Tell(ctx context.Context, d Doer, key record.Key, c Command) error {
	_, err := d.Do(ctx, key, c)
	return err
}

// Execution gives the kernel a cell; the record Started follows before anything that the cell does. It fails with
// ErrNoKernel, with ErrKernelBusy while a cell runs, or with ErrRepeated if this kernel was given this id before. It
// does not wait for the kernel. While a host does not respond, the cell waits: giving the kernel up would lose its
// variables.
type Execution struct {
	ID         string
	Code       string
	Count      int64 // the execution count; 0 for a silent one
	Silent     bool
	AllowStdin bool
	Timeout    time.Duration // 0: none
	CPUTime    time.Duration // of CPU that it may use, in whole seconds; 0: any
	// Expressions are evaluated after the code, by name, if it succeeds; hosts before version 7 ignore them.
	Expressions map[string]string `json:",omitempty"`
}

// Commands without a reply.
type (
	// Interrupt raises KeyboardInterrupt in that execution, and closes the question it is waiting on. It does nothing
	// if that execution is not running. Without an id, while no execution runs, it interrupts the code that handles a
	// front end's message.
	Interrupt struct {
		ExecutionID string `json:"id"`
	}
	// AnswerInput answers the open question with that id. It fails with ErrNoInputPending if that question is not
	// open.
	AnswerInput struct {
		RequestID string `json:"request_id"`
		Value     string `json:"value,omitempty"`
	}
	// RefuseInput tells the cell that nobody can answer: input() raises an exception there. No AskClosed record
	// follows.
	RefuseInput struct {
		RequestID string `json:"id"`
	}
	// InstallOutput shows the installer's output to the code that waits for an installation. It fails with
	// ErrNoInstallPending if that request is not open. It does not wait for the kernel: any other error means that the
	// kernel is not reading, and the text is lost. If the connection to the host breaks meanwhile, the text may be
	// shown twice.
	InstallOutput struct {
		RequestID string `json:"request_id"`
		Text      string `json:"value,omitempty"`
	}
	// AnswerInstall answers the request with that id. It fails with ErrNoInstallPending if that request is not open.
	// On any other error the request is closed as well, although the code that asked may not learn of it.
	AnswerInstall struct {
		RequestID string        `json:"request_id"`
		Result    InstallResult `json:"result"`
	}
	// ResizeTerminal changes the size of a terminal, and notifies the programs that run on it.
	ResizeTerminal struct {
		ID   string       `json:"id"`
		Size TerminalSize `json:"size,omitzero"`
	}
	// CloseTerminal ends a terminal's shell, waits for that, and forgets the terminal. The shell ends even if ctx ends
	// the wait.
	CloseTerminal struct {
		ID string `json:"id"`
	}
)

// KernelUsage is what one of many kernels uses.
type KernelUsage struct {
	Key   record.Key
	Usage kernel.Usage
}

// Commands with a reply.
type (
	// ReadUsage asks what the kernel's sandbox uses now.
	ReadUsage struct{}
	// ChangeLimits changes the limits of a living kernel. The reply lists the layers then in force. The error wraps
	// ErrNeedsReset if only a fresh kernel can have the limits.
	ChangeLimits struct{ kernel.Limits }
	// ChangeNetwork changes what a living kernel may reach, for open connections too. The reply lists the layers then
	// in force. The error wraps ErrNeedsReset if only a fresh kernel can have that network.
	ChangeNetwork struct{ kernel.Network }
	// Ping asks the interpreter for a sign of life, also while a cell runs in it. It fails with ErrKernelBusy if none
	// came within the time that a [Query] has.
	Ping struct{}
	// OpenTerminal starts a shell inside the kernel's sandbox, on a terminal of its own. The reply is its id. If there
	// are already MaxTerminals, the oldest one whose shell has ended is forgotten; if all of their shells run, it
	// fails with ErrTooManyTerminals.
	OpenTerminal struct {
		Size TerminalSize `json:"size,omitzero"`
	}
	// ListTerminals asks for the ids of the kernel's terminals, including those whose shell has ended.
	ListTerminals struct{}
	// ReadTerminal waits for output after an offset; the first byte has offset 0. If that output is no longer kept,
	// the reply begins later; an offset past the end counts as the end.
	ReadTerminal struct {
		ID    string `json:"id"`
		After int64  `json:"after,omitzero"`
	}
	// WriteTerminal types as much of Data as the terminal accepts within a second. The reply is that number of bytes.
	// What is typed after the shell has ended is discarded.
	WriteTerminal struct {
		ID   string `json:"id"`
		Data []byte `json:"data,omitempty"`
	}
)

// TerminalSize is in characters.
type TerminalSize struct{ Rows, Cols uint16 }

// TerminalOutput is a piece of what a terminal has shown.
type TerminalOutput struct {
	Offset int64 // of the first byte of Data, counted from the terminal's beginning
	Data   []byte
	Ended  bool // nothing comes after Data
	Code   int  // the shell's, if Ended: its exit status, or 128 plus the signal
}

// Versions of the host protocol that introduced commands.
const (
	withQueries       = 2 // and terminals
	withInstalls      = 3
	withPing          = 4
	withTools         = 5
	withComms         = 7
	withPrograms      = 7
	withProgramInput  = 9
	withProgramGroups = 13
)

// Spec implements [Command].
func (Execution) Spec() Spec {
	return Spec{Name: "execute", Since: 1, Repeated: ErrRepeated, Inline: true, Waits: true}
}

// Spec implements [Command].
func (Interrupt) Spec() Spec { return Spec{Name: "interrupt", Since: 1, Inline: true} }

// Spec implements [Command].
func (AnswerInput) Spec() Spec {
	return Spec{Name: "input", Since: 1, Repeated: ErrNoInputPending, Inline: true}
}

// Spec implements [Command].
func (RefuseInput) Spec() Spec { return Spec{Name: "refuse", Since: 1, Inline: true} }

// Spec implements [Command].
func (InstallOutput) Spec() Spec {
	return Spec{Name: "install_output", Since: withInstalls, Inline: true}
}

// Spec implements [Command].
func (AnswerInstall) Spec() Spec {
	return Spec{Name: "installed", Since: withInstalls, Repeated: ErrNoInstallPending, Inline: true}
}

// Spec implements [Command].
func (ReadUsage) Spec() Spec { return Spec{Name: "usage", Since: 1} }

// Spec implements [Command].
func (ChangeLimits) Spec() Spec { return Spec{Name: "change_limits", Since: 1} }

// Spec implements [Command].
func (ChangeNetwork) Spec() Spec { return Spec{Name: "change_network", Since: 1} }

// Spec implements [Command].
func (Query) Spec() Spec { return Spec{Name: "ask", Since: withQueries} }

// Spec implements [Command].
func (Ping) Spec() Spec { return Spec{Name: "ping", Since: withPing} }

// Spec implements [Command].
func (OpenTerminal) Spec() Spec {
	return Spec{Name: "open_terminal", Since: withQueries, Once: true}
}

// Spec implements [Command].
func (ListTerminals) Spec() Spec { return Spec{Name: "terminals", Since: withQueries} }

// Spec implements [Command].
func (ReadTerminal) Spec() Spec {
	return Spec{Name: "read_terminal", Since: withQueries, Waits: true}
}

// Spec implements [Command].
func (WriteTerminal) Spec() Spec {
	return Spec{Name: "write_terminal", Since: withQueries, Once: true}
}

// Spec implements [Command].
func (ResizeTerminal) Spec() Spec {
	return Spec{Name: "resize_terminal", Since: withQueries}
}

// Spec implements [Command].
func (CloseTerminal) Spec() Spec {
	return Spec{Name: "close_terminal", Since: withQueries}
}

func (ReadUsage) reply() (r kernel.Usage)      { return r }
func (ChangeLimits) reply() (r []string)       { return r }
func (ChangeNetwork) reply() (r []string)      { return r }
func (Query) reply() (r Answer)                { return r }
func (Ping) reply() (r Pong)                   { return r }
func (OpenTerminal) reply() (r string)         { return r }
func (ListTerminals) reply() (r []string)      { return r }
func (ReadTerminal) reply() (r TerminalOutput) { return r }
func (WriteTerminal) reply() (r int)           { return r }

// commands are all commands, by name.
var commands = byName(
	told[Execution](), told[Interrupt](), told[AnswerInput](), told[RefuseInput](),
	told[InstallOutput](), told[AnswerInstall](), told[AnswerTools](), told[AnswerTool](), told[ToolProgress](),
	told[AnswerAfter](),
	asked(ReadUsage{}), asked(ChangeLimits{}), asked(ChangeNetwork{}), asked(Query{}), asked(Ping{}),
	asked(OpenTerminal{}), asked(ListTerminals{}), asked(ReadTerminal{}), asked(WriteTerminal{}),
	told[ResizeTerminal](), told[CloseTerminal](), told[CommMessage](), asked(ListComms{}),
	asked(StartProgram{}), asked(ListPrograms{}), asked(ReadProgram{}), told[SignalProgram](),
	asked(WriteProgram{}), told[CloseProgramInput](),
	asked(MakeCopy{}), asked(StepAside{}), asked(Resume{}), told[WakeCopy](), told[DropCopy](), asked(ListCopies{}),
	asked(SaveVariables{}), asked(SaveCopy{}), asked(LoadVariables{}),
)

// codec decodes a command of one kind and its reply.
type codec struct {
	name    string
	command func([]byte) (Command, error)
	reply   func([]byte) (any, error)
}

func byName(all ...codec) map[string]codec {
	m := map[string]codec{}
	for _, c := range all {
		if _, twice := m[c.name]; twice {
			panic("two commands are named " + c.name)
		}
		m[c.name] = c
	}
	return m
}

// told returns the codec of a kind of command without a reply.
func told[C Command]() codec {
	var zero C
	return codec{
		name:    zero.Spec().Name,
		command: func(b []byte) (Command, error) { return decodeInto[C](b) },
		reply:   func([]byte) (any, error) { return nil, nil },
	}
}

// asked returns the codec of a kind of command with a reply.
func asked[C Asking[R], R any](zero C) codec {
	return codec{
		name:    zero.Spec().Name,
		command: func(b []byte) (Command, error) { return decodeInto[C](b) },
		reply:   func(b []byte) (any, error) { return decodeInto[R](b) },
	}
}

func decodeInto[T any](b []byte) (v T, err error) {
	if len(b) > 0 {
		err = json.Unmarshal(b, &v)
	}
	return v, err
}

// ErrUnresponsive reports that the process that runs the kernel does not respond at the moment. It may still carry the
// command out when it responds again. Clients of the server see this error as it is.
var ErrUnresponsive error = api.Errorf(api.CodeNotReady,
	"the process that runs this kernel (talaria host) does not respond; nothing is lost: try again in a few seconds")

// Names lists the names of all commands.
func Names() []string { return slices.Sorted(maps.Keys(commands)) }

// ErrUnknown reports that this program has no command of that name.
var ErrUnknown = errors.New("the host does not know this command")

// Decode decodes the command of that name.
func Decode(name string, encoded []byte) (Command, error) {
	known, ok := commands[name]
	if !ok {
		return nil, fmt.Errorf("%w: %q", ErrUnknown, name)
	}
	c, err := known.command(encoded)
	if err != nil {
		return nil, fmt.Errorf("command %s: %w", name, err)
	}
	return c, nil
}

// DecodeReply decodes the reply to the command of that name.
func DecodeReply(name string, encoded []byte) (any, error) {
	reply, err := commands[name].reply(encoded)
	if err != nil {
		return nil, fmt.Errorf("reply to %s: %w", name, err)
	}
	return reply, nil
}

// Bounds of what terminals may use.
const (
	MaxTerminals  = 8       // of one kernel, whose shells run
	TerminalBytes = 1 << 20 // of output kept for each
)

// InstallResult is how a change of packages ended.
type InstallResult struct {
	Error    string    `json:"error,omitzero"` // for its user, in one or more lines; "" if it succeeded
	Packages []Package `json:"packages"`       // that are new, changed or removed
}

// Package is one distribution. If it was removed, Version is "".
type Package struct {
	Name    string `json:"name"`
	Version string `json:"version"`
}
