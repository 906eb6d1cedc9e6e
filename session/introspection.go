package session

import (
	"context"
	"errors"
	"time"
	"unicode/utf8"

	"talaria/api"
	"talaria/kernel/command"
	"talaria/kernel/host"
	"talaria/kernel/record"
	"talaria/session/processes"
)

// answerTime is the time within which clients get an answer, or the error kernel_busy.
const answerTime = host.AnswerTime + 15*time.Millisecond

// maxAsked bounds the code that a question may hold, in bytes.
const maxAsked = 1 << 20

// Interpreter asks the interpreter of a session's kernel about names, variables and tables, and passes it the messages of
// front ends. It never starts a kernel, and its questions count as no use. It is safe for concurrent use.
type Interpreter struct {
	host command.Doer
	// kernel returns the kernel that can be asked and the session's state, or why there is none.
	kernel func() (record.Key, api.SessionState, error)
	touch  func(context.Context) error // records that the session was used
}

// Complete returns completions of the name at a position in code. Without a kernel it fails with no_kernel, as
// all questions do, and with kernel_busy if no answer comes in time. ctx bounds the wait.
func (i *Interpreter) Complete(ctx context.Context, req api.CompleteRequest) (*api.CompleteReply, error) {
	q, err := about(command.QueryComplete, req.Code, req.CursorPos)
	if err != nil {
		return nil, err
	}
	answer, err := ask(ctx, i, q)
	return answer.Completion, err
}

// Inspect describes the name at a position in code.
func (i *Interpreter) Inspect(ctx context.Context, req api.InspectRequest) (*api.InspectReply, error) {
	q, err := about(command.QueryInspect, req.Code, req.CursorPos)
	if err != nil {
		return nil, err
	}
	if req.DetailLevel != nil {
		if q.Detail = *req.DetailLevel; q.Detail != 0 && q.Detail != 1 {
			return nil, api.Invalid("field \"detail_level\" must be 0 or 1")
		}
	}
	answer, err := ask(ctx, i, q)
	return answer.Inspection, err
}

// IsComplete reports whether code is ready to run or continues on another line.
func (i *Interpreter) IsComplete(ctx context.Context, req api.IsCompleteRequest) (*api.IsCompleteReply, error) {
	q, err := about(command.QueryIsComplete, req.Code, nil)
	if err != nil {
		return nil, err
	}
	answer, err := ask(ctx, i, q)
	return answer.Completeness, err
}

// Variables lists the user's variables.
func (i *Interpreter) Variables(ctx context.Context) (*api.VariablesReply, error) {
	answer, err := ask(ctx, i, command.Query{Kind: command.QueryVariables})
	return answer.Variables, err
}

// The variables that the interpreter lists at most, and how often it is asked for them again when it had no time for all of them.
const (
	mostVariables = 1000
	listAttempts  = 3
)

// allVariables is Variables for a session in which no cell runs: it asks again while the interpreter is slow. On a machine that stays
// busy some may be missing.
func (i *Interpreter) allVariables(ctx context.Context) (list []api.Variable, err error) {
	for range listAttempts {
		var present *api.VariablesReply
		if err := patiently(ctx, func() (err error) { present, err = i.Variables(ctx); return err }); err != nil {
			return list, err
		}
		if list = present.Items; int64(len(list)) >= min(present.Total, mostVariables) {
			break
		}
	}
	return list, nil
}

// Ping asks the kernel's interpreter for a sign of life, also while a cell runs, and measures how long that took. The errors
// are those of Variables.
func (i *Interpreter) Ping(ctx context.Context) (*api.PingReply, error) {
	began := time.Now()
	if _, err := ask(ctx, i, command.Ping{}); err != nil {
		return nil, err
	}
	return &api.PingReply{LatencyMS: float64(time.Since(began).Microseconds()) / 1000}, nil
}

// about returns a query about a position in code, by default and at most its end.
func about(kind command.QueryKind, code *string, cursor *int64) (command.Query, error) {
	switch {
	case code == nil:
		return command.Query{}, api.Invalid("field \"code\" is missing")
	case len(*code) > maxAsked:
		return command.Query{}, api.Errorf(api.CodePayloadTooLarge, "field \"code\" is longer than %d bytes", maxAsked)
	case cursor != nil && *cursor < 0:
		return command.Query{}, api.Invalid("field \"cursor_pos\" is negative")
	}
	end := int64(utf8.RuneCountInString(*code))
	if cursor != nil {
		end = min(end, *cursor)
	}
	return command.Query{Kind: kind, Code: *code, Cursor: end}, nil
}

// ask gives a question to the interpreter.
func ask[R any](ctx context.Context, i *Interpreter, q command.Asking[R]) (answer R, err error) {
	key, state, err := i.kernel()
	if err != nil {
		return answer, err
	}
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	answer, err = command.Ask(ctx, i.host, key, q)
	switch {
	case errors.Is(err, command.ErrTooOld):
		return answer, processes.ErrTooOld
	case errors.Is(err, command.ErrNoKernel) && state != api.StateStarting:
		return answer, errNoKernel()
	case errors.Is(err, command.ErrNoKernel), errors.Is(err, command.ErrKernelBusy), errors.Is(err, context.DeadlineExceeded):
		return answer, api.Errorf(api.CodeKernelBusy,
			"the kernel did not answer within 200 ms: it is starting, or runs code that blocks all other threads; try again")
	}
	return answer, err
}

func errNoKernel() error {
	return api.Errorf(api.CodeNoKernel, "this session has no running kernel; run a cell first")
}

// askable returns the kernel that can be asked now and the session's state, or why there is none.
func (s *Session) askable() (record.Key, api.SessionState, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.gone:
		return record.Key{}, s.state, ErrDeleted
	case s.state == api.StateDead, s.state == api.StateHibernated:
		return record.Key{}, s.state, errNoKernel()
	}
	return s.key(), s.state, nil
}
