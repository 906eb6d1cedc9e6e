package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"talaria/kernel"
	"talaria/kernel/procfs"
)

// Sizes of the output pipes. Beyond 64 MiB of pipes in total, the system gives an ordinary user tiny ones.
const (
	pipeBytes     = 256 << 10
	pipeBytesRoot = 1 << 20
)

// Process is a process that pid 1 started.
type Process struct {
	sandbox *Sandbox
	id      int64
	pid     int    // as seen inside; written before anybody else has the process, and guarded by the sandbox's lock until then
	onHost  int    // the same, as the host sees it; this and the next two are of a copy of the interpreter only
	score   []byte // that it had before it became the first to go when memory runs out
	waits   bool   // it is not the interpreter, or no longer
	control net.Conn
	stdout  *os.File
	stderr  *os.File
	beside  bool        // it is the runner of an interpreter beside the first one
	killed  atomic.Bool // by the host
	done    chan struct{}
	exit    kernel.Exit   // written before done is closed, as are
	cpu     time.Duration // these
	peak    int64
}

var (
	_ kernel.ProcessMeter   = (*Process)(nil)
	_ kernel.ProcessLocator = (*Process)(nil)
)

// Control is the host's end of a stream socket; nil unless the process is the runner.
func (p *Process) Control() io.ReadWriteCloser {
	if p.control == nil {
		return nil
	}
	return p.control
}

// Stdout returns the read end of the pipe on fd 1.
func (p *Process) Stdout() *os.File { return p.stdout }

// Stderr returns the read end of the pipe on fd 2.
func (p *Process) Stderr() *os.File { return p.stderr }

// Done is closed when the process has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Exit returns how the process ended; it is valid once Done is closed.
func (p *Process) Exit() kernel.Exit { return p.exit }

// Used implements [kernel.ProcessMeter].
func (p *Process) Used() (cpu time.Duration, peakMemoryBytes int64) { return p.cpu, p.peak }

// Signal asks pid 1 to send a signal. It returns os.ErrProcessDone if the process has ended.
func (p *Process) Signal(sig syscall.Signal) error { return p.signal(sig, false) }

// SignalGroup implements [kernel.GroupSignaler].
func (p *Process) SignalGroup(sig syscall.Signal) error { return p.signal(sig, true) }

func (p *Process) signal(sig syscall.Signal, group bool) error {
	select {
	case <-p.done:
		return os.ErrProcessDone
	default:
	}
	if sig == syscall.SIGKILL {
		p.killed.Store(true)
	}
	body := signalRequest{Process: p.id, Signal: int(sig), Group: group}
	err := send(p.sandbox.conn, request{Op: "signal", Body: body})
	if errors.Is(err, syscall.EPIPE) || errors.Is(err, net.ErrClosed) {
		return os.ErrProcessDone
	}
	if err != nil {
		return fmt.Errorf("signal process: %w", err)
	}
	return nil
}

// Locate implements [kernel.ProcessLocator].
func (p *Process) Locate() kernel.ProcessPlace {
	place := kernel.ProcessPlace{PID: p.pid}
	select {
	case <-p.done:
		return place
	default:
	}
	onHost, err := p.sandbox.onHost(p.pid)
	if err != nil {
		return place
	}
	if stat, err := procfs.ReadStat(onHost); err == nil {
		place.HostPID, place.StartTime = onHost, stat.StartTime
	}
	return place
}

func (p *Process) finish(exit kernel.Exit) {
	p.exit = exit
	close(p.done)
}

// Start runs a command, or the runner. If ctx ends first, it kills what may have started.
func (s *Sandbox) Start(ctx context.Context, cmd kernel.Program) (kernel.Process, error) {
	p, err := s.start(ctx, cmd)
	if err != nil {
		return nil, fmt.Errorf("start in sandbox: %w", err)
	}
	return p, nil
}

func (s *Sandbox) start(ctx context.Context, cmd kernel.Program) (_ *Process, err error) {
	p := &Process{sandbox: s, done: make(chan struct{})}
	var inside []*os.File
	defer func() {
		closeAll(inside)
		if err != nil {
			p.closeStreams()
		}
	}()
	for _, read := range []**os.File{&p.stdout, &p.stderr} {
		var write *os.File
		if cmd.Terminal != nil {
			write, err = duplicate(cmd.Terminal)
		} else {
			*read, write, err = outputPipe()
		}
		if err != nil {
			return nil, err
		}
		inside = append(inside, write)
	}
	reopened := inside[:2:2] // as /dev/stdin, /dev/stdout and /dev/stderr
	isRunner := len(cmd.Args) == 0 && cmd.Script == ""
	if isRunner && cmd.Terminal == nil {
		var control *os.File
		if p.control, control, err = controlPair(); err != nil {
			return nil, err
		}
		inside = append(inside, control)
	}
	if cmd.Stdin != nil && !isRunner {
		stdin, err := duplicate(cmd.Stdin)
		if err != nil {
			return nil, err
		}
		inside = append(inside, stdin)
		reopened = append(reopened, stdin)
	}
	s.mu.Lock()
	sealed, uid := s.sealed, s.uid
	s.mu.Unlock()
	if !sealed {
		return nil, errors.New("the sandbox is not sealed")
	}
	for _, pipe := range reopened {
		if err := unix.Fchown(int(pipe.Fd()), uid, -1); err != nil {
			return nil, fmt.Errorf("give a standard stream to user %d: %w", uid, err)
		}
	}
	if !s.admit(p) {
		return nil, s.lost()
	}

	body := startRequest{Args: cmd.Args, Script: cmd.Script, Environment: cmd.Env, Directory: cmd.Dir,
		Terminal: cmd.Terminal != nil, Group: cmd.Group, Beside: cmd.Beside}
	if body.Args == nil {
		body.Args = []string{}
	}
	if body.Environment == nil {
		body.Environment = map[string]string{}
	}
	started, err := s.callAs(ctx, p.id, "start", body, inside...)
	if err != nil {
		// Packets stay in order, so this arrives after a start that is still under way.
		_ = p.Signal(syscall.SIGKILL)
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	p.pid, p.beside = started.PID, cmd.Beside
	if p.control != nil && !cmd.Beside {
		s.runner, s.interpreter = started.PID, p.id
	}
	return p, nil
}

// interpreters returns the pids inside of the interpreters that live: the first one's, and those beside it.
func (s *Sandbox) interpreters() map[int]bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	pids := map[int]bool{s.runner: true}
	for _, p := range s.processes {
		if p.beside {
			pids[p.pid] = true
		}
	}
	return pids
}

// admit gives a process that is about to start an id by which its exit is reported. It returns false if everything has
// ended.
func (s *Sandbox) admit(p *Process) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.processes == nil {
		return false
	}
	s.nextID++
	p.id = s.nextID
	s.processes[p.id] = p
	return true
}

func (p *Process) closeStreams() {
	closeAll([]*os.File{p.stdout, p.stderr})
	if p.control != nil {
		p.control.Close()
	}
}

func closeAll(files []*os.File) {
	for _, f := range files {
		if f != nil {
			f.Close()
		}
	}
}

func duplicate(f *os.File) (*os.File, error) {
	fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("duplicate a descriptor: %w", err)
	}
	return os.NewFile(uintptr(fd), f.Name()), nil
}

// outputPipe makes a pipe with a non-blocking read end and a blocking write end.
func outputPipe() (read, write *os.File, err error) {
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC); err != nil {
		return nil, nil, fmt.Errorf("make pipe: %w", err)
	}
	size := pipeBytes
	if os.Geteuid() == 0 {
		size = pipeBytesRoot
	}
	// A smaller one works too, with more wake-ups.
	_, _ = unix.FcntlInt(uintptr(fds[0]), unix.F_SETPIPE_SZ, size)
	if err := unix.SetNonblock(fds[0], true); err != nil {
		unix.Close(fds[0])
		unix.Close(fds[1])
		return nil, nil, fmt.Errorf("make pipe: %w", err)
	}
	return os.NewFile(uintptr(fds[0]), "output"), os.NewFile(uintptr(fds[1]), "output"), nil
}

// controlPair makes the stream socket for the runner's frames. Go's end is read with read(2), which drops descriptors.
func controlPair() (net.Conn, *os.File, error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("make control socket: %w", err)
	}
	inside := os.NewFile(uintptr(fds[1]), "control")
	host, err := unixConn(fds[0], "control")
	if err != nil {
		inside.Close()
		return nil, nil, err
	}
	return host, inside, nil
}
