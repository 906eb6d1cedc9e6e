package session

import (
	"context"
	"errors"
	"time"
	"unicode/utf8"

	"talaria/api"
	"talaria/kernel/command"
	"talaria/kernel/host"
	"talaria/session/processes"
)

// answerTime is the time within which clients get an answer, or the error kernel_busy.
const answerTime = host.AnswerTime + 15*time.Millisecond

// maxAsked bounds the code that a question may hold, in bytes.
const maxAsked = 1 << 20

// Complete returns completions of the name at a position in code. Like all questions about names it never starts a
// kernel, writes nothing, and does not count as use. Without a kernel it fails with no_kernel, and with kernel_busy if
// no answer comes in time. ctx bounds the wait.
func (s *Session) Complete(ctx context.Context, req api.CompleteRequest) (*api.CompleteReply, error) {
	q, err := about(command.QueryComplete, req.Code, req.CursorPos)
	if err != nil {
		return nil, err
	}
	answer, err := s.ask(ctx, q)
	return answer.Completion, err
}

// Inspect describes the name at a position in code.
func (s *Session) Inspect(ctx context.Context, req api.InspectRequest) (*api.InspectReply, error) {
	q, err := about(command.QueryInspect, req.Code, req.CursorPos)
	if err != nil {
		return nil, err
	}
	if req.DetailLevel != nil {
		if q.Detail = *req.DetailLevel; q.Detail != 0 && q.Detail != 1 {
			return nil, invalid("field \"detail_level\" must be 0 or 1")
		}
	}
	answer, err := s.ask(ctx, q)
	return answer.Inspection, err
}

// IsComplete reports whether code is ready to run or continues on another line.
func (s *Session) IsComplete(ctx context.Context, req api.IsCompleteRequest) (*api.IsCompleteReply, error) {
	q, err := about(command.QueryIsComplete, req.Code, nil)
	if err != nil {
		return nil, err
	}
	answer, err := s.ask(ctx, q)
	return answer.Completeness, err
}

// Variables lists the user's variables.
func (s *Session) Variables(ctx context.Context) (*api.VariablesReply, error) {
	answer, err := s.ask(ctx, command.Query{Kind: command.QueryVariables})
	return answer.Variables, err
}

// The variables that the interpreter lists at most, and how often it is asked for them again when it had no time for all of them.
const (
	mostVariables = 1000
	listAttempts  = 3
)

// allVariables is Variables for a session in which no cell runs: it asks again while the interpreter is slow. On a machine that stays
// busy some may be missing.
func (s *Session) allVariables(ctx context.Context) (list []api.Variable, err error) {
	for range listAttempts {
		var present *api.VariablesReply
		if err := patiently(ctx, func() (err error) { present, err = s.Variables(ctx); return err }); err != nil {
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
func (s *Session) Ping(ctx context.Context) (*api.PingReply, error) {
	began := time.Now()
	if _, err := ask(ctx, s, command.Ping{}); err != nil {
		return nil, err
	}
	return &api.PingReply{LatencyMS: float64(time.Since(began).Microseconds()) / 1000}, nil
}

// about returns a query about a position in code, by default and at most its end.
func about(kind command.QueryKind, code *string, cursor *int64) (command.Query, error) {
	switch {
	case code == nil:
		return command.Query{}, invalid("field \"code\" is missing")
	case len(*code) > maxAsked:
		return command.Query{}, api.Errorf(api.CodePayloadTooLarge, "field \"code\" is longer than %d bytes", maxAsked)
	case cursor != nil && *cursor < 0:
		return command.Query{}, invalid("field \"cursor_pos\" is negative")
	}
	end := int64(utf8.RuneCountInString(*code))
	if cursor != nil {
		end = min(end, *cursor)
	}
	return command.Query{Kind: kind, Code: *code, Cursor: end}, nil
}

// ask gives a question to the session's kernel.
func (s *Session) ask(ctx context.Context, q command.Query) (command.Answer, error) {
	return ask(ctx, s, q)
}

func ask[R any](ctx context.Context, s *Session, q command.Asking[R]) (answer R, err error) {
	s.mu.Lock()
	key, state, gone := s.key(), s.state, s.gone
	s.mu.Unlock()
	switch {
	case gone:
		return answer, ErrDeleted
	case state == api.StateDead, state == api.StateHibernated:
		return answer, errNoKernel()
	}
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	answer, err = command.Ask(ctx, s.m.cfg.Host, key, q)
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
