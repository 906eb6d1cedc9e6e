// Package kerneltest holds what tests of kernels need: a conformance suite for every backend, and a fake backend whose
// interpreter is a Go function.
package kerneltest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"talaria/kernel"
)

// Script is the interpreter of a fake: it exchanges control frames through r, and when it returns, the process exits
// with status 0. It must return soon after r.Context is done.
type Script func(r *Runner)

// Fake is a backend without isolation, for tests. With zero options it works inside a testing/synctest bubble: the
// control stream is in memory and there are no pipes on fd 1 and 2. Fields may be set before its first use; its
// methods are safe for concurrent use.
type Fake struct {
	// Pipes gives the interpreter real pipes on fd 1 and 2, and a socket as its control stream.
	Pipes bool
	// CreateErr, SealErr and StartErr make the step that they are named after fail.
	CreateErr, SealErr, StartErr error
	// Usage returns what its sandboxes report; nil reports zeros.
	Usage func() (kernel.Usage, error)
	// OnCreate is called by each Create with its context; it may block.
	OnCreate func(context.Context)
	// OnClose is called by a sandbox's first Close, when its processes are dead; it may block.
	OnClose func()
	// Shell is what its sandboxes run on terminals, instead of every command; with nil they run none.
	Shell Shell
	// Deaf makes no signal reach its processes: they end with their sandbox.
	Deaf bool
	// KillTime is how long a sandbox takes to kill a process; it kills one after another.
	KillTime time.Duration
	// LayerNames are the layers that its sandboxes report once sealed.
	LayerNames []string

	script Script

	mu    sync.Mutex // guards the fields below
	specs []kernel.Spec
	next  int
	open  map[*fakeSandbox]struct{}
}

// NewFake makes a backend that runs script as each interpreter.
func NewFake(script Script) *Fake {
	return &Fake{script: script, LayerNames: []string{"none (fake)"}, open: map[*fakeSandbox]struct{}{}}
}

// Specs returns the specs of all sandboxes sealed so far.
func (f *Fake) Specs() []kernel.Spec {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]kernel.Spec(nil), f.specs...)
}

// Open returns how many sandboxes are not closed.
func (f *Fake) Open() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.open)
}

// KillAll ends the processes of all open sandboxes from outside, as that signal would.
func (f *Fake) KillAll(sig syscall.Signal) {
	f.mu.Lock()
	open := maps.Clone(f.open)
	f.mu.Unlock()
	for s := range open {
		s.kill(kernel.Exit{Signal: sig})
	}
}

// Name implements [kernel.Backend].
func (f *Fake) Name() string { return "fake" }

// Probe implements [kernel.Backend].

// Create implements [kernel.Backend].
func (f *Fake) Create(ctx context.Context, _ kernel.Environment, _ bool) (kernel.Sandbox, error) {
	if f.OnCreate != nil {
		f.OnCreate(ctx)
	}
	if f.CreateErr != nil {
		return nil, fmt.Errorf("create sandbox: %w", f.CreateErr)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.next++
	s := &fakeSandbox{fake: f, handle: kernel.Handle{Backend: "fake", PID: f.next}}
	s.closed = sync.OnceFunc(s.close)
	f.open[s] = struct{}{}
	return s, nil
}

type fakeSandbox struct {
	fake   *Fake
	handle kernel.Handle
	closed func()

	mu        sync.Mutex // guards the fields below
	spec      *kernel.Spec
	isClosed  bool
	processes []*fakeProcess
	shells    []*fakeShell
	kills     time.Time // when the last process that is to be killed will have been
}

func (s *fakeSandbox) Handle() kernel.Handle { return s.handle }

func (s *fakeSandbox) Seal(_ context.Context, spec kernel.Spec) error {
	if s.fake.SealErr != nil {
		return fmt.Errorf("seal sandbox: %w", s.fake.SealErr)
	}
	s.fake.mu.Lock()
	s.fake.specs = append(s.fake.specs, spec)
	s.fake.mu.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.spec = &spec
	return nil
}

// OpenEgress makes proxies that nobody connects to.
func (s *fakeSandbox) OpenEgress(context.Context) (exit kernel.Egress, err error) {
	for _, into := range []**os.File{&exit.HTTP, &exit.SOCKS} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return exit, err
		}
		*into, err = l.(*net.TCPListener).File()
		if err := errors.Join(err, l.Close()); err != nil {
			return exit, err
		}
	}
	exit.Why = "it is a fake"
	return exit, nil
}

func (s *fakeSandbox) Layers() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.spec == nil {
		return nil
	}
	return s.fake.LayerNames
}

func (s *fakeSandbox) Start(_ context.Context, cmd kernel.Program) (kernel.Process, error) {
	if s.fake.StartErr != nil {
		return nil, s.fake.StartErr
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.spec == nil || s.isClosed {
		return nil, errors.New("the sandbox is not sealed, or closed")
	}
	if cmd.Terminal != nil && s.fake.Shell != nil {
		shell, err := startShell(s.fake.Shell, cmd.Terminal)
		if err != nil {
			return nil, err
		}
		s.shells = append(s.shells, shell)
		return shell, nil
	}
	if len(cmd.Args) > 0 {
		return nil, errors.New("the fake runs no commands")
	}
	p, err := newFakeProcess(s.fake.Pipes)
	if err != nil {
		return nil, err
	}
	p.sandbox = s
	p.runner.Spec = *s.spec
	s.processes = append(s.processes, p)
	p.scripts.Go(func() {
		defer p.end(kernel.Exit{})
		s.fake.script(p.runner)
	})
	return p, nil
}

func (s *fakeSandbox) Usage(context.Context) (kernel.Usage, error) {
	if s.fake.Usage == nil {
		return kernel.Usage{}, nil
	}
	return s.fake.Usage()
}

// ChangeLimits implements [kernel.LimitChanger].
func (s *fakeSandbox) ChangeLimits(_ context.Context, limits kernel.Limits) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.spec.Limits = limits
	return nil
}

func (s *fakeSandbox) kill(exit kernel.Exit) {
	s.mu.Lock()
	processes, shells := s.processes, s.shells
	s.mu.Unlock()
	for _, p := range processes {
		p.end(exit)
	}
	for _, p := range shells {
		p.end(exit)
	}
}

func (s *fakeSandbox) Close() error {
	s.closed()
	return nil
}

func (s *fakeSandbox) close() {
	s.mu.Lock()
	s.isClosed = true
	s.mu.Unlock()
	s.kill(kernel.Exit{Signal: syscall.SIGKILL})
	for _, p := range s.processes {
		p.release()
		p.scripts.Wait()
	}
	for _, p := range s.shells {
		<-p.returned
	}
	if s.fake.OnClose != nil {
		s.fake.OnClose()
	}
	s.fake.mu.Lock()
	defer s.fake.mu.Unlock()
	delete(s.fake.open, s)
}

// fakeProcess is a running script.
type fakeProcess struct {
	control        io.ReadWriteCloser
	stdout, stderr *os.File
	sandbox        *fakeSandbox
	runner         *Runner
	scripts        sync.WaitGroup
	release        func() // closes the inner ends of the streams
	cancel         context.CancelFunc
	done           chan struct{}

	mu   sync.Mutex // guards exit
	exit *kernel.Exit
}

func newFakeProcess(pipes bool) (*fakeProcess, error) {
	p := &fakeProcess{done: make(chan struct{})}
	r := &Runner{process: p, Stdout: io.Discard, Stderr: io.Discard}
	r.ctx, p.cancel = context.WithCancel(context.Background())
	p.runner = r
	var inner []io.Closer
	if pipes {
		outside, inside, err := socketPair()
		if err != nil {
			return nil, err
		}
		out, outEnd, err := os.Pipe()
		if err != nil {
			return nil, err
		}
		errs, errEnd, err := os.Pipe()
		if err != nil {
			return nil, err
		}
		p.control, p.stdout, p.stderr = outside, out, errs
		r.control, r.Stdout, r.Stderr = inside, outEnd, errEnd
		inner = []io.Closer{inside, outEnd, errEnd}
	} else {
		outside, inside := net.Pipe()
		p.control, r.control = outside, inside
		inner = []io.Closer{inside}
	}
	p.release = sync.OnceFunc(func() {
		for _, c := range inner {
			_ = c.Close()
		}
	})
	r.init()
	return p, nil
}

func socketPair() (a, b *os.File, err error) {
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC|syscall.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("socket pair: %w", err)
	}
	return os.NewFile(uintptr(fds[0]), "control"), os.NewFile(uintptr(fds[1]), "control"), nil
}

// end ends the process. Only the first call counts.
func (p *fakeProcess) end(exit kernel.Exit) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.exit != nil {
		return
	}
	p.exit = &exit
	p.cancel()
	if !p.runner.lingers.Load() {
		p.release()
	}
	close(p.done)
}

func (p *fakeProcess) Control() io.ReadWriteCloser { return p.control }
func (p *fakeProcess) Stdout() *os.File            { return p.stdout }
func (p *fakeProcess) Stderr() *os.File            { return p.stderr }
func (p *fakeProcess) Done() <-chan struct{}       { return p.done }

func (p *fakeProcess) Signal(sig syscall.Signal) error {
	if sig != syscall.SIGKILL || p.sandbox.fake.Deaf {
		return nil
	}
	if p.sandbox.fake.KillTime == 0 {
		p.end(kernel.Exit{Signal: sig})
		return nil
	}
	p.sandbox.mu.Lock()
	defer p.sandbox.mu.Unlock()
	if now := time.Now(); p.sandbox.kills.Before(now) {
		p.sandbox.kills = now
	}
	p.sandbox.kills = p.sandbox.kills.Add(p.sandbox.fake.KillTime)
	time.AfterFunc(time.Until(p.sandbox.kills), func() { p.end(kernel.Exit{Signal: sig}) })
	return nil
}

func (p *fakeProcess) Exit() kernel.Exit {
	p.mu.Lock()
	defer p.mu.Unlock()
	return *p.exit
}
