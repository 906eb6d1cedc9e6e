package link

import (
	"context"
	"errors"

	"talaria/kernel/command"
	"talaria/kernel/oneshot"
)

// withRuns is the first version of the host protocol that has opRun.
const withRuns = 8

type (
	runBody struct {
		Protocol int             `json:"protocol"`
		Request  oneshot.Request `json:"request"`
	}
	runReply struct {
		Outcomes []oneshot.Outcome `json:"outcomes"`
	}
)

// run carries out a one-shot run. The connection is for this run alone: when it ends, so does the run.
func (s *server) run(c *conn, first request) {
	var in runBody
	err := first.decode(&in)
	if err == nil && s.cfg.protocol.common(Versions{in.Protocol, in.Protocol}) == 0 {
		err = errProtocol
	}
	if err == nil {
		err = s.beginRun()
	}
	if err != nil {
		_ = c.answer(first.N, nil, err)
		return
	}
	defer s.check()
	defer s.endRun()
	ctx, cancel := context.WithCancel(s.ctx)
	defer cancel()
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		_, _, _ = c.read() // nothing more comes on it
		cancel()
	}()
	outcomes, err := s.host.Run(ctx, in.Request)
	_ = c.answer(first.N, runReply{outcomes}, err)
	_ = c.unix.CloseRead()
	<-gone
}

// beginRun keeps a retired host alive until endRun.
func (s *server) beginRun() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closing:
		return command.ErrHostClosed
	case s.retired:
		return errRetired
	}
	s.starting++
	return nil
}

func (s *server) endRun() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.starting--
}

var _ oneshot.Runner = (*Client)(nil)

// Run implements [oneshot.Runner]: the host that takes new kernels carries it out. If ctx ends or this process dies, the
// run is ended. A run is not repeated when its host dies.
func (c *Client) Run(ctx context.Context, request oneshot.Request) ([]oneshot.Outcome, error) {
	for range tries {
		r, err := c.place(ctx)
		if err != nil {
			return nil, err
		}
		outcomes, err := c.runOn(ctx, r, request)
		if errors.Is(err, errRetired) || errors.Is(err, command.ErrHostClosed) && ctx.Err() == nil && !isClosed(c.ctx.Done()) {
			r.retired.Store(true)
			continue
		}
		return outcomes, err
	}
	return nil, errRetired
}

func (c *Client) runOn(ctx context.Context, r *remote, request oneshot.Request) ([]oneshot.Outcome, error) {
	if r.protocol < withRuns {
		return nil, command.ErrTooOld
	}
	ctx, done, err := r.whileResponsive(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	made, _, err := c.dial(ctx, r.path)
	if err != nil {
		return nil, err
	}
	defer c.hangUp(made)
	call := newCaller(made, nil)
	ended := make(chan struct{})
	if !c.begin(func() { defer close(ended); _ = call.run() }) {
		return nil, command.ErrHostClosed
	}
	defer func() { _ = call.Close(); <-ended }()
	var out runReply
	err = call.call(ctx, opRun, runBody{r.protocol, request}, &out)
	return out.Outcomes, err
}
