package session

import (
	"context"
	"errors"
	"fmt"
	"time"

	"talaria/api"
	"talaria/kernel/command"
	"talaria/kernel/record"
)

const (
	// terminalWait bounds one wait for output at the host, which lasts even if the client leaves; a reader that wants
	// more asks again.
	terminalWait = 10 * time.Second
	// terminalAnswer bounds every other question to a host about terminals; the host itself answers earlier.
	terminalAnswer = 30 * time.Second
	// typingBytes is how much is typed at once.
	typingBytes = 64 << 10
	// typingCounts is how often, at most, typing is recorded as use of the session.
	typingCounts = time.Second
	// lostShell is the exit code of a shell that was killed with its kernel.
	lostShell = 128 + 9
	// maxTerminalSide bounds rows and columns.
	maxTerminalSide = 1000
)

// OpenTerminal starts a shell in the session's sandbox, and first a kernel if there is none.
func (s *Session) OpenTerminal(ctx context.Context, r api.TerminalRequest) (api.Terminal, error) {
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
	var key record.Key
	err = s.do(ctx, func(own context.Context) error {
		if !s.running {
			if err := s.startKernel(own); errors.Is(err, command.ErrUnresponsive) {
				return err
			} else if err != nil {
				return api.Errorf(api.CodeKernelStart, "no kernel could be started for the terminal: %v", err)
			}
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		key = s.key()
		return nil
	})
	if err != nil {
		return api.Terminal{}, err
	}
	bounded, cancel := context.WithTimeout(ctx, terminalAnswer)
	defer cancel()
	number, err := command.Ask(bounded, s.m.cfg.Host, key, command.OpenTerminal{Size: size})
	switch {
	case errors.Is(err, command.ErrNoKernel):
		return api.Terminal{}, api.Errorf(api.CodeNoKernel, "the kernel ended while the terminal was opened; try again")
	case err != nil:
		return api.Terminal{}, terminalError(err, "")
	}
	return api.Terminal{ID: terminalID(key.Generation, number)}, s.touch(ctx)
}

func terminalSize(rows, cols int64) (size command.TerminalSize, err error) {
	if rows < 1 || rows > maxTerminalSide {
		return size, invalid("rows must be between 1 and %d", maxTerminalSide)
	}
	if cols < 1 || cols > maxTerminalSide {
		return size, invalid("cols must be between 1 and %d", maxTerminalSide)
	}
	return command.TerminalSize{Rows: uint16(rows), Cols: uint16(cols)}, nil
}

// Terminals lists the shells of the current kernel, including those that have ended.
func (s *Session) Terminals(ctx context.Context) ([]api.Terminal, error) {
	s.mu.Lock()
	key := s.key()
	s.mu.Unlock()
	list := []api.Terminal{}
	ids, err := command.Ask(ctx, s.m.cfg.Host, key, command.ListTerminals{})
	if err != nil && !errors.Is(err, command.ErrNoKernel) {
		return nil, terminalError(err, "")
	}
	for _, id := range ids {
		list = append(list, api.Terminal{ID: terminalID(key.Generation, id)})
	}
	return list, nil
}

// HasTerminal returns nil for a terminal of the current kernel.
func (s *Session) HasTerminal(ctx context.Context, id string) error {
	list, err := s.Terminals(ctx)
	if err != nil {
		return err
	}
	for _, t := range list {
		if t.ID == id {
			return nil
		}
	}
	return terminalError(command.ErrNoTerminal, id)
}

// ReadTerminal waits for output after an offset. When the kernel ends, the terminal ends with it and its output is gone.
// For a terminal that was closed it fails with terminal_not_found. ctx bounds the wait.
func (s *Session) ReadTerminal(ctx context.Context, id string, after int64) (command.TerminalOutput, error) {
	key, number, err := s.terminal(id)
	if err != nil {
		return command.TerminalOutput{}, err
	}
	for {
		bounded, cancel := context.WithTimeout(ctx, terminalWait)
		out, err := command.Ask(bounded, s.m.cfg.Host, key, command.ReadTerminal{ID: number, After: after})
		cancel()
		switch {
		case err == nil:
			return out, nil
		case ctx.Err() != nil:
			return command.TerminalOutput{}, context.Cause(ctx)
		case errors.Is(err, command.ErrNoKernel):
			return command.TerminalOutput{Offset: after, Ended: true, Code: lostShell}, nil
		case !errors.Is(err, context.DeadlineExceeded): // here or at the host
			return command.TerminalOutput{}, terminalError(err, id)
		}
	}
}

// WriteTerminal types, which counts as use of the session. It waits while the shell reads nothing, until ctx ends.
// Input that others type at the same time may be interleaved.
func (s *Session) WriteTerminal(ctx context.Context, id string, data []byte) error {
	key, number, err := s.terminal(id)
	if err != nil {
		return err
	}
	for len(data) > 0 {
		n, err := s.typeSome(ctx, key, number, data[:min(len(data), typingBytes)])
		if err != nil {
			return terminalError(err, id)
		}
		if data = data[n:]; ctx.Err() != nil && len(data) > 0 {
			return context.Cause(ctx)
		}
	}
	return s.typed(context.WithoutCancel(ctx))
}

// typed counts typing as use at once, and records it now and then.
func (s *Session) typed(ctx context.Context) error {
	now := time.Now()
	s.mu.Lock()
	s.used(now.UnixMilli())
	due := now.Sub(s.typedAt) >= typingCounts
	if due {
		s.typedAt = now
	}
	s.mu.Unlock()
	if !due {
		return nil
	}
	return s.touch(ctx)
}

// typeSome does not end with ctx: then it would not be known how much was typed.
func (s *Session) typeSome(ctx context.Context, key record.Key, number string, data []byte) (int, error) {
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), terminalAnswer)
	defer cancel()
	return command.Ask(bounded, s.m.cfg.Host, key, command.WriteTerminal{ID: number, Data: data})
}

// ResizeTerminal changes the size.
func (s *Session) ResizeTerminal(ctx context.Context, id string, rows, cols int64) error {
	size, err := terminalSize(rows, cols)
	if err != nil {
		return err
	}
	key, number, err := s.terminal(id)
	if err != nil {
		return err
	}
	return terminalError(command.Tell(ctx, s.m.cfg.Host, key, command.ResizeTerminal{ID: number, Size: size}), id)
}

// CloseTerminal ends a shell and removes the terminal.
func (s *Session) CloseTerminal(ctx context.Context, id string) error {
	key, number, err := s.terminal(id)
	if err != nil {
		return err
	}
	bounded, cancel := context.WithTimeout(ctx, terminalAnswer)
	defer cancel()
	return terminalError(command.Tell(bounded, s.m.cfg.Host, key, command.CloseTerminal{ID: number}), id)
}

// terminalID is unique in the session: the generation of the kernel, and the kernel's own number.
func terminalID(generation int64, number string) string {
	return fmt.Sprintf("%d-%s", generation, number)
}

// terminal finds the kernel that a terminal belongs to, which may have ended.
func (s *Session) terminal(id string) (key record.Key, number string, err error) {
	s.mu.Lock()
	key = s.key()
	s.mu.Unlock()
	n := uint64(0)
	if _, err := fmt.Sscanf(id, "%d-%d", &key.Generation, &n); err != nil {
		return key, "", terminalError(command.ErrNoTerminal, id)
	}
	if number = fmt.Sprint(n); terminalID(key.Generation, number) != id {
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
		return errTooOld()
	case errors.Is(err, context.DeadlineExceeded):
		return api.Errorf(api.CodeKernelBusy, "the session's kernel did not answer in time; try again")
	}
	return err
}
