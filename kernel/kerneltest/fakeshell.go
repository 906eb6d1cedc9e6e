package kerneltest

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"talaria/kernel"
)

// Shell is a command of a fake on the inner end of a terminal. It returns its exit status. It must return soon after
// ctx is done, which means that it was killed. Reading fails then, and after the terminal was hung up.
type Shell func(ctx context.Context, terminal *os.File) (status int)

// Lines is a shell that answers each line with that line in brackets, until a line is "exit STATUS".
func Lines(_ context.Context, terminal *os.File) int {
	for lines := bufio.NewScanner(terminal); lines.Scan(); {
		if word, status, _ := strings.Cut(lines.Text(), " "); word == "exit" {
			code, _ := strconv.Atoi(status)
			return code
		}
		if _, err := io.WriteString(terminal, "["+lines.Text()+"]\n"); err != nil {
			break
		}
	}
	return 128 + int(syscall.SIGHUP)
}

// fakeShell is a running shell.
type fakeShell struct {
	terminal *os.File
	cancel   context.CancelFunc
	done     chan struct{}
	returned chan struct{} // closed when the function has returned

	ended sync.Once
	exit  kernel.Exit
}

func startShell(run Shell, terminal *os.File) (*fakeShell, error) {
	fd, err := unix.FcntlInt(terminal.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("take a terminal: %w", err)
	}
	if err := unix.SetNonblock(fd, true); err != nil { // so that Close ends reads
		_ = unix.Close(fd)
		return nil, fmt.Errorf("take a terminal: %w", err)
	}
	p := &fakeShell{
		terminal: os.NewFile(uintptr(fd), "inner terminal"), done: make(chan struct{}), returned: make(chan struct{}),
	}
	ctx, cancel := context.WithCancel(context.Background())
	p.cancel = cancel
	go func() {
		defer close(p.returned)
		code := run(ctx, p.terminal)
		p.end(kernel.Exit{Code: code})
	}()
	return p, nil
}

// end ends the process. Only the first call counts.
func (p *fakeShell) end(exit kernel.Exit) {
	p.ended.Do(func() {
		p.exit = exit
		p.cancel()
		_ = p.terminal.Close()
		close(p.done)
	})
}

func (p *fakeShell) Control() io.ReadWriteCloser { return nil }
func (p *fakeShell) Stdout() *os.File            { return nil }
func (p *fakeShell) Stderr() *os.File            { return nil }
func (p *fakeShell) Done() <-chan struct{}       { return p.done }
func (p *fakeShell) Exit() kernel.Exit           { return p.exit }

func (p *fakeShell) Signal(sig syscall.Signal) error {
	if sig == syscall.SIGKILL {
		p.end(kernel.Exit{Signal: sig})
	}
	return nil
}
