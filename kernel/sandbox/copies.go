package sandbox

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"talaria/kernel"
	"talaria/kernel/procfs"
)

// copyOOMScore makes a copy the first of its sandbox to be killed when memory runs out.
const copyOOMScore = 1000

// savingOOMScore makes a copy that saves its variables, and what it forks for that, go before the interpreter but after other copies.
const savingOOMScore = 600

// Adopt implements [kernel.Copier].
func (s *Sandbox) Adopt(ctx context.Context, pid int) (kernel.Process, error) {
	p := &Process{sandbox: s, done: make(chan struct{})}
	if !s.admit(p) {
		return nil, s.lost()
	}
	if _, err := s.callAs(ctx, p.id, "adopt", adoptRequest{PID: pid}); err != nil {
		_ = p.Signal(syscall.SIGKILL) // in case it was adopted after ctx ended
		return nil, fmt.Errorf("adopt a copy of the interpreter: %w", err)
	}
	onHost, err := s.onHost(pid)
	if err == nil {
		p.score, err = exchangeOOMScore(onHost, []byte(strconv.Itoa(copyOOMScore)))
	}
	if err != nil { // it could cost the interpreter its life
		return nil, errors.Join(fmt.Errorf("make a copy of the interpreter the first to go when memory runs out: %w", err), p.Signal(syscall.SIGKILL))
	}
	p.pid, p.onHost, p.waits = pid, onHost, true
	return p, nil
}

// SetAside implements [kernel.Copier].
func (s *Sandbox) SetAside(interpreter kernel.Process) error {
	p := interpreter.(*Process)
	onHost, err := s.onHost(p.pid)
	if err != nil {
		return err
	}
	score, err := exchangeOOMScore(onHost, []byte(strconv.Itoa(copyOOMScore)))
	if err != nil {
		return fmt.Errorf("make an interpreter that waits the first to go when memory runs out: %w", err)
	}
	p.onHost, p.score, p.waits = onHost, score, true
	return nil
}

// onHost returns the pid on the host of the process that has that pid inside.
func (s *Sandbox) onHost(inside int) (int, error) {
	if !s.backend.tier.Contained() {
		return inside, nil
	}
	pids, err := s.pids()
	if err != nil {
		return 0, err
	}
	for _, pid := range pids {
		if id, err := procfs.ReadIdentity(pid); err == nil && id.InsidePID == inside { // else it has ended
			return pid, nil
		}
	}
	return 0, fmt.Errorf("process %d is not in the sandbox: %w", inside, os.ErrProcessDone)
}

// Wake implements [kernel.Copier].
func (s *Sandbox) Wake(ctx context.Context, interpreter, copied kernel.Process) error {
	old, next := interpreter.(*Process), copied.(*Process)
	old.killed.Store(!old.waits)
	_, err := s.call(ctx, "wake", wakeRequest{Stops: old.id, Wakes: next.id, Spares: old.waits})
	if err = done(err); errors.Is(err, os.ErrProcessDone) {
		old.killed.Store(false)
	}
	if err != nil {
		return fmt.Errorf("wake a copy of the interpreter: %w", err)
	}
	next.waits = false
	if _, err := exchangeOOMScore(next.onHost, next.score); err != nil {
		s.backend.cfg.Log.Warn("an interpreter stays the first to go when memory runs out", "error", err)
	}
	s.mu.Lock()
	s.runner, s.interpreter = next.pid, next.id
	s.mu.Unlock()
	return nil
}

// SaveIn implements [kernel.Copier].
func (s *Sandbox) SaveIn(ctx context.Context, copied kernel.Process) error {
	p := copied.(*Process)
	s.setOOMScore(p, savingOOMScore)
	defer s.setOOMScore(p, copyOOMScore)
	if _, err := s.call(ctx, "save", saveRequest{Process: p.id}); err != nil {
		return fmt.Errorf("save the variables of a copy of the interpreter: %w", done(err))
	}
	return nil
}

// Memory implements [kernel.Copier].
func (s *Sandbox) Memory() (used, interpreter int64, err error) {
	if used, err = s.group.Anonymous(); err != nil {
		return 0, 0, err
	}
	pids, err := s.pids()
	if err != nil {
		return 0, 0, err
	}
	s.mu.Lock()
	runner, copied := s.runner, map[int]bool{s.handle.PID: true}
	for _, p := range s.processes {
		if p.onHost != 0 && p.pid != runner {
			copied[p.onHost] = true
		}
	}
	s.mu.Unlock()
	found := false
	for _, pid := range pids {
		if copied[pid] {
			continue
		}
		p, err := procfs.Read(pid)
		switch {
		case err != nil: // it has ended
		case p.InsidePID == runner:
			interpreter, found = p.Anonymous, true
		default:
			used -= p.Anonymous
		}
	}
	if !found {
		return 0, 0, fmt.Errorf("the interpreter: %w", os.ErrProcessDone)
	}
	return max(0, used), interpreter, nil
}

// setOOMScore sets the score of a copy, unless it has ended: its pid may be that of another process then.
func (s *Sandbox) setOOMScore(copied *Process, score int) {
	if onHost, err := s.onHost(copied.pid); err == nil && onHost == copied.onHost {
		_, _ = exchangeOOMScore(onHost, []byte(strconv.Itoa(score))) // it may end now
	}
}

// done makes pid 1's error that a process has ended one that wraps os.ErrProcessDone.
func done(err error) error {
	var failed *stepError
	if errors.As(err, &failed) && failed.errno == unix.ESRCH {
		return fmt.Errorf("%w: %w", os.ErrProcessDone, err)
	}
	return err
}

// exchangeOOMScore sets the score of a process on this machine, and returns the one before.
func exchangeOOMScore(pid int, score []byte) ([]byte, error) {
	name := fmt.Sprintf("/proc/%d/oom_score_adj", pid)
	before, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	return bytes.TrimSpace(before), os.WriteFile(name, score, 0)
}
