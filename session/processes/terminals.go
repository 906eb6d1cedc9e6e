package processes

import (
	"context"
	"errors"

	"talaria/api"
	"talaria/kernel/command"
	"talaria/kernel/record"
)

const (
	// lostShell is the exit code of a shell that was killed with its kernel.
	lostShell = 128 + 9
	// maxSide bounds rows and columns.
	maxSide = 1000
)

// TerminalOutput is a piece of what a terminal has shown, and how its shell ended.
type TerminalOutput = command.TerminalOutput

// Terminals are the shells in a session's sandbox. They are safe for concurrent use.
type Terminals struct{ b *beside }

// Open starts a shell in the session's sandbox, and first a kernel if there is none.
func (t *Terminals) Open(ctx context.Context, r api.TerminalRequest) (api.Terminal, error) {
	rows, cols := int64(24), int64(80)
	if r.Rows != nil {
		rows = *r.Rows
	}
	if r.Cols != nil {
		cols = *r.Cols
	}
	size, err := terminalSize(rows, cols)
	if err != nil {
		return api.Terminal{}, err
	}
	key, err := t.b.Start(ctx, "the terminal")
	if err != nil {
		return api.Terminal{}, err
	}
	bounded, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	number, err := command.Ask(bounded, t.b.Host, key, command.OpenTerminal{Size: size})
	switch {
	case errors.Is(err, command.ErrNoKernel):
		return api.Terminal{}, api.Errorf(api.CodeNoKernel, "the kernel ended while the terminal was being opened; try again")
	case err != nil:
		return api.Terminal{}, terminalError(err, "")
	}
	return api.Terminal{ID: processID(key.Generation, number)}, t.b.Touch(ctx)
}

func terminalSize(rows, cols int64) (size command.TerminalSize, err error) {
	if rows < 1 || rows > maxSide {
		return size, api.Errorf(api.CodeInvalidRequest, "rows must be between 1 and %d", maxSide)
	}
	if cols < 1 || cols > maxSide {
		return size, api.Errorf(api.CodeInvalidRequest, "cols must be between 1 and %d", maxSide)
	}
	return command.TerminalSize{Rows: uint16(rows), Cols: uint16(cols)}, nil
}

// List lists the shells of the current kernel, including those that have ended.
func (t *Terminals) List(ctx context.Context) ([]api.Terminal, error) {
	key := t.b.Key()
	list := []api.Terminal{}
	ids, err := command.Ask(ctx, t.b.Host, key, command.ListTerminals{})
	if err != nil && !errors.Is(err, command.ErrNoKernel) {
		return nil, terminalError(err, "")
	}
	for _, id := range ids {
		list = append(list, api.Terminal{ID: processID(key.Generation, id)})
	}
	return list, nil
}

// Has returns nil for a terminal of the current kernel.
func (t *Terminals) Has(ctx context.Context, id string) error {
	list, err := t.List(ctx)
	if err != nil {
		return err
	}
	for _, one := range list {
		if one.ID == id {
			return nil
		}
	}
	return terminalError(command.ErrNoTerminal, id)
}

// Read waits for output after an offset. When the kernel ends, the terminal ends with it and its output is gone.
// For a terminal that was closed it fails with terminal_not_found. ctx bounds the wait.
func (t *Terminals) Read(ctx context.Context, id string, after int64) (TerminalOutput, error) {
	key, number, err := t.terminal(id)
	if err != nil {
		return TerminalOutput{}, err
	}
	for {
		bounded, cancel := context.WithTimeout(ctx, outputWait)
		out, err := command.Ask(bounded, t.b.Host, key, command.ReadTerminal{ID: number, After: after})
		cancel()
		switch {
		case err == nil:
			return out, nil
		case ctx.Err() != nil:
			return TerminalOutput{}, context.Cause(ctx)
		case errors.Is(err, command.ErrNoKernel):
			return TerminalOutput{Offset: after, Ended: true, Code: lostShell}, nil
		case !errors.Is(err, context.DeadlineExceeded): // here or at the host
			return TerminalOutput{}, terminalError(err, id)
		}
	}
}

// Write types, which counts as use of the session. It waits while the shell reads nothing, until ctx ends.
// Input that others type at the same time may be interleaved.
func (t *Terminals) Write(ctx context.Context, id string, data []byte) error {
	key, number, err := t.terminal(id)
	if err != nil {
		return err
	}
	for len(data) > 0 {
		n, err := t.typeSome(ctx, key, number, data[:min(len(data), inputBytes)])
		if err != nil {
			return terminalError(err, id)
		}
		if data = data[n:]; ctx.Err() != nil && len(data) > 0 {
			return context.Cause(ctx)
		}
	}
	return t.b.typed(context.WithoutCancel(ctx))
}

// typeSome does not end with ctx: then it would not be known how much was typed.
func (t *Terminals) typeSome(ctx context.Context, key record.Key, number string, data []byte) (int, error) {
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), answerTime)
	defer cancel()
	return command.Ask(bounded, t.b.Host, key, command.WriteTerminal{ID: number, Data: data})
}

// Resize changes the size.
func (t *Terminals) Resize(ctx context.Context, id string, rows, cols int64) error {
	size, err := terminalSize(rows, cols)
	if err != nil {
		return err
	}
	key, number, err := t.terminal(id)
	if err != nil {
		return err
	}
	return terminalError(command.Tell(ctx, t.b.Host, key, command.ResizeTerminal{ID: number, Size: size}), id)
}

// Close ends a shell and removes the terminal.
func (t *Terminals) Close(ctx context.Context, id string) error {
	key, number, err := t.terminal(id)
	if err != nil {
		return err
	}
	bounded, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	return terminalError(command.Tell(bounded, t.b.Host, key, command.CloseTerminal{ID: number}), id)
}

// terminal finds the kernel that a terminal belongs to, which may have ended.
func (t *Terminals) terminal(id string) (key record.Key, number string, err error) {
	key, number, ok := t.b.find(id)
	if !ok {
		return key, "", terminalError(command.ErrNoTerminal, id)
	}
	return key, number, nil
}

func terminalError(err error, id string) error {
	switch {
	case errors.Is(err, command.ErrNoTerminal), errors.Is(err, command.ErrNoKernel):
		return api.Errorf(api.CodeTerminalNotFound, "this session has no terminal %.140q", id)
	case errors.Is(err, command.ErrTooManyTerminals):
		return api.Errorf(api.CodeLimitExceeded, "%v with running shells; end one of them", command.ErrTooManyTerminals)
	case errors.Is(err, command.ErrTooOld):
		return ErrTooOld
	case errors.Is(err, context.DeadlineExceeded):
		return api.Errorf(api.CodeKernelBusy, "the session's kernel did not answer in time; try again")
	}
	return err
}
