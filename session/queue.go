package session

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"math"
	"slices"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"talaria/api"
	"talaria/kernel/command"
	"talaria/kernel/trace"
	"talaria/session/settings"
	"talaria/session/toolspec"
	"talaria/store"
)

// execution is one that has not ended.
type execution struct {
	row    store.Execution
	done   chan struct{} // closed once it has ended and final is set
	final  api.Execution // without outputs
	out    *output       // its output; used by the session's goroutine only, except for text
	given  bool          // guarded by Session.mu: the host has it, or is being given it
	giving bool          // guarded by Session.mu: the host has not yet confirmed that it has it
	// interrupt says that it is to be interrupted as soon as the host has it. Guarded by Session.mu.
	interrupt    bool
	checkpointed bool         // used by the session's goroutine only: a checkpoint was made before it, or could not be
	cancel       string       // guarded by Session.mu: end it before it starts, for this reason
	approval     cellApproval // guarded by Session.mu
	after        []afterCell  // used by the session's goroutine only: what is to be done when it has ended
	failure      *api.ErrorOutput
	toolCalls    atomic.Int64       // that were handed over
	rejected     []api.RejectedTool // of those in the request; immutable once it is queued
}

// cellApproval says whether a queued cell may be given to a kernel.
type cellApproval int

const (
	cellUnchecked cellApproval = iota // whether somebody has to approve it is not known yet
	cellAsked                         // it waits for the answer
	cellApproved                      // it may start, unless it is to be cancelled
)

// queueState is the queue of executions. Guarded by Session.mu.
type queueState struct {
	queue       []*execution
	current     *execution            // taken from the queue and not ended
	open        map[string]*execution // all that have not ended, by id
	reserved    int                   // submissions on their way into the queue
	queuedBytes int64                 // code of the executions that have not ended
}

// Submit queues a cell and returns its execution's id. Submitting the same id with the same code again returns the
// first one and runs nothing. ctx bounds the wait, not the execution.
func (s *Session) Submit(ctx context.Context, req api.ExecutionRequest, stdinDefault bool) (string, error) {
	trace.Step("cell received")
	r, err := s.newExecution(req, stdinDefault)
	if err != nil {
		return "", err
	}
	err = s.m.spare()
	if err == nil {
		err = s.guard.refuse(ctx, r.row.Code, req.Force != nil && *req.Force)
	}
	if err == nil {
		err = s.reserve(int64(len(r.row.Code)))
	}
	if err != nil {
		if known, conflict := s.isKnown(ctx, r.row); known || conflict != nil {
			return r.row.ID, conflict
		}
		return "", err
	}
	queued := s.queued(r)
	queued.progress.Spent.Executions = 1
	reserved := true
	taken := func() { // the caller holds mu
		if reserved {
			reserved = false
			s.reserved--
		}
	}
	// Not only when the commit returns here: by then the cell may have ended, and the session would stay busy.
	queued.done = then(func() { s.mu.Lock(); defer s.mu.Unlock(); taken() }, queued.done)
	err = s.journal.commit(ctx, queued)
	trace.Step("cell queued")
	s.mu.Lock()
	taken()
	if err != nil {
		s.spent.Executions--
		s.freeQueued(int64(len(r.row.Code)))
		if s.state == api.StateBusy { // a cell that has ended meanwhile has left the session busy for this one
			s.wakeUp()
		}
	}
	s.mu.Unlock()
	switch {
	case errors.Is(err, store.ErrExists):
		_, err = s.isKnown(ctx, r.row)
	case err != nil && s.isGone():
		err = ErrDeleted
	}
	return r.row.ID, err
}

// queued returns the change that puts an execution into the queue.
func (s *Session) queued(r *execution) change {
	now := time.Now().UnixMilli()
	r.row.CreatedAt = now
	return change{
		drafts: []draft{{executionID: r.row.ID, body: api.ExecutionQueued{Code: r.row.Code}}},
		also: func(tx *store.Tx) (err error) {
			_, r.row.QueuedSeq = s.journal.place()
			r.row.N, err = tx.InsertExecution(r.row)
			return err
		},
		rowBytes: int64(len(r.row.Code)),
		progress: store.Progress{LastActive: &now},
		done: func() {
			s.tools.provideFor(r)
			s.mu.Lock()
			defer s.mu.Unlock()
			s.abandonCheckpoint()
			s.queue = append(s.queue, r)
			s.open[r.row.ID] = r
			s.used(now)
			s.wakeUp()
		},
	}
}

// newExecution checks the request.
func (s *Session) newExecution(req api.ExecutionRequest, stdinDefault bool) (*execution, error) {
	s.mu.Lock()
	limits, generation := s.limits, s.generation
	s.mu.Unlock()
	if req.Code == nil {
		return nil, api.Invalid("code is missing")
	}
	row := store.Execution{
		Session: s.n, Code: *req.Code, AllowStdin: stdinDefault, Status: api.StatusQueued, State: api.VariablesKept,
		Generation: generation, Expressions: req.Expressions, Origin: req.Origin,
	}
	if err := checkExpressions(req.Expressions); err != nil {
		return nil, err
	}
	timeout := limits.ExecutionTimeoutS
	if err := settings.CheckTime("timeout_s", req.TimeoutS, &timeout, s.m.cfg.Ceilings.ExecutionTimeoutS); err != nil {
		return nil, err
	}
	row.TimeoutMS = int64(math.Ceil(timeout * 1000))
	switch {
	case req.ID == nil:
		row.ID = newID()
	case !api.ValidID(*req.ID):
		return nil, settings.InvalidID("id", *req.ID)
	default:
		row.ID = *req.ID
	}
	api.Set(&row.Checkpoint, req.Checkpoint)
	if err := toolspec.CheckList(req.Tools); err != nil {
		return nil, err
	}
	row.Tools = req.Tools
	api.Set(&row.Silent, req.Silent)
	api.Set(&row.StopOnError, req.StopOnError)
	api.Set(&row.AllowStdin, req.AllowStdin)
	return &execution{row: row, done: make(chan struct{}), out: newOutput(s.out, row.ID, limits, s.redact)}, nil
}

// newID returns an id that sorts by time.
func newID() string { return uuid.Must(uuid.NewV7()).String() }

// isKnown reports whether the session already has this execution; with other code that is a conflict.
func (s *Session) isKnown(ctx context.Context, row store.Execution) (bool, error) {
	if s.isGone() {
		return false, ErrDeleted
	}
	first, err := s.m.cfg.Store.Execution(ctx, s.n, row.ID)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return false, nil
	case err != nil:
		return false, err
	case first.Code != row.Code:
		return false, api.Errorf(api.CodeExecutionConflict,
			"execution %q of this session has different code; choose an unused id, such as a UUID", row.ID)
	}
	return true, nil
}

// reserve reserves a place in the queue for that much code.
func (s *Session) reserve(bytes int64) error {
	if err := s.takeQueued(bytes); err != nil {
		return err
	}
	err := s.reservePlace()
	if err != nil {
		s.mu.Lock()
		s.freeQueued(bytes)
		s.mu.Unlock()
	}
	return err
}

func (s *Session) reservePlace() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.gone:
		return ErrDeleted
	case s.m.isClosing():
		return ErrClosing
	case len(s.queue)+s.reserved >= api.MaxQueued:
		return api.Errorf(api.CodeQueueFull, "%d executions are already queued, which is the limit; wait for some to end, or interrupt", api.MaxQueued)
	}
	if err := s.takeExecution(); err != nil {
		return err
	}
	s.reserved++
	return nil
}

// runningCell returns the cell that was taken from the queue and has not ended, or nil.
func (s *Session) runningCell() *execution {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.current
}

// isExecuting reports whether a cell was taken from the queue and has not ended.
func (s *Session) isExecuting() bool { return s.runningCell() != nil }

func (s *Session) isGone() bool { s.mu.Lock(); defer s.mu.Unlock(); return s.gone }

// wakeUp makes the session's goroutine look at the queue.
func (s *Session) wakeUp() {
	s.begin()
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// Interrupt interrupts the running cell and cancels the queued ones. If the host does not respond, a cell on its way to
// the kernel is interrupted as soon as the host has it. With an execution's id, it affects only that execution, and does
// nothing if it has ended.
func (s *Session) Interrupt(ctx context.Context, executionID string) error {
	s.mu.Lock()
	meant := func(r *execution) bool { return executionID == "" || r.row.ID == executionID }
	var waiting []*execution
	for _, r := range s.queue {
		if meant(r) {
			waiting = append(waiting, r)
		}
	}
	s.queue = slices.DeleteFunc(s.queue, meant)
	running, key := "", s.key()
	if r := s.current; r != nil && meant(r) {
		switch {
		case r.giving:
			r.interrupt = true
		case r.given:
			running = r.row.ID
			s.endCollecting()
		default:
			r.cancel = "interrupted"
		}
	}
	idle := s.current == nil && executionID == "" && (s.state == api.StateIdle || s.state == api.StateBusy)
	s.mu.Unlock()
	var told error
	if running != "" || idle { // code that handles a front end's message may run
		told = command.Tell(ctx, s.m.cfg.Host, key, command.Interrupt{ExecutionID: running})
		if errors.Is(told, command.ErrNoKernel) {
			told = nil
		}
	}
	// They are in no queue any more, so they end even if the running one goes on.
	if err := s.cancelExecutions(ctx, waiting, "interrupted", api.VariablesKept); err != nil {
		return err
	}
	if len(waiting) > 0 {
		s.wakeUp() // the one at the head may have waited for an approval
	}
	if told != nil {
		return told
	}
	return s.touch(ctx)
}

// cancelExecutions ends executions that never started and are in no queue any more.
func (s *Session) cancelExecutions(ctx context.Context, executions []*execution, reason string, state api.VariablesState) error {
	if len(executions) == 0 {
		return nil
	}
	var c change
	for _, r := range executions {
		c.add(s.ended(r, outcome{status: api.StatusCancelled, reason: reason, state: state}))
	}
	if s.journal.commit(context.WithoutCancel(ctx), c) == nil {
		return nil
	}
	// They cannot go back into the queue: what they needed, such as an approval, is withdrawn. So this goes on even if nobody waits
	// for it any more.
	return s.do(context.WithoutCancel(ctx), func(own context.Context) error {
		if !s.mustCommit(own, c) {
			return ErrClosing
		}
		return nil
	})
}

// add makes the other change part of this one.
func (c *change) add(o change) {
	c.drafts, c.drops = append(c.drafts, o.drafts...), append(c.drops, o.drops...)
	c.rowBytes += o.rowBytes
	c.also, c.done, c.published = both(c.also, o.also), then(c.done, o.done), then(c.published, o.published)
	c.progress.LastActive = cmp.Or(o.progress.LastActive, c.progress.LastActive)
	c.progress.State = cmp.Or(o.progress.State, c.progress.State)
	c.progress.Cursor = cmp.Or(o.progress.Cursor, c.progress.Cursor)
	c.progress.Spent = c.progress.Spent.Plus(o.progress.Spent)
}

func both(a, b func(*store.Tx) error) func(*store.Tx) error {
	switch {
	case a == nil:
		return b
	case b == nil:
		return a
	}
	return func(tx *store.Tx) error {
		if err := a(tx); err != nil {
			return err
		}
		return b(tx)
	}
}

func then(a, b func()) func() {
	switch {
	case a == nil:
		return b
	case b == nil:
		return a
	}
	return func() { a(); b() }
}

// openExecution returns the execution with that id if it has not ended, or nil.
func (s *Session) openExecution(id string) *execution {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.open[id]
}

// Wait returns the execution once it has ended. When ctx ends first it returns the execution so far and ctx's error.
func (s *Session) Wait(ctx context.Context, id string) (api.Execution, error) {
	r := s.openExecution(id)
	if r == nil {
		return s.executions.Get(ctx, id)
	}
	select {
	case <-r.done:
		final := r.final
		final.RejectedTools = r.rejected
		return s.executions.withOutputs(context.WithoutCancel(ctx), final)
	case <-s.deleted:
		select {
		case <-r.done:
			return r.final, nil // its events were deleted with the session
		default:
			return api.Execution{}, ErrDeleted
		}
	case <-ctx.Done():
		e, err := s.executions.Get(context.WithoutCancel(ctx), id)
		return e, errors.Join(err, ctx.Err())
	}
}

// WaitAll waits until the executions that run or wait now have ended, or until ctx ends. It reports whether there were any.
func (s *Session) WaitAll(ctx context.Context) (some bool, err error) {
	s.mu.Lock()
	open := slices.Collect(maps.Values(s.open))
	s.mu.Unlock()
	for _, r := range open {
		select {
		case <-r.done:
		case <-ctx.Done():
			return true, context.Cause(ctx)
		}
	}
	return len(open) > 0, nil
}
