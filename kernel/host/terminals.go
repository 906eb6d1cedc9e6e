package host

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"syscall"

	"talaria/kernel"
	"talaria/kernel/command"
)

// shells are tried in this order. They are not login shells: those would replace the sandbox's PATH by the system's.
var shells = []string{"/bin/bash", "/bin/sh"}

// terminalIDs implements the command [ListTerminals].
func (k *interpreter) terminalIDs() []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	ids := []string{}
	for _, t := range k.terminals {
		ids = append(ids, t.id)
	}
	return ids
}

func (k *interpreter) readTerminal(ctx context.Context, c command.ReadTerminal) (command.TerminalOutput, error) {
	t, err := k.terminal(c.ID)
	if err != nil {
		return command.TerminalOutput{}, err
	}
	return t.next(ctx, c.After)
}

func (k *interpreter) writeTerminal(ctx context.Context, c command.WriteTerminal) (int, error) {
	t, err := k.terminal(c.ID)
	if err != nil {
		return 0, err
	}
	return t.typeIn(ctx, c.Data)
}

func (k *interpreter) resizeTerminal(c command.ResizeTerminal) error {
	t, err := k.terminal(c.ID)
	if err != nil {
		return err
	}
	if err := resize(t.master, c.Size); err != nil && !errors.Is(err, os.ErrClosed) {
		return fmt.Errorf("resize a terminal: %w", err)
	}
	return nil
}

func (k *interpreter) closeTerminal(ctx context.Context, id string) error {
	t, err := k.terminal(id)
	if err != nil {
		return err
	}
	if err := t.hangUp(ctx); err != nil {
		return fmt.Errorf("close a terminal: %w", err)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.forgetTerminal(t)
	return nil
}

func (k *interpreter) terminal(id string) (*terminal, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.phase >= leaving {
		return nil, command.ErrNoKernel
	}
	for _, t := range k.terminals {
		if t.id == id {
			return t, nil
		}
	}
	return nil, command.ErrNoTerminal
}

func (k *interpreter) openTerminal(ctx context.Context, size command.TerminalSize) (string, error) {
	sandbox := k.usable()
	if sandbox == nil {
		return "", command.ErrNoKernel
	}
	id, err := k.admitTerminal()
	if err != nil {
		return "", err
	}
	t, err := k.startShell(ctx, sandbox, id, size)
	if err == nil {
		go t.run()
	}
	k.mu.Lock()
	k.opening--
	late := k.phase >= leaving
	if err == nil && !late {
		k.terminals = append(k.terminals, t)
	}
	k.mu.Unlock()
	switch {
	case late && err == nil: // its shell ends with the sandbox
		<-t.done
		return "", command.ErrNoKernel
	case late:
		return "", command.ErrNoKernel
	case err != nil:
		return "", err
	}
	return id, nil
}

// admitTerminal makes room for another terminal and returns its id. The caller decrements opening once the terminal is
// open or has failed to open.
func (k *interpreter) admitTerminal() (id string, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.terminals)+k.opening >= command.MaxTerminals {
		over := slices.IndexFunc(k.terminals, (*terminal).isOver)
		if over < 0 {
			return "", command.ErrTooManyTerminals
		}
		k.forgetTerminal(k.terminals[over])
	}
	k.opening++
	k.lastTerminal++
	return strconv.Itoa(k.lastTerminal), nil
}

// forgetTerminal forgets a terminal. The caller holds k.mu.
func (k *interpreter) forgetTerminal(t *terminal) {
	k.terminals = slices.DeleteFunc(k.terminals, func(other *terminal) bool { return other == t })
}

// startShell starts the first shell that exists on a new terminal.
func (k *interpreter) startShell(ctx context.Context, s kernel.Sandbox, id string, size command.TerminalSize) (*terminal, error) {
	master, slave, err := makeTerminal(s)
	if err != nil {
		return nil, fmt.Errorf("open a terminal: %w", err)
	}
	defer slave.Close()
	if err := resize(master, size); err != nil {
		return nil, errors.Join(fmt.Errorf("size a terminal: %w", err), master.Close())
	}
	env := map[string]string{"TERM": "xterm-256color", "COLORTERM": "truecolor"}
	maps.Copy(env, k.proxies)
	var process kernel.Process
	for _, shell := range shells {
		process, err = s.Start(ctx, kernel.Program{Args: []string{shell}, Terminal: slave, Env: env})
		if !errors.Is(err, syscall.ENOENT) {
			break
		}
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start a shell: %w", err), master.Close())
	}
	return newTerminal(id, process, master), nil
}

// closeTerminals waits until no terminal's processes run. The sandbox has been closed.
func (k *interpreter) closeTerminals() {
	k.mu.Lock()
	all := k.terminals
	k.terminals = nil
	k.mu.Unlock()
	for _, t := range all {
		<-t.done
	}
}
