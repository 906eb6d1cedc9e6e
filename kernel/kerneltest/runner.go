package kerneltest

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"runtime"
	"sync"
	"sync/atomic"

	"talaria/kernel"
	"talaria/kernel/command"
)

// Mark is the HEX that a Runner sends in its ready frame.
const Mark = "0123456789abcdef"

// Runner is the inner side of a fake interpreter. A method that cannot go on because the process is dead ends the
// calling goroutine, as death would. It is safe for concurrent use, except for Read.
type Runner struct {
	// Stdout and Stderr are fd 1 and 2; what is written to them is lost unless [Fake.Pipes] is set.
	Stdout, Stderr io.Writer
	// Spec is what the sandbox was sealed with.
	Spec kernel.Spec

	process *fakeProcess
	ctx     context.Context
	control io.ReadWriteCloser
	lines   *bufio.Reader
	lingers atomic.Bool
	mu      sync.Mutex // serialises writes to control
}

// Frame is a frame from the host.
type Frame struct {
	Type       string     `json:"type"`
	ID         string     `json:"id"`
	Code       string     `json:"code"`
	Count      int64      `json:"count"`
	Silent     bool       `json:"silent"`
	AllowStdin bool       `json:"allow_stdin"`
	RequestID  string     `json:"request_id"`
	Cursor     int64      `json:"cursor"`
	Detail     int64      `json:"detail"`
	Table      string     `json:"table"`
	Offset     int64      `json:"offset"`
	Ask        string     `json:"ask"`
	Text       string     `json:"text"`
	Body       AnswerBody `json:"body"`
	Error      string     `json:"error"`
}

// AnswerBody is the answer to an ask, of whichever kind.
type AnswerBody struct {
	Value    string             `json:"value"`
	Packages []command.Package  `json:"packages"`
	Tools    []command.ToolSpec `json:"tools"`
	Result   json.RawMessage    `json:"result"`
	Run      bool               `json:"run"`
	// CheckpointID is that of an answer to a request for something after the cell.
	CheckpointID string `json:"checkpoint_id"`
}

func (r *Runner) init() { r.lines = bufio.NewReader(r.control) }

// Context is done when the process is dead.
func (r *Runner) Context() context.Context { return r.ctx }

// Read waits for the next frame of the host. It returns false when the host has closed the stream.
func (r *Runner) Read() (Frame, bool) {
	for {
		line, err := r.lines.ReadBytes('\n')
		if r.ctx.Err() != nil {
			runtime.Goexit()
		}
		if err != nil {
			return Frame{}, false
		}
		if line = bytes.TrimSpace(line); len(line) == 0 {
			continue
		}
		var f Frame
		if err := json.Unmarshal(line, &f); err != nil {
			panic("the host sent an invalid frame: " + err.Error())
		}
		return f, true
	}
}

// Send sends frame as JSON, such as map[string]any{"type": "clear", …}.
func (r *Runner) Send(frame any) {
	line, err := json.Marshal(frame)
	if err != nil {
		panic(err)
	}
	r.Write(append(append([]byte{'\n'}, line...), '\n'))
}

// Write writes bytes to the control stream unchanged.
func (r *Runner) Write(b []byte) {
	if r.ctx.Err() != nil {
		runtime.Goexit()
	}
	r.mu.Lock()
	_, err := r.control.Write(b)
	r.mu.Unlock()
	if err != nil && r.ctx.Err() != nil {
		runtime.Goexit()
	}
}

// Ready tells the host that cells can be executed.
func (r *Runner) Ready() { r.Send(map[string]any{"type": "ready", "mark": Mark}) }

// Stream sends text as Python-level output. A mark of 0 is left out.
func (r *Runner) Stream(id, name, text string, mark int) {
	r.Send(withMark(map[string]any{"type": "stream", "id": id, "name": name, "text": text}, mark))
}

// Done ends an execution.
func (r *Runner) Done(id, status string, interrupted bool) {
	r.Send(map[string]any{"type": "done", "id": id, "status": status, "interrupted": interrupted})
}

// Exit ends the process and the calling goroutine.
func (r *Runner) Exit(exit kernel.Exit) {
	r.process.end(exit)
	runtime.Goexit()
}

// Linger makes the streams outlive the process until its sandbox is closed, like a grandchild that holds them.
func (r *Runner) Linger() { r.lingers.Store(true) }

// CloseControl closes the inner end of the control stream, as user code may.
func (r *Runner) CloseControl() { _ = r.control.Close() }

func withMark(frame map[string]any, mark int) map[string]any {
	if mark > 0 {
		frame["mark"] = mark
	}
	return frame
}
