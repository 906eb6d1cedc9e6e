package session

import (
	"context"
	"errors"
	"time"

	"talaria/api"
	"talaria/kernel"
)

// answerTime is what clients are promised: an answer by then, or the word that the kernel is busy.
const answerTime = kernel.AnswerTime + 15*time.Millisecond

// Ask asks the session's kernel about its names. It never starts a kernel, writes nothing, and does not count as use.
// Without a kernel it is no_kernel; kernel_busy where no answer came in time. ctx bounds the wait.
func (s *Session) Ask(ctx context.Context, q kernel.Query) (kernel.Answer, error) {
	s.mu.Lock()
	key, state, gone := s.key(), s.state, s.gone
	s.mu.Unlock()
	switch {
	case gone:
		return kernel.Answer{}, ErrDeleted
	case state == api.StateDead, state == api.StateHibernated:
		return kernel.Answer{}, errNoKernel()
	}
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	answer, err := kernel.Ask(ctx, s.m.cfg.Host, key, q)
	switch {
	case errors.Is(err, kernel.ErrTooOld):
		return answer, errTooOld()
	case errors.Is(err, kernel.ErrNoKernel) && state != api.StateStarting:
		return answer, errNoKernel()
	case errors.Is(err, kernel.ErrNoKernel), errors.Is(err, kernel.ErrKernelBusy), errors.Is(err, context.DeadlineExceeded):
		return answer, api.Errorf(api.CodeKernelBusy,
			"the kernel did not answer within 200 ms: it starts, or is in code that lets nothing else run; try again")
	}
	return answer, err
}

func errTooOld() error {
	return api.Errorf(api.CodeNotImplemented,
		"this session's kernel was started by an earlier version, which cannot do this; reset the session")
}

func errNoKernel() error {
	return api.Errorf(api.CodeNoKernel, "this session has no kernel now; run a cell first")
}
