package execd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"

	"talaria/api"
	"talaria/server/transfer"
	"talaria/session"
	"talaria/session/processes"
)

// The signals that end a command: when a client asks for it, and when its time is over or its client has left.
const (
	sigterm = 15
	sigkill = 9
)

// maxLine bounds the text of one event of a command. A longer line comes in several.
const maxLine = 64 << 10

// commandRequest is the body of POST command.
type commandRequest struct {
	Command    string            `json:"command"`
	Argv       []string          `json:"argv"`
	CWD        string            `json:"cwd"`
	Background bool              `json:"background"`
	Timeout    int64             `json:"timeout"` // in milliseconds; 0: none
	Envs       map[string]string `json:"envs"`
}

// program is what a request starts.
func (r commandRequest) program() (processes.Request, error) {
	p := processes.Request{Args: r.Argv, Env: r.Envs, Dir: r.CWD}
	switch {
	case (r.Command == "") == (len(r.Argv) == 0):
		return p, api.Errorf(api.CodeInvalidRequest, "give either command or argv")
	case r.Background:
		return p, api.Errorf(api.CodeNotImplemented, "commands in the background are not served here; end the command with & and redirect its output")
	case r.Timeout < 0:
		return p, api.Errorf(api.CodeInvalidRequest, "timeout must not be negative")
	case r.Command != "":
		p.Args = []string{"bash", "-c", r.Command}
	}
	return p, nil
}

// runCommand runs a command beside the interpreter and answers with its output. A client that goes away ends it.
func (h *Handler) runCommand(q *request) error {
	var body commandRequest
	if err := q.read(&body); err != nil {
		return err
	}
	program, err := body.program()
	if err != nil {
		return err
	}
	s, err := h.sandbox(q)
	if err != nil {
		return err
	}
	defer s.Release()
	started := time.Now()
	id, err := s.Programs().Start(q.command(), program)
	if err != nil {
		return err
	}
	defer q.caller.Attach(s)()
	ctx, cancel := h.UntilDrain(q.Context())
	defer cancel()
	if body.Timeout > 0 {
		ctx, cancel = context.WithTimeoutCause(ctx, time.Duration(body.Timeout)*time.Millisecond, errTimeout)
		defer cancel()
	}
	out := h.stream(q)
	last, err := follow(ctx, s, id, out)
	if timedOut := errors.Is(err, errTimeout); timedOut || q.Context().Err() != nil || errors.Is(err, transfer.ErrWrite) {
		_ = s.Programs().SignalGroup(q.command(), id, sigkill) // fails where it has ended by itself
		if !timedOut {
			return nil
		}
		last = commandFailed("124", fmt.Sprintf("the command took longer than its timeout of %d ms", body.Timeout))
	} else if err != nil {
		panic(http.ErrAbortHandler) // the client sees that the stream was cut off
	}
	if last.Type == typeComplete {
		last.ExecutionTime = max(time.Since(started).Milliseconds(), 1)
	}
	_ = out.send(last) // nothing can be done about a client that has left
	return nil
}

var errTimeout = errors.New("the command's timeout has expired")

// commandFailed is the last event of a command whose exit code is not 0: clients take it from the value.
func commandFailed(code, words string) event {
	return event{Type: typeError, Error: &failure{Ename: "CommandExecError", Evalue: code, Traceback: []string{words}}}
}

// follow sends what a program prints until it has ended, and returns the last event.
func follow(ctx context.Context, s *session.Session, id string, out events) (last event, err error) {
	if err := out.send(event{Type: typeInit, Text: joinID(s.ID(), programMark+id)}); err != nil {
		return event{}, err
	}
	stdout, stderr := lines{name: typeStdout}, lines{name: typeStderr}
	err = transfer.Relay(ctx, func(ctx context.Context) iter.Seq2[processes.ProgramOutput, error] {
		return printed(ctx, s, id)
	}, silence, func(p processes.ProgramOutput) error {
		if p.Ended {
			last = exit(p.Code, p.Signal)
		}
		for _, e := range slices.Concat(stdout.take(p.Stdout.Data, p.Ended), stderr.take(p.Stderr.Data, p.Ended)) {
			if err := out.send(e); err != nil {
				return err
			}
		}
		return nil
	}, out.ping)
	return last, err
}

// printed yields what a program prints, and at last how it ended.
func printed(ctx context.Context, s *session.Session, id string) iter.Seq2[processes.ProgramOutput, error] {
	return func(yield func(processes.ProgramOutput, error) bool) {
		var stdout, stderr int64
		for {
			p, err := s.Programs().Read(ctx, id, stdout, stderr)
			if !yield(p, err) || err != nil || p.Ended {
				return
			}
			stdout, stderr = p.Stdout.Offset+int64(len(p.Stdout.Data)), p.Stderr.Offset+int64(len(p.Stderr.Data))
		}
	}
}

// exit is the last event of a program that has ended.
func exit(code, signal int) event {
	switch {
	case signal != 0:
		return commandFailed(strconv.Itoa(128+signal), "signal: "+strconv.Itoa(signal))
	case code != 0:
		return commandFailed(strconv.Itoa(code), "exit status "+strconv.Itoa(code))
	}
	return event{Type: typeComplete}
}

// lines makes events of a program's output. As in execd, each has one line without its end, and an empty line is "\n".
type lines struct {
	name string // of the stream
	rest []byte // a line whose end is not there yet
}

// take returns the lines that are complete with data; at the end, also what remains.
func (l *lines) take(data []byte, end bool) []event {
	var list []event
	l.rest = append(l.rest, data...)
	for len(l.rest) > 0 {
		at := bytes.IndexByte(l.rest, '\n')
		switch {
		case at > maxLine || at < 0 && len(l.rest) > maxLine:
			at = whole(l.rest[:maxLine])
			list = append(list, l.event(l.rest[:at]))
			l.rest = l.rest[at:]
			continue
		case at < 0 && !end:
			l.rest = bytes.Clone(l.rest) // what was sent is not kept
			return list
		case at < 0:
			at = len(l.rest)
		}
		list = append(list, l.event(bytes.TrimSuffix(l.rest[:at], []byte("\r"))))
		l.rest = l.rest[min(at+1, len(l.rest)):]
	}
	l.rest = nil
	return list
}

func (l *lines) event(line []byte) event {
	if len(line) == 0 {
		return event{Type: l.name, Text: "\n"}
	}
	return event{Type: l.name, Text: string(bytes.ToValidUTF8(line, []byte("\uFFFD")))}
}

// whole returns how much of text to send, so that no character is cut in two.
func whole(text []byte) int {
	for back := 1; back < utf8.UTFMax && back < len(text); back++ {
		if tail := text[len(text)-back:]; utf8.RuneStart(tail[0]) {
			if utf8.FullRune(tail) {
				return len(text)
			}
			return len(text) - back
		}
	}
	return len(text)
}
