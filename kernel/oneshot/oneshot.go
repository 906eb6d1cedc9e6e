// Package oneshot defines what a host is asked to run to its end in fresh sandboxes, of which nothing stays, and what
// came of it.
package oneshot

import (
	"context"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"talaria/kernel"
)

// Runner runs programs to their end. A host is one.
type Runner interface {
	// Run carries out the steps of a request, each in a sandbox of its own, over the same files, and stops after the
	// first that does not exit with 0. It returns an error only if a step could not be run. When it returns, every
	// process of the request has ended or is being killed. ctx bounds everything.
	Run(ctx context.Context, r Request) ([]Outcome, error)
}

// Request is a set of files, and programs to run in the directory that they are in. They have no network.
type Request struct {
	Env   kernel.Environment // whose interpreter makes the sandboxes and runs scripts
	Files []File
	Steps []Step
}

// File is a file of a request. Name is a relative path without links, dots or an empty element.
type File struct {
	Name string
	Data []byte
}

// Step is one program.
type Step struct {
	Args        []string          // the program and its arguments, or those of Script
	Script      string            // a file of Python, see [kernel.Program]
	Env         map[string]string // in addition to the sandbox's own
	Stdin       []byte
	Time        time.Duration // until it is killed
	CPUTime     time.Duration // of all processes together, until they are killed; 0: any
	OutputBytes int64         // of both streams together, until it is killed
	Limits      kernel.Limits
}

// The limits for which a step was killed, as Outcome names them; others are those of [kernel.Exit].
const (
	LimitTime   = "time_limit"
	LimitCPU    = "cpu_limit"
	LimitOutput = "output_limit"
	LimitDisk   = "disk_limit"
)

// Outcome is how a step ended, as the operating system reports it.
type Outcome struct {
	Stdout, Stderr []byte
	Code           int
	Signal         syscall.Signal // that ended it, or 0
	Limit          string         // for which it was killed, or ""
	OOMKills       int64          // processes, itself included, that were killed for the memory limit
	Duration       time.Duration
	CPU            time.Duration
	// PeakMemoryBytes is that of the sandbox if a control group measures it, else of the largest process.
	PeakMemoryBytes int64
}

// SignalName returns the name of the signal, such as "SIGSEGV", or "".
func (o Outcome) SignalName() string {
	if o.Signal == 0 {
		return ""
	}
	return unix.SignalName(o.Signal)
}

// OK reports whether the step succeeded.
func (o Outcome) OK() bool { return o.Code == 0 && o.Signal == 0 && o.Limit == "" }
