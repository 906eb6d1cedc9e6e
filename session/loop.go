package session

import (
	"context"
	"errors"
	"sync"
	"time"

	"talaria/api"
	"talaria/kernel/command"
	"talaria/kernel/record"
	"talaria/kernel/trace"
	"talaria/session/packages"
	"talaria/store"
)

// loop is the state of the session's goroutine, and how others reach it.
type loop struct {
	commands chan func(context.Context)
	wake     chan struct{}
	records  chan []record.Record
	started  sync.Once
	cancel   context.CancelCauseFunc // set when it is started
	stopped  chan struct{}           // closed when the goroutine has ended

	// Only the goroutine touches the fields below.

	running  bool              // there is a kernel
	replayTo uint64            // records up to this one existed when this server started
	drafted  store.StateReason // the state, including all changes that are on their way to the log
	// pendingArtifacts is the disk space of artifacts whose references are on their way to the log.
	pendingArtifacts int64
	commBytes        int64       // that betweenCells has counted since the last execution started
	releaseMain      func()      // set while the kernel of the main session is held, see beside.go
	due              []dueAfter  // what cells that have ended asked for, and is to be done before the next one
	retry            *time.Timer // of the end of a kernel that is leaving
}

func newLoop(state store.StateReason) loop {
	return loop{
		commands: make(chan func(context.Context)), wake: make(chan struct{}, 1), records: make(chan []record.Record),
		stopped: make(chan struct{}), drafted: state,
	}
}

// begin starts the session's goroutine, once.
func (s *Session) begin() {
	s.started.Do(func() {
		ctx, cancel := context.WithCancelCause(context.Background())
		s.cancel = cancel
		go s.live(ctx)
	})
}

// live is the session's goroutine. State that only it touches needs no lock.
func (s *Session) live(ctx context.Context) {
	defer close(s.stopped)
	for {
		select {
		case <-ctx.Done():
			return
		case do := <-s.commands:
			if ctx.Err() != nil { // it ends; in particular, it starts no kernel any more
				return
			}
			s.work(ctx, do)
		case <-s.wake:
			s.work(ctx, func(context.Context) {})
		case batch := <-s.records:
			s.work(ctx, func(ctx context.Context) { s.take(ctx, batch) })
		}
	}
}

// work does what the session's goroutine was asked to do, and what follows from it.
func (s *Session) work(ctx context.Context, do func(context.Context)) {
	if !s.retain() {
		return
	}
	defer s.Release()
	do(ctx)
	if s.afterCells(ctx) {
		s.dispatch(ctx)
	}
	s.restAfterLast(ctx)
	if err := s.journal.trim(ctx); err != nil && ctx.Err() == nil {
		s.log.Error("shorten the log", "error", err)
	}
}

// startSoon makes the session's goroutine start the first kernel. If the server ends first, the next server starts it.
func (s *Session) startSoon() {
	select {
	case s.commands <- s.firstKernel:
	case <-s.stopped:
	}
}

// do runs a function on the session's goroutine and waits for it.
func (s *Session) do(ctx context.Context, f func(context.Context) error) error {
	return s.doThen(ctx, f, func(context.Context) {})
}

// doThen is do, but for a second function that runs right after the first one, which the caller does not wait for.
func (s *Session) doThen(ctx context.Context, f func(context.Context) error, then func(context.Context)) error {
	if !s.retain() {
		return s.ending()
	}
	defer s.Release()
	s.begin()
	done := make(chan error, 1)
	select {
	case s.commands <- func(own context.Context) { done <- f(own); then(own) }:
	case <-s.stopped:
		return s.ending()
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case err := <-done:
		return err
	case <-s.stopped:
		select {
		case err := <-done: // it ended the goroutine
			return err
		default:
			return s.ending()
		}
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *Session) ending() error {
	if s.isGone() {
		return ErrDeleted
	}
	return ErrClosing
}

// dispatch gives the next execution to the kernel, and starts a kernel if the session has none. One that is leaving ends first.
func (s *Session) dispatch(ctx context.Context) {
	for ctx.Err() == nil {
		if err := s.endLeaving(ctx); err != nil {
			if ctx.Err() == nil {
				s.log.Error("end a kernel whose variables are saved; trying again", "error", err)
				if s.retry != nil {
					s.retry.Stop()
				}
				s.retry = time.AfterFunc(retryPause, s.wakeUp)
			}
			return
		}
		s.mu.Lock()
		if s.current != nil || len(s.queue) == 0 || s.gone {
			s.mu.Unlock()
			return
		}
		r := s.queue[0]
		switch {
		case r.approval == cellAsked:
			s.mu.Unlock()
			return
		case r.approval == cellUnchecked && s.approvalMode != api.ApprovalsOff:
			s.mu.Unlock()
			s.askCell(ctx, r)
			continue
		}
		s.queue = s.queue[1:]
		s.current = r
		denied := r.cancel == reasonDenied
		s.mu.Unlock()
		if denied {
			s.endDenied(ctx, r)
		} else if !s.hand(ctx, r) {
			return
		}
	}
}

// hand gives one execution to the kernel. It reports false when nothing more can be handed out now.
func (s *Session) hand(ctx context.Context, r *execution) bool {
	if !s.running {
		if err := s.startKernel(ctx); err != nil {
			if ctx.Err() != nil { // the next server starts one
				return false
			}
			if errors.Is(err, command.ErrUnresponsive) {
				s.mu.Lock()
				s.putBack(r)
				s.mu.Unlock()
				time.AfterFunc(retryPause, s.wakeUp)
				return false
			}
			s.failStart(ctx, r, err)
			return true
		}
	}
	if r.row.Checkpoint && !r.checkpointed {
		r.checkpointed = true
		_, err := s.makeCheckpoint(ctx, wanted{})
		if err != nil && ctx.Err() != nil { // the next server makes it
			return false
		}
		if err != nil {
			s.log.Error("make a checkpoint before a cell", "error", err)
		}
	}
	s.mu.Lock()
	key, count := s.key(), s.executionCount+1
	cancelled, cpu := r.cancel, s.limits.ExecutionCPUS
	r.given = cancelled == ""
	r.giving, r.interrupt = r.given, false
	r.row.Generation = s.generation
	s.mu.Unlock()
	if cancelled != "" {
		s.settle(ctx, s.ended(r, outcome{status: api.StatusCancelled, reason: cancelled, state: api.VariablesKept}))
		s.rest(ctx)
		return true
	}
	if r.row.Silent {
		count = 0
	} else {
		r.row.ExecutionCount = &count
	}
	r.out.number = r.row.N
	go s.give(ctx, r, key, command.Execution{
		ID: r.row.ID, Code: r.row.Code, Count: count, Silent: r.row.Silent, AllowStdin: r.row.AllowStdin,
		Expressions: r.row.Expressions,
		Timeout:     time.Duration(r.row.TimeoutMS) * time.Millisecond, CPUTime: time.Duration(cpu) * time.Second,
	})
	return false
}

// give gives an execution to the kernel, which takes as long as the host does not respond, and then interrupts the
// execution if that was requested meanwhile.
func (s *Session) give(ctx context.Context, r *execution, key record.Key, e command.Execution) {
	trace.Step("cell taken from the queue")
	err := command.Tell(ctx, s.m.cfg.Host, key, e)
	dead := errors.Is(err, command.ErrNoKernel) // its last record will come, and the next kernel gets this execution
	s.mu.Lock()
	if s.current != r || !r.giving || s.key() != key { // the last record was taken, or the execution has ended
		s.mu.Unlock()
		return
	}
	r.given, r.giving = !dead, false
	if dead && r.interrupt {
		r.cancel = "interrupted"
	}
	interrupt := r.interrupt
	s.mu.Unlock()
	switch {
	case dead, ctx.Err() != nil:
	case err != nil:
		// It is not known whether it got the cell. Its last record ends the execution.
		s.log.Error("the kernel does not accept a cell; stopping it", "error", err)
		s.giveUp(ctx, key, reasonRefused)
	case interrupt:
		err := insist(ctx, func() error {
			return command.Tell(ctx, s.m.cfg.Host, key, command.Interrupt{ExecutionID: e.ID})
		})
		if err != nil && ctx.Err() == nil && !errors.Is(err, command.ErrNoKernel) {
			s.log.Error("interrupt a cell", "error", err)
		}
	}
}

// putBack puts an execution that no kernel has back to the head of the queue. The caller holds mu.
func (s *Session) putBack(r *execution) {
	if r.giving && r.interrupt {
		r.cancel = "interrupted"
	}
	r.given, r.giving = false, false
	r.row.ExecutionCount = nil
	s.queue = append([]*execution{r}, s.queue...)
	s.current = nil
}

// insist repeats ask until the host responds or ctx ends.
func insist(ctx context.Context, ask func() error) error {
	for {
		err := ask()
		if !errors.Is(err, command.ErrUnresponsive) {
			return err
		}
		pause := time.NewTimer(retryPause)
		select {
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
			return err
		}
	}
}

// settle commits a change that ends the current execution.
func (s *Session) settle(ctx context.Context, c change) {
	c.done = then(c.done, func() { s.mu.Lock(); s.current = nil; s.mu.Unlock() })
	s.mustCommit(ctx, c)
}

// retryPause separates two attempts to commit, or to ask a host that does not respond.
const retryPause = time.Second

// mustCommit commits what has already happened. While the disk is full or fails it keeps trying, so that nothing is
// lost: the kernel's output waits meanwhile, and the operator is told. It reports whether the change is committed; if
// it is not, the server is ending, and the next one gets the records again.
func (s *Session) mustCommit(ctx context.Context, c change) bool {
	for {
		err := s.journal.commit(context.WithoutCancel(ctx), c)
		switch {
		case err == nil:
			return true
		case errors.Is(err, store.ErrClosed):
			return false
		case errors.Is(err, store.ErrNotFound), errors.Is(err, store.ErrExists):
			s.log.Error("the log cannot be written; giving up", "error", err)
			return true
		}
		s.log.Error("the log cannot be written; trying again", "error", err)
		pause := time.NewTimer(retryPause)
		select {
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
			return false
		}
	}
}

// rest records that the kernel is idle when it has started and nothing is queued.
func (s *Session) rest(ctx context.Context) {
	s.mu.Lock()
	idle := s.state == api.StateStarting && s.current == nil && len(s.queue) == 0
	s.mu.Unlock()
	if idle {
		s.setIdle(ctx)
	}
}

// restAfterLast records that the kernel is idle when its last cell has ended and the one that was to come next has not come.
func (s *Session) restAfterLast(ctx context.Context) {
	s.mu.Lock()
	idle := s.running && s.state == api.StateBusy && s.current == nil && len(s.queue)+s.reserved == 0 && !s.gone
	s.mu.Unlock()
	if idle {
		s.setIdle(ctx)
	}
}

func (s *Session) setIdle(ctx context.Context) {
	var c change
	c.state(s, api.StateIdle, "")
	s.mustCommit(ctx, c)
}

// state adds a change of the session's state, if the state differs. On the session's goroutine.
func (c *change) state(s *Session, state api.SessionState, reason string) {
	if s.drafted == (store.StateReason{State: state, Reason: reason}) {
		return
	}
	s.drafted = store.StateReason{State: state, Reason: reason}
	c.drafts = append(c.drafts, draft{body: api.SessionStateEvent{State: state, Reason: reason}})
	c.add(change{
		progress: store.Progress{State: &store.StateReason{State: state, Reason: reason}},
		done: func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.countState(s.state, state)
			s.state, s.reason = state, reason
			s.armReaper()
		},
	})
}

// cancelQueue returns the change that cancels all queued executions, since the kernel ended.
func (s *Session) cancelQueue(reason string) change {
	s.mu.Lock()
	waiting := s.queue
	s.queue = nil
	s.mu.Unlock()
	variables := s.withoutKernel(reason)
	var c change
	for _, r := range waiting {
		c.add(s.ended(r, outcome{status: api.StatusCancelled, reason: reason, state: variables}))
	}
	return c
}

// withoutKernel says what becomes of the variables when there is no kernel for that reason: saved ones stay, unless a reset or the
// session's deletion removes them too.
func (s *Session) withoutKernel(reason string) api.VariablesState {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.saved != nil && reason != reasonReset && reason != reasonDeleted {
		return api.VariablesKept
	}
	return api.VariablesLost
}

// detach ends the session's goroutine and leaves the kernel and the queue to the next server.
func (s *Session) detach(context.Context) error {
	s.begin()
	s.cancel(ErrClosing)
	<-s.stopped
	s.packages.End(packages.ErrServerEnds)
	return s.closeLocal()
}

// shutdown ends the kernel, saving the variables if there is time, and then the session's goroutine, since the server ends.
func (s *Session) shutdown(ctx context.Context) error {
	err := s.do(ctx, func(own context.Context) error {
		if s.hibernateAtEnd(own) {
			s.cancel(ErrClosing)
			return nil
		}
		err := s.stop(own, reasonShutdown)
		s.mustCommit(own, s.cancelQueue(reasonShutdown))
		s.cancel(ErrClosing)
		return err
	})
	return errors.Join(err, s.closeLocal())
}

// closeLocal releases what the session holds in this process.
func (s *Session) closeLocal() error {
	s.mu.Lock()
	if s.reaper != nil {
		s.reaper.Stop()
	}
	s.mu.Unlock()
	s.tools.close()
	s.journal.finish(ErrClosing)
	return s.closeFolders()
}

// closeFolders releases the folders of a session that is no longer loaded.
func (s *Session) closeFolders() error {
	if s.main != nil {
		s.leaveMain()
		return nil
	}
	return errors.Join(s.dir.Close(), s.packages.Close())
}
