package host

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	"talaria/kernel"
	"talaria/kernel/command"
)

// ReasonBeside is the reason of kernels that end because the kernel does whose sandbox they share.
const ReasonBeside = "beside_ended"

// sharedGrace is how long it may take until the next process of a sandbox ends while parts of it are closed, before the whole
// sandbox does.
const sharedGrace = 10 * time.Second

// shared is a part of a sandbox that belongs to another kernel: an interpreter beside that one's, and what it starts. It ends with
// that sandbox, at the latest.
type shared struct {
	main *interpreter // that owns the sandbox

	mu        sync.Mutex // guards the fields below
	processes []kernel.Process
	closed    bool
}

var (
	_ kernel.Sandbox       = (*shared)(nil)
	_ kernel.Meter         = (*shared)(nil)
	_ kernel.TerminalMaker = (*shared)(nil)
)

// share takes a part of the sandbox of main, instead of a sandbox of its own.
func (k *interpreter) share(main *interpreter) error {
	if err := main.admitBeside(k); err != nil {
		return err
	}
	k.main, k.watch, k.proxies = main, main.watch, main.proxies
	k.use(&shared{main: main}, kernel.Limits{})
	return nil
}

// admitBeside adds a kernel to those in this one's sandbox.
func (k *interpreter) admitBeside(other *interpreter) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.phase != serving || k.cause != nil {
		return command.ErrNoKernel
	}
	if k.beside == nil {
		k.beside = map[*interpreter]struct{}{}
	}
	k.beside[other] = struct{}{}
	return nil
}

// leaveMain undoes share.
func (k *interpreter) leaveMain() {
	if k.main != nil {
		k.main.mu.Lock()
		defer k.main.mu.Unlock()
		delete(k.main.beside, k)
	}
}

// mainEnds reports whether it shares a sandbox that is being closed.
func (k *interpreter) mainEnds() bool {
	if k.main == nil {
		return false
	}
	k.main.mu.Lock()
	defer k.main.mu.Unlock()
	return k.main.phase >= leaving
}

// ownWatch returns the watcher that ends with this kernel, or nil.
func (k *interpreter) ownWatch() *watcher {
	if k.main != nil {
		return nil
	}
	return k.watch
}

// others returns the kernels in this one's sandbox beside it.
func (k *interpreter) others() []*interpreter {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Collect(maps.Keys(k.beside))
}

// owner returns the kernel of a session that can be used, for another one that is to run in its sandbox.
func (h *Host) owner(session string) (*interpreter, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for key, k := range h.kernels {
		if key.Session == session && k.main == nil && k.usable() != nil {
			return k, nil
		}
	}
	return nil, fmt.Errorf("the session in whose sandbox it was to run has no kernel: %w", command.ErrNoKernel)
}

// Handle is empty: nothing of the sandbox is this kernel's own.
func (s *shared) Handle() kernel.Handle { return kernel.Handle{} }

func (s *shared) Seal(context.Context, kernel.Spec) error {
	return errors.New("the sandbox belongs to another kernel")
}

func (s *shared) Layers() []string { return s.main.layers() }

func (s *shared) Start(ctx context.Context, p kernel.Program) (kernel.Process, error) {
	process, err := s.main.sandbox.Start(ctx, p)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	closed := s.closed
	s.processes = append(living(s.processes), process)
	s.mu.Unlock()
	if closed { // meanwhile; its streams are the caller's
		return process, process.Signal(syscall.SIGKILL)
	}
	return process, nil
}

// living returns the processes that have not ended.
func living(processes []kernel.Process) (list []kernel.Process) {
	for _, p := range processes {
		select {
		case <-p.Done():
		default:
			list = append(list, p)
		}
	}
	return list
}

// Usage returns what the whole sandbox uses.
func (s *shared) Usage(ctx context.Context) (kernel.Usage, error) { return s.main.sandbox.Usage(ctx) }

// Meter is the same.
func (s *shared) Meter(ctx context.Context) (kernel.Usage, error) {
	if m, ok := s.main.sandbox.(kernel.Meter); ok {
		return m.Meter(ctx)
	}
	return s.main.sandbox.Usage(ctx)
}

func (s *shared) MakeTerminal() (master, slave *os.File, err error) {
	if m, ok := s.main.sandbox.(kernel.TerminalMaker); ok {
		return m.MakeTerminal()
	}
	return nil, nil, errors.ErrUnsupported
}

// sharing returns the processes that have not ended of all kernels in k's sandbox beside k.
func (k *interpreter) sharing() (list []kernel.Process) {
	for _, one := range k.others() {
		one.mu.Lock()
		part, ok := one.sandbox.(*shared)
		one.mu.Unlock()
		if ok {
			part.mu.Lock()
			list = append(list, living(part.processes)...)
			part.mu.Unlock()
		}
	}
	return list
}

// Close kills what was started through it, and returns when that has ended. Pid 1 ends one part of a sandbox after another, so it waits
// for as long as others end meanwhile. If none does, it ends the kernel that owns the sandbox, which takes everything inside with it.
func (s *shared) Close() error {
	s.mu.Lock()
	s.closed = true
	left := living(s.processes)
	s.mu.Unlock()
	ended := make(chan error, 1)
	go func() { ended <- end(left) }() // sending a signal may take as long as the wait
	grace := time.NewTimer(sharedGrace)
	defer grace.Stop()
	for before := s.main.sharing(); ; {
		select {
		case err := <-ended:
			return err
		case <-grace.C:
		}
		now := living(before) // not what was started later, which could go on without end
		if len(now) == len(before) {
			break
		}
		before = now
		grace.Reset(sharedGrace)
	}
	s.main.log.Error("processes of a session beside this one do not end; its sandbox is closed")
	s.main.kill(ending{reason: exitReason(kernel.Exit{Lost: true})})
	return <-ended
}

// end kills these processes and waits for them.
func end(processes []kernel.Process) error {
	var errs []error
	for _, p := range processes {
		if err := p.Signal(syscall.SIGKILL); err != nil && !errors.Is(err, os.ErrProcessDone) {
			errs = append(errs, err)
			continue
		}
		<-p.Done()
	}
	return errors.Join(errs...)
}
