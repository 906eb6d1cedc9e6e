package host

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"talaria/kernel/command"
)

// programInput is the host's end of the pipe that a program reads as its standard input. It is safe for concurrent use; nil is
// the input of a program that has none.
type programInput struct {
	pipe    *os.File      // non-blocking, so that it can be closed while it is written
	writing chan struct{} // holds one value while somebody writes
}

// newProgramInput makes the pipe. The caller closes inside once the program has it.
func newProgramInput() (input *programInput, inside *os.File, err error) {
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC); err != nil {
		return nil, nil, fmt.Errorf("make a pipe for standard input: %w", err)
	}
	if err := unix.SetNonblock(fds[1], true); err != nil {
		unix.Close(fds[0])
		unix.Close(fds[1])
		return nil, nil, fmt.Errorf("make a pipe for standard input: %w", err)
	}
	// The program's end blocks, as programs expect.
	inside = os.NewFile(uintptr(fds[0]), "standard input")
	return &programInput{pipe: os.NewFile(uintptr(fds[1]), "standard input"), writing: make(chan struct{}, 1)}, inside, nil
}

// write writes what the program accepts within typingTime, and returns how much that was. It fails with
// [command.ErrInputClosed] if nothing reads the pipe any more. Only one caller writes at a time; ctx bounds the wait for its turn.
func (i *programInput) write(ctx context.Context, data []byte) (n int, err error) {
	if i == nil {
		return 0, command.ErrInputClosed
	}
	select {
	case i.writing <- struct{}{}:
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	}
	defer func() { <-i.writing }()
	_ = i.pipe.SetWriteDeadline(time.Now().Add(typingTime)) // fails if it is closed, and then so does the next call
	switch n, err = i.pipe.Write(data); {
	case err == nil, errors.Is(err, os.ErrDeadlineExceeded):
		return n, nil
	case errors.Is(err, os.ErrClosed), errors.Is(err, syscall.EPIPE):
		return n, command.ErrInputClosed
	}
	return n, fmt.Errorf("write standard input: %w", err)
}

// close ends the input; the program still reads what was written. It may be called more than once.
func (i *programInput) close() {
	if i != nil {
		_ = i.pipe.Close()
	}
}
