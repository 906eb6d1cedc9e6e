// Package record describes what happened to a kernel, in numbered records, and their binary encoding.
package record

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"talaria/kernel"
)

// Key names one interpreter by the session's server-made id and the generation.
type Key struct {
	Session    string
	Generation int64
}

// Record is one thing that happened to a kernel. The records of a key are numbered from 1 without gaps; the number has
// nothing to do with the public seq.
type Record struct {
	Key         Key
	KSeq        uint64
	Time        time.Time
	ExecutionID string
	Body        Body
}

// Body is one of the structs below.
type Body interface{ record() }

type (
	// Started: the interpreter was given the execution.
	Started struct{}
	// Stream: text on Name, "stdout" or "stderr".
	Stream struct{ Name, Text string }
	// Display: a value is shown; with Update it replaces what DisplayID showed.
	Display struct {
		Data      map[string]json.RawMessage
		Metadata  map[string]json.RawMessage
		DisplayID string
		Update    bool
	}
	// Result: the value of the last expression.
	Result struct {
		Data     map[string]json.RawMessage
		Metadata map[string]json.RawMessage
	}
	// Raised: an exception reached the end of the cell. Limit is the limit that caused it, if one did.
	Raised struct {
		Error ErrorInfo
		Limit *LimitHit `json:",omitempty"`
	}
	// Clear: clear_output was called.
	Clear struct{ Wait bool }
	// Asked: code inside asks the outside for something, and waits. Code that is not part of a cell, as in a terminal,
	// asks without an execution.
	Asked struct {
		ID   string
		Body AskBody
	}
	// AskClosed: nobody is waiting for the answer any longer. How is [Answered], "interrupted" or "timeout".
	AskClosed struct {
		Kind AskKind
		ID   string
		How  string
	}
	// Finished: the execution is over, the interpreter is free. What the record says about the variables is true.
	Finished struct {
		Status Status
		Error  *ErrorInfo
		Usage  ExecutionUsage
	}
	// Died: the interpreter is gone, and its sandbox is closed. It is the last record of its key. If an execution was
	// running, ExecutionID names it and Usage is the execution's own.
	Died struct {
		Reason string // exit:N, signal:NAME, memory_limit, out_of_memory, or the reason given to Stop
		Exit   kernel.Exit
		Usage  ExecutionUsage
		// TimedOut says that the kernel was killed because the execution ignored its timeout.
		TimedOut bool
		Limit    *LimitHit
	}
)

// CopyLost: a copy of the interpreter that waited is gone. Reason is as of [Died].
type CopyLost struct {
	ID     string
	Reason string
}

func (CopyLost) record() {}

// Loss is a thing that a copy or a saved state of an interpreter does not have, by its name, and why.
type Loss struct {
	Name   string `json:"name"`
	Type   string `json:"type,omitzero"`
	Reason string `json:"reason"`
}

func (Started) record()   {}
func (Stream) record()    {}
func (Display) record()   {}
func (Result) record()    {}
func (Raised) record()    {}
func (Clear) record()     {}
func (Asked) record()     {}
func (AskClosed) record() {}
func (Finished) record()  {}
func (Died) record()      {}

// Answered is the How of an [AskClosed] whose asker got the answer.
const Answered = "answered"

// Status says how an execution ended while its interpreter lived.
type Status string

// The statuses of [Finished].
const (
	OK          Status = "ok"
	Errored     Status = "error"
	TimedOut    Status = "timeout"
	Interrupted Status = "interrupted"
)

// ErrorInfo is an exception.
type ErrorInfo struct {
	Ename     string
	Evalue    string
	Traceback []string
	Hint      string       `json:",omitempty"` // what to do about it
	Frames    []ErrorFrame `json:",omitempty"` // in the order of their lines
}

// ErrorFrame is a frame of a traceback. Its lines are Traceback[Start:End].
type ErrorFrame struct {
	File     string
	Line     int64
	Function string
	User     bool   `json:",omitempty"` // the code is the user's, not a library's
	Cell     string `json:",omitempty"` // the execution that the frame's cell belongs to
	Start    int
	End      int
}

// ExecutionUsage is what an execution used, measured outside the interpreter.
type ExecutionUsage struct {
	Duration   time.Duration
	CPU        time.Duration
	PeakMemory int64
}

// LimitHit names a limit that a cell has reached, or that ended a kernel.
type LimitHit struct {
	Name  string
	Value int64
	Used  int64
}

// String names the limit, its value, and what was used.
func (h LimitHit) String() string {
	name := "limits." + h.Name
	switch h.Name {
	case "disk_inodes":
		name = "the limit of files (one for each 4 KiB of limits.disk_bytes)"
	case "disk_depth":
		return fmt.Sprintf("folders of the workspace are more than %d deep or may not be read, or its files have too many names "+
			"(hard links), so limits.disk_bytes cannot be enforced; remove them", h.Value)
	case "disk_open_bytes":
		return "the deleted files that processes of the session hold open cannot be counted, so limits.disk_bytes cannot be " +
			"enforced; close files or end processes"
	case "tmp_bytes":
		name = "the limit of each of /tmp, /dev/shm and the home directory (a quarter of limits.memory_bytes)"
	}
	switch {
	case strings.HasSuffix(h.Name, "_bytes"):
		return fmt.Sprintf("%s is %s, and %s was used", name, readable(h.Value), readable(h.Used))
	case strings.HasSuffix(h.Name, "_s"):
		return fmt.Sprintf("%s is %d s, and %d s was used", name, h.Value, h.Used)
	}
	return fmt.Sprintf("%s is %d, and %d were used", name, h.Value, h.Used)
}

// readable returns a number of bytes in the unit that people use for it.
func readable(bytes int64) string {
	switch {
	case bytes >= 1<<30 && bytes%(1<<30) == 0:
		return fmt.Sprintf("%d GiB", bytes>>30)
	case bytes >= 1<<20:
		return strings.TrimSuffix(fmt.Sprintf("%.1f", float64(bytes)/(1<<20)), ".0") + " MiB"
	case bytes >= 1<<10:
		return strings.TrimSuffix(fmt.Sprintf("%.1f", float64(bytes)/(1<<10)), ".0") + " KiB"
	}
	return fmt.Sprintf("%d bytes", bytes)
}

// AskKind names what code inside a kernel can ask the outside for.
type AskKind string

// The kinds of asks.
const (
	AskInput   AskKind = "input"   // a line of text: an [InputRequest]
	AskInstall AskKind = "install" // to install or remove packages: a [PackageChange]
	AskTools   AskKind = "tools"   // which tools exist: a [ToolsRequest]
	AskTool    AskKind = "tool"    // the call of a tool: a [ToolCall]
	AskAfter   AskKind = "after"   // what is to be done after the cell: an [AfterCell]
)

// AskBody is what is asked for: an [InputRequest], a [PackageChange], a [ToolsRequest], a [ToolCall] or an [AfterCell].
type AskBody interface{ Kind() AskKind }

// InputRequest asks for a line of text.
type InputRequest struct {
	Prompt   string
	Password bool
}

// Kind implements [AskBody].
func (InputRequest) Kind() AskKind { return AskInput }

// Bounds of a change of packages.
const (
	MaxRequirements   = 200
	MaxRequirementLen = 1 << 10 // bytes
)

// PackageChange is a wanted change to a session's packages. The requirements are as their user wrote them: 1 to
// MaxRequirements texts of up to MaxRequirementLen bytes. Nothing else about them has been checked.
type PackageChange struct {
	Remove       bool
	Requirements []string
	Upgrade      bool
	Reinstall    bool
	NoDeps       bool
	Pre          bool
	Quiet        bool
}

// Kind implements [AskBody].
func (PackageChange) Kind() AskKind { return AskInstall }
