// Package trace writes down when the steps of a cell, and of the creation of a session, ended. `go run ./e2e/bench -trace`
// reads it.
package trace

import (
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// Variable names the directory into which the server and its host write their steps. Without it nothing is written.
const Variable = "TALARIA_TRACE"

var file atomic.Pointer[os.File]

// Open makes this process write its steps into a file of a directory, named after the process.
func Open(dir, process string) error {
	f, err := os.OpenFile(filepath.Join(dir, fmt.Sprintf("%s-%d.steps", process, os.Getpid())), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("trace: %w", err)
	}
	file.Store(f)
	return nil
}

// Step writes down that a step has just ended: a line with the nanoseconds of the clock that all processes share
// (CLOCK_MONOTONIC), and its name. It is safe for concurrent use, and takes a nanosecond if nothing is traced.
func Step(name string) {
	f := file.Load()
	if f == nil {
		return
	}
	_, _ = fmt.Fprintf(f, "%d %s\n", Now(), name)
}

// Now returns the time of that clock in nanoseconds.
func Now() int64 {
	var now unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &now)
	return now.Nano()
}
