package session

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"talaria/api"
	"talaria/kernel"
	"talaria/kernel/command"
	"talaria/kernel/record"
	"talaria/store"
)

// The reasons for which a kernel is ended from here; all others are the operating system's.
const (
	reasonReset     = "reset"
	reasonIdle      = "idle_timeout"
	reasonDeleted   = "deleted"
	reasonShutdown  = "server_shutdown"
	reasonHostCrash = "host_crash"
	reasonStart     = "start_failed"
	reasonLost      = "records_lost"  // what the kernel says cannot be read
	reasonRefused   = "not_executing" // it does not take a cell
)

// begin starts the session's goroutine, once.
func (s *Session) begin() {
	s.started.Do(func() {
		ctx, cancel := context.WithCancelCause(context.Background())
		s.cancel = cancel
		go s.live(ctx)
	})
}

// live is the session's goroutine: what is done here needs no lock against itself.
func (s *Session) live(ctx context.Context) {
	defer close(s.stopped)
	for {
		select {
		case <-ctx.Done():
			return
		case do := <-s.commands:
			do(ctx)
		case <-s.wake:
		case batch := <-s.records:
			s.take(ctx, batch)
		}
		s.dispatch(ctx)
		if err := s.trimLog(ctx); err != nil && ctx.Err() == nil {
			s.log.Error("shorten the log", "error", err)
		}
	}
}

// startSoon has the session's goroutine start its first kernel. Where the server ends first, the next one does.
func (s *Session) startSoon() {
	select {
	case s.commands <- s.firstKernel:
	case <-s.stopped:
	}
}

// do runs a function on the session's goroutine and waits for it.
func (s *Session) do(ctx context.Context, f func(context.Context) error) error {
	s.begin()
	done := make(chan error, 1)
	select {
	case s.commands <- func(own context.Context) { done <- f(own) }:
	case <-s.stopped:
		return s.ending()
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case err := <-done:
		return err
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

// dispatch gives the next execution to the kernel, and starts one where there is none.
func (s *Session) dispatch(ctx context.Context) {
	for ctx.Err() == nil {
		s.mu.Lock()
		if s.current != nil || len(s.queue) == 0 || s.gone {
			s.mu.Unlock()
			return
		}
		r := s.queue[0]
		s.queue = s.queue[1:]
		s.current = r
		s.mu.Unlock()
		if !s.hand(ctx, r) {
			return
		}
	}
}

// hand gives one execution to the kernel. It reports false when nothing more can be handed out now.
func (s *Session) hand(ctx context.Context, r *run) bool {
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
	s.mu.Lock()
	key, count := s.key(), s.executionCount+1
	cancelled, cpu := r.cancel, s.limits.ExecutionCPUS
	r.given = cancelled == ""
	r.giving, r.interrupt = r.given, false
	s.mu.Unlock()
	if cancelled != "" {
		s.settle(ctx, s.ended(r, outcome{status: api.StatusCancelled, reason: cancelled, state: api.VariablesKept}))
		s.rest(ctx)
		return true
	}
	r.row.Generation = key.Generation
	if r.row.Silent {
		count = 0
	} else {
		r.row.ExecutionCount = &count
	}
	r.out.number = r.row.N
	go s.give(ctx, r, key, command.Execution{
		ID: r.row.ID, Code: r.row.Code, Count: count, Silent: r.row.Silent, AllowStdin: r.row.AllowStdin,
		Timeout: time.Duration(r.row.TimeoutMS) * time.Millisecond, CPUTime: time.Duration(cpu) * time.Second,
	})
	return false
}

// give gives an execution to the kernel, which takes as long as the host does not respond, and then interrupts it where
// that was asked for meanwhile.
func (s *Session) give(ctx context.Context, r *run, key record.Key, e command.Execution) {
	err := command.Tell(ctx, s.m.cfg.Host, key, e)
	dead := errors.Is(err, command.ErrNoKernel) // its last record comes, and the next kernel gets this execution
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
		// Whether it got the cell is not known. Its last record ends the execution.
		s.log.Error("the kernel takes no cell; it is ended", "error", err)
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
func (s *Session) putBack(r *run) {
	if r.giving && r.interrupt {
		r.cancel = "interrupted"
	}
	r.given, r.giving = false, false
	r.row.ExecutionCount = nil
	s.queue = append([]*run{r}, s.queue...)
	s.current = nil
}

// insist repeats what a host that does not respond was asked, until it responds or ctx ends.
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

// giveUp ends a kernel that is of no use any more.
func (s *Session) giveUp(ctx context.Context, key record.Key, reason string) {
	err := insist(ctx, func() error { return s.m.cfg.Host.Stop(ctx, key, reason) })
	if err != nil && ctx.Err() == nil {
		s.log.Error("stop the kernel", "error", err)
	}
}

// settle commits a change that ends the current execution.
func (s *Session) settle(ctx context.Context, c change) {
	c.done = then(c.done, func() { s.mu.Lock(); s.current = nil; s.mu.Unlock() })
	s.mustCommit(ctx, c)
}

// retryPause is between two attempts to write what has happened already, or to ask a host that does not respond.
const retryPause = time.Second

// mustCommit commits what has happened already. While the disk is full or fails it tries again, so that nothing is
// lost: the kernel's output waits meanwhile, and the operator is told. It reports whether the change is committed; where
// it is not, the server ends, and the next one gets the records again.
func (s *Session) mustCommit(ctx context.Context, c change) bool {
	for {
		err := s.commit(context.WithoutCancel(ctx), c)
		switch {
		case err == nil:
			return true
		case errors.Is(err, store.ErrClosed):
			return false
		case errors.Is(err, store.ErrNotFound), errors.Is(err, store.ErrExists):
			s.log.Error("the log cannot be written, and never will be", "error", err)
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

// rest tells that the kernel is idle where nothing waits.
func (s *Session) rest(ctx context.Context) {
	s.mu.Lock()
	idle := s.state == api.StateStarting && s.current == nil && len(s.queue) == 0
	s.mu.Unlock()
	if idle {
		var c change
		c.state(s, api.StateIdle, "")
		s.mustCommit(ctx, c)
	}
}

// state adds a change of the session's state, where it is one. On the session's goroutine.
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

// startKernel starts a kernel: the first one, or a fresh one of the next generation.
func (s *Session) startKernel(ctx context.Context) error {
	if err := s.hasEnvironment(); err != nil {
		return err
	}
	if err := s.m.hostReady(); err != nil { // before a generation begins
		return err
	}
	s.mu.Lock()
	generation, reason, limits, state := s.generation, s.restartReason, kernelLimits(s.limits), s.state
	s.mu.Unlock()
	if !hasKernel(state) {
		if err := s.m.owners.take(s.owner, ownerUse{}, s.m.kernelAllowed); err != nil {
			return err
		}
	}
	var c change
	if reason != "" {
		generation++
		c.drafts = append(c.drafts, draft{body: api.KernelReset{Reason: reason, Generation: generation}})
	}
	c.also = func(tx *store.Tx) error {
		if err := tx.BeginGeneration(s.n, generation); err != nil {
			return err
		}
		return tx.KernelGone(s.n, "restart") // until it is known better
	}
	c.done = func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.generation, s.executionCount, s.lateBytes, s.restartReason = generation, 0, 0, "restart"
		s.tmpBytes = limits.TmpBytes
	}
	c.state(s, api.StateStarting, "")
	if err := s.commit(context.WithoutCancel(ctx), c); err != nil {
		return err
	}
	key := record.Key{Session: s.id, Generation: generation}
	mounts, err := s.m.findMounts(s.mounts)
	if err != nil {
		return err
	}
	s.mu.Lock()
	reached := s.network
	s.mu.Unlock()
	if err := s.m.permitNetwork(reached); err != nil { // the bounds are not those of its creation
		return err
	}
	root, release, err := s.dir.Hold()
	if err != nil {
		return err
	}
	defer release()
	info, err := s.m.cfg.Host.Start(ctx, key, s.env, kernel.Spec{
		UID: s.uid, Workspace: root, Disk: s.dir.Held(), Packages: s.packages.File(), Env: s.environ(), TZ: s.m.cfg.TZ, Limits: limits,
		Hostname: "talaria", Strict: s.isolation == api.IsolationStrict, Mounts: mounts, Network: s.m.kernelNetwork(reached),
		NoInstalls: s.m.cfg.Packages.Off, Loss: s.lossBefore(ctx, generation).String(),
	})
	if err != nil {
		return err
	}
	s.running = true
	go s.pump(ctx, key, 0)
	return s.ready(ctx, info)
}

// ready writes what is known of a kernel that answers, where that is something new.
func (s *Session) ready(ctx context.Context, info command.KernelInfo) error {
	var c change
	s.mu.Lock()
	s.engine = info.Engine
	known, idle := s.kernelStarted, s.state == api.StateStarting && s.current == nil && len(s.queue) == 0
	s.mu.Unlock()
	if started := api.At(info.Started).UnixMilli(); !info.Started.IsZero() && (known == nil || *known != started) {
		handle, err := api.Marshal(info.Handle)
		if err != nil {
			return err
		}
		c.also = func(tx *store.Tx) error { return tx.KernelReady(s.n, started, info.Layers, handle) }
		c.done = func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.kernelStarted, s.layers, s.tier = &started, info.Layers, cmp.Or(info.Handle.Backend, s.m.cfg.Tier)
		}
	}
	if idle {
		c.state(s, api.StateIdle, "")
	}
	s.mustCommit(ctx, c)
	return nil
}

// environ is the session's variables, secrets included.
func (s *Session) environ() map[string]string {
	all := make(map[string]string, len(s.variables)+len(s.secrets))
	for _, vars := range []map[string]string{s.variables, s.secrets} {
		for k, v := range vars {
			all[k] = v
		}
	}
	return all
}

// failStart ends the execution that needed a kernel, and what waits behind it; r may be nil.
func (s *Session) failStart(ctx context.Context, r *run, err error) {
	s.log.Error("start a kernel", "error", err)
	var c change
	if r != nil {
		failure := api.ErrorOutput{Ename: "KernelStartError", Evalue: startError(err)}
		failure.Traceback = []string{failure.Ename + ": " + failure.Evalue}
		r.failure = &failure
		r.out.traceback(failure)
		c.drafts = append(c.drafts, draft{executionID: r.row.ID, body: api.ErrorEvent{ErrorOutput: failure}})
		c.add(s.ended(r, outcome{status: api.StatusDied, reason: reasonStart, state: api.VariablesLost}))
	}
	c.add(s.cancelQueue(reasonStart))
	c.add(s.died("died"))
	c.state(s, api.StateDead, reasonStart)
	s.settle(ctx, c)
}

// startError tells clients why no kernel could be started, as far as it is their business.
func startError(err error) string {
	var e *api.Error
	if errors.As(err, &e) {
		return "no kernel could be started: " + e.Detail
	}
	return "no kernel could be started; the operator finds the cause in the server's log"
}

// cancelQueue makes the change that cancels all that waits, since the kernel went.
func (s *Session) cancelQueue(reason string) change {
	s.mu.Lock()
	waiting := s.queue
	s.queue = nil
	s.mu.Unlock()
	var c change
	for _, r := range waiting {
		c.add(s.ended(r, outcome{status: api.StatusCancelled, reason: reason, state: api.VariablesLost}))
	}
	return c
}

// died makes the change that records why the next kernel is started.
func (s *Session) died(restartReason string) change {
	return change{
		also: func(tx *store.Tx) error { return tx.KernelGone(s.n, restartReason) },
		done: func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.restartReason, s.pending = restartReason, nil
		},
	}
}

// pump hands the kernel's records after a number to the session's goroutine until the last one, which is always that the
// kernel died. Where the records cannot be read, it ends the kernel and makes the last one.
func (s *Session) pump(ctx context.Context, key record.Key, after uint64) {
	for died := false; !died; {
		batch, err := s.m.cfg.Host.Next(ctx, key, after)
		switch {
		case ctx.Err() != nil || errors.Is(err, command.ErrHostClosed):
			return
		case err != nil:
			s.log.Error("the kernel's records cannot be read; it is ended", "error", err)
			s.giveUp(ctx, key, reasonLost)
			s.m.cfg.Host.Ack(key, math.MaxUint64)
			batch = []record.Record{{Key: key, KSeq: after + 1, Body: record.Died{
				Reason: reasonLost, Exit: kernel.Exit{Lost: true},
			}}}
		}
		last := batch[len(batch)-1]
		select {
		case s.records <- batch:
			after = last.KSeq
			_, died = last.Body.(record.Died)
		case <-ctx.Done():
			return
		}
	}
}

// stop ends the kernel, takes its last records, and returns when no process of it is left. On the session's
// goroutine.
func (s *Session) stop(ctx context.Context, reason string) error {
	if !s.running {
		s.endInstall(errInstallStopped) // for a kernel that is gone
		return nil
	}
	s.mu.Lock()
	key := s.key()
	s.mu.Unlock()
	stopped := make(chan error, 1)
	go func() { stopped <- s.m.cfg.Host.Stop(context.WithoutCancel(ctx), key, reason) }()
	for gone := false; s.running || !gone; { // a death is told before the sandbox is closed where that takes time
		select {
		case batch := <-s.records:
			s.take(ctx, batch)
		case err := <-stopped:
			if err != nil {
				return fmt.Errorf("stop the kernel: %w", err)
			}
			gone = true
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	s.endInstall(errInstallStopped)
	return nil
}

// Reset ends the kernel and starts a fresh one; it returns when that one answers.
func (s *Session) Reset(ctx context.Context, r api.ResetRequest) error {
	return s.do(ctx, func(own context.Context) error {
		if s.running {
			if err := s.stop(own, reasonReset); err != nil {
				return err
			}
		} else {
			s.endInstall(errInstallStopped)
			s.mustCommit(own, s.cancelQueue(reasonReset))
			s.mustCommit(own, s.died(reasonReset))
		}
		if r.KeepPackages != nil && !*r.KeepPackages {
			if err := s.clearPackages(own); err != nil {
				return err
			}
		}
		if r.KeepFiles != nil && !*r.KeepFiles {
			if err := s.clearFiles(own); err != nil {
				return err
			}
		}
		if err := s.startKernel(own); err != nil {
			s.failStart(own, nil, err)
			return api.Errorf(api.CodeKernelStart, "%s", startError(err))
		}
		return s.touch(own)
	})
}

// armReaper sets the timer of an idle kernel. The caller holds s.mu.
func (s *Session) armReaper() {
	if s.reaper != nil {
		s.reaper.Stop()
		s.reaper = nil
	}
	if at := s.reapAt(); at != nil && !s.gone && !s.m.isClosing() {
		s.reapIn(time.Until(at.Time))
	}
}

// reapIn sets the timer of an idle kernel to go off after that time. The caller holds s.mu.
func (s *Session) reapIn(d time.Duration) {
	s.reaper = time.AfterFunc(d, func() {
		s.do(context.Background(), func(own context.Context) error { s.reap(own); return nil })
	})
}

// reapAt is when the kernel will be reaped, nil where it will not be. The caller holds s.mu.
func (s *Session) reapAt() *api.Time {
	if s.idleMS == 0 || s.state != api.StateIdle || s.current != nil || len(s.queue)+s.reserved > 0 {
		return nil
	}
	at := api.Millis(s.lastActive + s.idleMS)
	return &at
}

// reap ends the kernel if it is still due.
func (s *Session) reap(ctx context.Context) {
	s.mu.Lock()
	at := s.reapAt()
	due := at != nil && !time.Now().Before(at.Time)
	if !due {
		s.armReaper()
	}
	s.mu.Unlock()
	if !due {
		return
	}
	if err := s.stop(ctx, reasonIdle); err != nil {
		s.log.Error("reap an idle kernel", "error", err)
		if errors.Is(err, command.ErrUnresponsive) {
			s.mu.Lock()
			s.reapIn(retryPause)
			s.mu.Unlock()
		}
		return
	}
	s.log.Info("reaped an idle kernel")
}

// detach ends the session's goroutine and leaves the kernel and the queue to the next server.
func (s *Session) detach(context.Context) error {
	s.begin()
	s.cancel(ErrClosing)
	<-s.stopped
	s.endInstall(errInstallCut)
	return s.closeLocal()
}

// shutdown ends the kernel and then the session's goroutine, since the server ends.
func (s *Session) shutdown(ctx context.Context) error {
	err := s.do(ctx, func(own context.Context) error {
		err := s.stop(own, reasonShutdown)
		s.mustCommit(own, s.cancelQueue(reasonShutdown))
		s.cancel(ErrClosing)
		return err
	})
	return errors.Join(err, s.closeLocal())
}

// closeLocal gives up what the session holds in this process.
func (s *Session) closeLocal() error {
	s.mu.Lock()
	if s.reaper != nil {
		s.reaper.Stop()
	}
	s.mu.Unlock()
	s.journal.finish(ErrClosing)
	return errors.Join(s.dir.Close(), s.packages.Close())
}
