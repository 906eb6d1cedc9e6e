package host

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"

	"talaria/kernel"
	"talaria/kernel/command"
)

const (
	// terminalRead is the most that one read of a terminal returns.
	terminalRead = 64 << 10
	// drainBytes is more than the system buffers of what a shell has written and nobody has read.
	drainBytes = 256 << 10
	// typingTime is how long one write waits for a shell that reads nothing.
	typingTime = time.Second
	// hangUpGrace is how long a shell may take to end after its terminal was hung up.
	hangUpGrace = time.Second
	// maxRows bounds rows, and columns too.
	maxRows = 1000
)

// terminal is a shell in the sandbox, on a terminal whose other end the host holds.
type terminal struct {
	id      string
	process kernel.Process
	master  *os.File      // non-blocking, so that it can be closed while it is read
	typing  chan struct{} // holds one value while somebody types
	done    chan struct{} // closed when the shell has ended and its output is kept

	mu    sync.Mutex // guards the fields below
	kept  []byte     // the last bytes of the output
	end   int64      // offset after them
	ended bool
	more  chan struct{} // closed, and replaced, when there is more
}

// newTerminal takes ownership of the process and the master. run must be called once.
func newTerminal(id string, process kernel.Process, master *os.File) *terminal {
	return &terminal{
		id: id, process: process, master: master,
		typing: make(chan struct{}, 1), done: make(chan struct{}), more: make(chan struct{}),
	}
}

// run keeps the terminal's output until the shell has ended. Processes that the shell left running may hold the
// terminal open; run does not wait for them.
func (t *terminal) run() {
	defer close(t.done)
	read := make(chan struct{})
	go func() {
		defer close(read)
		t.read()
	}()
	<-t.process.Done()
	_ = t.master.SetReadDeadline(time.Unix(1, 0)) // fails if it is closed, which ends the reading too
	<-read
	t.drain()
	_ = t.master.Close()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ended = true
	close(t.more)
}

// read returns when nobody inside has the terminal open any more, or when a deadline or Close ends it.
func (t *terminal) read() {
	buffer := make([]byte, 32<<10)
	for {
		n, err := t.master.Read(buffer)
		t.add(buffer[:n])
		if err != nil {
			return
		}
	}
}

// drain takes what has already been written: Linux makes all of it available before it returns EAGAIN (n_tty_read).
func (t *terminal) drain() {
	conn, err := t.master.SyscallConn()
	if err != nil {
		return
	}
	buffer := make([]byte, 32<<10)
	for taken := 0; taken < drainBytes; {
		n := 0
		err := conn.Control(func(fd uintptr) { n, _ = unix.Read(int(fd), buffer) })
		if err != nil || n <= 0 {
			return
		}
		t.add(buffer[:n])
		taken += n
	}
}

func (t *terminal) add(data []byte) {
	if len(data) == 0 {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.kept = append(t.kept, data...)
	t.end += int64(len(data))
	if len(t.kept) > command.TerminalBytes+command.TerminalBytes/4 { // so that bytes are not moved for each byte that arrives
		t.kept = t.kept[:copy(t.kept, t.kept[len(t.kept)-command.TerminalBytes:])]
	}
	close(t.more)
	t.more = make(chan struct{})
}

// next waits for output after an offset. An offset that is no longer kept means the oldest one that is, and one beyond
// the end means the end.
func (t *terminal) next(ctx context.Context, after int64) (command.TerminalOutput, error) {
	t.mu.Lock()
	after = min(after, t.end)
	t.mu.Unlock()
	for {
		out, more := t.piece(after)
		if len(out.Data) > 0 || out.Ended {
			return out, nil
		}
		select {
		case <-more:
		case <-ctx.Done():
			return command.TerminalOutput{}, context.Cause(ctx)
		}
	}
}

// piece returns the output from an offset to the end; more is closed when that has changed.
func (t *terminal) piece(after int64) (out command.TerminalOutput, more <-chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	kept := t.kept[max(0, len(t.kept)-command.TerminalBytes):]
	begin := t.end - int64(len(kept))
	out.Offset = max(after, begin)
	rest := kept[out.Offset-begin:]
	out.Data = append(out.Data, rest[:min(len(rest), terminalRead)]...)
	if t.ended && len(out.Data) == len(rest) {
		out.Ended, out.Code = true, exitCode(t.process.Exit())
	}
	return out, t.more
}

func exitCode(e kernel.Exit) int {
	switch {
	case e.Lost:
		return 128 + int(syscall.SIGKILL)
	case e.Signal != 0:
		return 128 + int(e.Signal)
	}
	return e.Code
}

// typeIn types what the terminal accepts within typingTime, and returns how much that was: everything if the shell has
// ended. Only one caller types at a time; ctx bounds the wait for its turn.
func (t *terminal) typeIn(ctx context.Context, data []byte) (n int, err error) {
	select {
	case t.typing <- struct{}{}:
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	}
	defer func() { <-t.typing }()
	_ = t.master.SetWriteDeadline(time.Now().Add(typingTime)) // fails if it is closed, and then so does the next call
	switch n, err = t.master.Write(data); {
	case err == nil, errors.Is(err, os.ErrDeadlineExceeded):
		return n, nil
	case errors.Is(err, os.ErrClosed), errors.Is(err, syscall.EIO):
		return len(data), nil
	}
	return n, fmt.Errorf("type: %w", err)
}

// resize returns os.ErrClosed for a closed terminal. It leaves the descriptor as it is; pty.Setsize would make it
// blocking.
func resize(master *os.File, size command.TerminalSize) error {
	bounded := unix.Winsize{Row: min(max(size.Rows, 1), maxRows), Col: min(max(size.Cols, 1), maxRows)}
	conn, err := master.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	if conn.Control(func(fd uintptr) { failed = unix.IoctlSetWinsize(int(fd), unix.TIOCSWINSZ, &bounded) }) != nil {
		return os.ErrClosed
	}
	return failed
}

// hangUp hangs the terminal up, so that the system sends SIGHUP to the shell and its foreground processes, and kills a
// shell that this does not end. It returns when the shell has ended; ctx bounds the wait. It may be called more than
// once.
func (t *terminal) hangUp(ctx context.Context) error {
	_ = t.master.Close()
	grace := time.NewTimer(hangUpGrace)
	defer grace.Stop()
	for {
		select {
		case <-t.done:
			return nil
		case <-grace.C:
			_ = t.process.Signal(syscall.SIGKILL) // fails if it has ended
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func (t *terminal) isOver() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.ended
}

// makeTerminal makes a terminal of the sandbox, or of the host if the sandbox has none of its own.
func makeTerminal(s kernel.Sandbox) (master, slave *os.File, err error) {
	if maker, ok := s.(kernel.TerminalMaker); ok {
		if master, slave, err = maker.MakeTerminal(); !errors.Is(err, errors.ErrUnsupported) {
			return master, slave, err
		}
	}
	return hostTerminal()
}

func hostTerminal() (master, slave *os.File, err error) {
	blocking, slave, err := pty.Open()
	if err != nil {
		return nil, nil, err
	}
	defer blocking.Close()
	fd, err := unix.FcntlInt(blocking.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err == nil {
		err = unix.SetNonblock(fd, true)
	}
	if err != nil {
		return nil, nil, errors.Join(err, slave.Close())
	}
	return os.NewFile(uintptr(fd), "terminal"), slave, nil
}
