package main

import (
	"bufio"
	"context"
	"io"
	"os"
	"strings"
	"syscall"
	"unsafe"
)

// answers reads lines for the questions of a cell, one question at a time. A line that is typed when its question is closed is for
// the next one. It is not safe for concurrent use.
type answers struct {
	in     io.Reader
	reader *bufio.Reader // one for all questions, since it reads ahead
	typed  chan string   // the line that is being read; nil for none
	end    func()        // of the open question; nil for none
}

// begin waits for a line in the background, without echo for a password, and passes it on. The end of ctx or close ends the wait.
func (a *answers) begin(ctx context.Context, password bool, answer func(context.Context, string)) {
	a.close()
	if a.reader == nil {
		a.reader = bufio.NewReader(a.in)
	}
	if a.typed == nil {
		a.typed = make(chan string, 1)
		go func(reader *bufio.Reader, typed chan string) {
			line, err := reader.ReadString('\n')
			if err != nil && line == "" {
				line = endOfInput
			}
			typed <- strings.TrimSuffix(line, "\n")
		}(a.reader, a.typed)
	}
	restore := func() {}
	if password {
		restore = noEcho(a.in)
	}
	ctx, cancel := context.WithCancel(ctx)
	done, taken := make(chan struct{}), false
	go func() {
		defer close(done)
		defer restore()
		select {
		case line := <-a.typed:
			taken = true
			answer(ctx, line)
		case <-ctx.Done():
		}
	}()
	a.end = func() {
		cancel()
		<-done
		if taken {
			a.typed = nil
		}
	}
}

// close ends the open question.
func (a *answers) close() {
	if a.end != nil {
		a.end()
		a.end = nil
	}
}

// noEcho has a terminal not show what is typed, until restore is called.
func noEcho(in io.Reader) (restore func()) {
	file, ok := in.(*os.File)
	if !ok || !isTerminal(file) {
		return func() {}
	}
	var before syscall.Termios
	if termios(file, syscall.TCGETS, &before) != nil {
		return func() {}
	}
	hidden := before
	hidden.Lflag &^= syscall.ECHO
	hidden.Lflag |= syscall.ECHONL
	if termios(file, syscall.TCSETS, &hidden) != nil {
		return func() {}
	}
	return func() { _ = termios(file, syscall.TCSETS, &before) }
}

// termios reads or sets the settings of a terminal.
func termios(file *os.File, request uintptr, settings *syscall.Termios) error {
	if _, _, errno := syscall.Syscall(syscall.SYS_IOCTL, file.Fd(), request, uintptr(unsafe.Pointer(settings))); errno != 0 {
		return errno
	}
	return nil
}
