// Package command is what a kernel can be asked to do, what it replies, and the errors of that.
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

// Command is something that a living kernel can be asked to do. Commands are plain data: a command and its reply can be
// encoded as JSON, and so cross the connection between a server and a host. A host carries one out.
type Command interface {
	Spec() Spec
}

// Spec describes a kind of command.
type Spec struct {
	// Name is its name in messages between a server and a host. A name is never reused for something else.
	Name string
	// Since is the first version of the host protocol that has the command.
	Since int
	// Once forbids sending the command again after a connection broke before the reply: doing it twice does harm.
	Once bool
	// Repeated is the error of a command that is sent again although it was carried out the first time. It counts as
	// success then.
	Repeated error
	// Inline commands are carried out in the order in which they come. They must not wait for anything slow.
	Inline bool
	// Waits tells that a reply may take as long as the caller has patience.
	Waits bool
}

// Asking is a command that is answered with an R. The method reply only names the type.
type Asking[R any] interface {
	Command
	reply() R
}

// Doer carries commands out. A host is one.
type Doer interface {
	// Do gives a command to the kernel of a key. It returns the reply, which is nil where the command has none. It is
	// ErrNoKernel for a key that is not known. ctx bounds the wait; a command that was given may be carried out all the
	// same.
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

// Execution is the command that gives the kernel a cell; the record Started follows before anything that the cell does. It
// is ErrNoKernel, ErrKernelBusy while a cell runs, or ErrRepeated when this kernel was given this id before. It does not
// wait for the kernel. While a host does not respond the cell waits: to give the kernel up would lose its variables.
type Execution struct {
	ID         string
	Code       string
	Count      int64 // the execution count; 0 for a silent one
	Silent     bool
	AllowStdin bool
	Timeout    time.Duration // 0: none
	CPUTime    time.Duration // that it may take, whole seconds; 0: any
}

// Commands without a reply.
type (
	// Interrupt raises KeyboardInterrupt in that execution, and closes the question it waits on. It does nothing when
	// that execution is not running.
	Interrupt struct {
		ExecutionID string `json:"id"`
	}
	// AnswerInput answers the open question of that id, else it is ErrNoInputPending.
	AnswerInput struct {
		RequestID string `json:"request_id"`
		Value     string `json:"value,omitempty"`
	}
	// RefuseInput tells the cell that nobody can answer: input() raises there. No AskClosed record follows.
	RefuseInput struct {
		RequestID string `json:"id"`
	}
	// InstallOutput shows whoever waits for an installation what its installer printed. It is ErrNoInstallPending where
	// that request is not open. It does not wait for the kernel: on any other error that does not read, and the text is
	// lost. Where the connection to the host breaks meanwhile, it may be shown twice.
	InstallOutput struct {
		RequestID string `json:"request_id"`
		Text      string `json:"value,omitempty"`
	}
	// AnswerInstall answers the request of that id, else it is ErrNoInstallPending. On any other error the request is
	// closed as well, although its asker may not learn of it.
	AnswerInstall struct {
		RequestID string        `json:"request_id"`
		Result    InstallResult `json:"result"`
	}
	// ResizeTerminal changes the size, and tells what runs on the terminal.
	ResizeTerminal struct {
		ID   string       `json:"id"`
		Size TerminalSize `json:"size,omitzero"`
	}
	// CloseTerminal ends a terminal's shell, waits for that, and forgets the terminal. Where ctx ends the wait, the shell
	// is ended all the same.
	CloseTerminal struct {
		ID string `json:"id"`
	}
)

// Commands with a reply.
type (
	// ReadUsage asks what the kernel's sandbox takes now.
	ReadUsage struct{}
	// ChangeLimits changes the limits of a living kernel. The reply is the layers that are in force then. The error wraps
	// ErrNeedsReset where only a fresh kernel can have them.
	ChangeLimits struct{ kernel.Limits }
	// ChangeNetwork changes what a living kernel may reach, for open connections too. The reply is the layers that are in
	// force then. The error wraps ErrNeedsReset where only a fresh kernel can reach it.
	ChangeNetwork struct{ kernel.Network }
	// Ping asks the interpreter for a sign of life, also while a cell runs in it. It is ErrKernelBusy where none came in the
	// time that a [Query] has.
	Ping struct{}
	// OpenTerminal starts a shell inside the kernel's sandbox, on a terminal of its own. The reply is its id. Where there
	// are MaxTerminals, the oldest one whose shell has ended is forgotten; ErrTooManyTerminals where all run.
	OpenTerminal struct {
		Size TerminalSize `json:"size,omitzero"`
	}
	// ListTerminals asks for the ids of the kernel's terminals, those included whose shell has ended.
	ListTerminals struct{}
	// ReadTerminal waits for output behind an offset, the first byte's being 0. Where output is kept no longer, the reply
	// begins later; an offset beyond the end is the end.
	ReadTerminal struct {
		ID    string `json:"id"`
		After int64  `json:"after,omitzero"`
	}
	// WriteTerminal types as much of Data as the terminal takes within a second. The reply is how many bytes that was.
	// What is typed when the shell has ended goes nowhere.
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
	Code   int  // of the shell, where Ended: its exit status, or 128 and the signal
}

// Versions of the host protocol, in which commands came.
const (
	withQueries  = 2 // and terminals
	withInstalls = 3
	withPing     = 4
	withTools    = 5
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
	asked(ReadUsage{}), asked(ChangeLimits{}), asked(ChangeNetwork{}), asked(Query{}), asked(Ping{}),
	asked(OpenTerminal{}), asked(ListTerminals{}), asked(ReadTerminal{}), asked(WriteTerminal{}),
	told[ResizeTerminal](), told[CloseTerminal](),
)

// codec decodes a command of one kind, and its reply.
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

// told is a kind of command without a reply.
func told[C Command]() codec {
	var zero C
	return codec{
		name:    zero.Spec().Name,
		command: func(b []byte) (Command, error) { return decodeInto[C](b) },
		reply:   func([]byte) (any, error) { return nil, nil },
	}
}

// asked is a kind of command with a reply.
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

// ErrUnresponsive tells that the process that runs the kernel does not respond now. What was asked may be carried out when
// it does again. Clients of the server see it as it is.
var ErrUnresponsive error = api.Errorf(api.CodeNotReady,
	"the process that runs this kernel (talaria host) does not respond; nothing is lost: try again in a few seconds")

// Names lists the names of all commands.
func Names() []string { return slices.Sorted(maps.Keys(commands)) }

// ErrUnknown tells that this program has no command of that name.
var ErrUnknown = errors.New("the host does not know this command")

// Decode decodes a command of that name.
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

// DecodeReply decodes the reply to a command of that name.
func DecodeReply(name string, encoded []byte) (any, error) {
	reply, err := commands[name].reply(encoded)
	if err != nil {
		return nil, fmt.Errorf("reply to %s: %w", name, err)
	}
	return reply, nil
}

// What terminals may take.
const (
	MaxTerminals  = 8       // of one kernel whose shells run
	TerminalBytes = 1 << 20 // of output that is kept of each
)

// InstallResult is how a change of packages ended.
type InstallResult struct {
	Error    string    `json:"error,omitzero"` // for its user, in one or more lines; "" is that it is done
	Packages []Package `json:"packages"`       // that are new or changed, or gone
}

// Package is one distribution. A Version of "" is that it is gone.
type Package struct {
	Name    string `json:"name"`
	Version string `json:"version"`
}
