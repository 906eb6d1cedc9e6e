package session

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"os"

	"talaria/api"
	"talaria/kernel"
	"talaria/kernel/command"
	"talaria/kernel/record"
	"talaria/kernel/trace"
	"talaria/session/packages"
	"talaria/store"
)

// The reasons for which the server ends a kernel; all others come from the operating system.
const (
	reasonReset     = "reset"
	reasonIdle      = "idle_timeout"
	reasonDeleted   = "deleted"
	reasonShutdown  = "server_shutdown"
	reasonHostCrash = "host_crash"
	reasonStart     = "start_failed"
	reasonLost      = "records_lost"  // the kernel's records cannot be read
	reasonRefused   = "not_executing" // it does not accept a cell
)

// kernelState describes the current kernel, or the last one. Guarded by Session.mu.
type kernelState struct {
	state          api.SessionState
	reason         string // of the state
	generation     int64
	wakes          int64  // kernels that began with the saved variables of the one before, and share its generation
	kernelStarted  *int64 // milliseconds since the Unix epoch; nil before the first kernel answers
	restartReason  string // why the next kernel starts; "" for the first one
	kernelTaken    bool   // one that is about to start is counted among the owner's, and by no state yet
	layers         []string
	engine         string // "" if not known
	tier           string // of new kernels, before the first one
	tmpBytes       int64  // its limit of temporary files
	executionCount int64
	lateBytes      int64 // printed after the end of its cell
}

// giveUp ends a kernel that can no longer be used.
func (s *Session) giveUp(ctx context.Context, key record.Key, reason string) {
	err := insist(ctx, func() error { return s.m.cfg.Host.Stop(ctx, key, reason) })
	if err != nil && ctx.Err() == nil {
		s.log.Error("stop the kernel", "error", err)
	}
}

// needKernel returns the key of the kernel, and first starts one if there is none. what is what needs it, for the error.
func (s *Session) needKernel(ctx context.Context, what string) (key record.Key, err error) {
	err = s.do(ctx, func(own context.Context) error {
		if !s.running || s.leaving() {
			err := s.startKernel(own)
			switch {
			case err == nil:
			case own.Err() != nil, errors.Is(err, command.ErrUnresponsive): // the next start may succeed
				return err
			default:
				s.mustCommit(own, s.notStarted(err)) // cells that wait, perhaps for an approval, try again when it is their turn
				return api.Errorf(api.CodeKernelStart, "no kernel could be started for %s: %v", what, err)
			}
		}
		key = s.kernelKey()
		return nil
	})
	return key, err
}

// startKernel starts a kernel: the first one, one that has the saved variables of the last one, or a fresh one of the next generation.
func (s *Session) startKernel(ctx context.Context) error {
	trace.Step("start of the kernel begun")
	if err := s.endLeaving(ctx); err != nil {
		return err
	}
	if err := s.hasEnvironment(); err != nil {
		return err
	}
	if err := s.m.hostReady(ctx); err != nil { // before a generation begins
		return err
	}
	s.mu.Lock()
	generation, wakes, reason, limits, state, saved := s.generation, s.wakes, s.restartReason, kernelLimits(s.limits), s.state, s.saved
	s.mu.Unlock()
	if !hasKernel(state) {
		if err := s.takeKernel(); err != nil {
			return err
		}
		defer s.freeKernel()
	}
	var c change
	switch {
	case reason == "": // the first one
	case saved != nil:
		wakes++
	default:
		generation++
		c.drafts = append(c.drafts, draft{body: api.KernelReset{Reason: reason, Generation: generation}})
	}
	c.also = func(tx *store.Tx) error {
		if err := tx.BeginKernel(s.n, generation, wakes); err != nil {
			return err
		}
		return tx.KernelGone(s.n, "restart") // until more is known
	}
	c.done = func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.generation, s.wakes, s.executionCount, s.lateBytes, s.restartReason = generation, wakes, 0, 0, "restart"
		s.tmpBytes, s.notRestored = limits.TmpBytes, nil
	}
	c.state(s, api.StateStarting, "")
	if err := s.journal.commit(context.WithoutCancel(ctx), c); err != nil {
		return err
	}
	trace.Step("generation committed")
	key := record.Key{Session: s.id, Generation: generation + wakes}
	spec, release, err := s.kernelSpec(ctx, limits)
	if err != nil {
		return err
	}
	defer release()
	var lost *loss
	var placed error
	if saved == nil {
		lost = s.journal.lossBefore(ctx, generation, s.log)
	} else {
		placed = s.variablesFile.place(ctx, saved)
		defer s.variablesFile.remove(ctx)
		if hasCode(placed, api.CodeDiskLimit) || hasCode(placed, api.CodeDiskFull) {
			return placed
		}
	}
	spec.NoInstalls, spec.Loss = s.m.cfg.Packages.Off, lost.String()
	info, err := s.m.cfg.Host.Start(ctx, key, s.env, spec)
	if err != nil {
		return err
	}
	trace.Step("kernel ready")
	s.running = true
	go s.pump(ctx, key, 0)
	if saved != nil {
		if _, err := s.loadSaved(ctx, key, saved, placed); err != nil {
			return err
		}
	}
	return s.ready(ctx, info)
}

// kernelSpec is what a kernel of the session is started with, until release is called.
func (s *Session) kernelSpec(ctx context.Context, limits kernel.Limits) (spec kernel.Spec, release func(), err error) {
	if s.main != nil {
		s.holdMain()
		release := func() {
			if !s.running {
				s.dropMain()
			}
		}
		if _, err := s.main.needKernel(ctx, "a session in its sandbox"); err != nil {
			release()
			return spec, nil, err
		}
		return kernel.Spec{Beside: s.main.id, Dir: s.folder}, release, nil
	}
	mounts, err := s.m.operator.FindMounts(s.mounts)
	if err != nil {
		return spec, nil, err
	}
	s.mu.Lock()
	reached := s.network
	s.mu.Unlock()
	if err := s.m.operator.PermitNetwork(reached); err != nil { // the bounds are not those of its creation
		return spec, nil, err
	}
	root, release, err := s.dir.Hold()
	if err != nil {
		return spec, nil, err
	}
	return kernel.Spec{
		UID: s.uid, Workspace: root, Disk: s.dir.Held(), Packages: s.packages.File(), Env: environ(s.variables, s.secrets), TZ: s.m.cfg.TZ, Limits: limits,
		Hostname: "talaria", Strict: s.isolation == api.IsolationStrict, Mounts: mounts, Network: s.m.operator.KernelNetwork(reached),
	}, release, nil
}

// ready records what a kernel that answers reports about itself, if that is new.
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

// environ returns the environment variables of a kernel, secrets included.
func environ(variables, secrets map[string]string) map[string]string {
	all := make(map[string]string, len(variables)+len(secrets))
	for _, vars := range []map[string]string{variables, secrets} {
		for k, v := range vars {
			all[k] = v
		}
	}
	return all
}

// failStart ends the execution that needed a kernel, and all queued ones; r may be nil.
func (s *Session) failStart(ctx context.Context, r *execution, err error) {
	var c change
	if r != nil {
		failure := api.ErrorOutput{Ename: "KernelStartError", Evalue: startError(s.env, err)}
		failure.Traceback = []string{failure.Ename + ": " + failure.Evalue}
		r.failure = &failure
		r.out.traceback(failure)
		c.drafts = append(c.drafts, draft{executionID: r.row.ID, body: api.ErrorEvent{ErrorOutput: failure}})
		c.add(s.ended(r, outcome{status: api.StatusDied, reason: reasonStart, state: s.withoutKernel(reasonStart)}))
	}
	c.add(s.cancelQueue(reasonStart))
	c.add(s.notStarted(err))
	s.settle(ctx, c)
}

// notStarted logs why no kernel could be started, and returns the change that records it: a session with saved variables hibernates on.
// On the session's goroutine.
func (s *Session) notStarted(err error) change {
	s.log.Error("start a kernel", "error", err)
	c := s.died("died")
	state := api.StateDead
	if s.withoutKernel(reasonStart) == api.VariablesKept {
		state = api.StateHibernated
	}
	c.state(s, state, reasonStart)
	return c
}

// startError returns what clients may know about why no kernel could be started.
func startError(env kernel.Environment, err error) string {
	var e *api.Error
	if errors.As(err, &e) {
		return "no kernel could be started: " + e.Detail
	}
	if _, err := os.Stat(env.Python); env.Python != "" && err != nil {
		return fmt.Sprintf("no kernel could be started: the Python of the environment %q is missing; an operator must restore it", env.Name)
	}
	return fmt.Sprintf("no kernel could be started in the environment %q; the cause is in the server's log", env.Name)
}

// died returns the change that records why the next kernel is started.
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

// pump passes the kernel's records after a number to the session's goroutine until the last one, which always says
// that the kernel died. If the records cannot be read, it ends the kernel and makes up the last one.
func (s *Session) pump(ctx context.Context, key record.Key, after uint64) {
	for died := false; !died; {
		batch, err := s.m.cfg.Host.Next(ctx, key, after)
		switch {
		case ctx.Err() != nil || errors.Is(err, command.ErrHostClosed):
			return
		case err != nil:
			s.log.Error("the kernel's records cannot be read; stopping it", "error", err)
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

// stop ends the kernel, takes its last records, and returns when none of its processes is left. On the session's
// goroutine.
func (s *Session) stop(ctx context.Context, reason string) error {
	if !s.running {
		s.packages.End(packages.ErrInterrupted) // for a kernel that is gone
		return nil
	}
	key := s.kernelKey()
	stopped := make(chan error, 1)
	go func() { stopped <- s.m.cfg.Host.Stop(context.WithoutCancel(ctx), key, reason) }()
	for gone := false; s.running || !gone; { // the record of the death may arrive before the sandbox is closed
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
	s.packages.End(packages.ErrInterrupted)
	return nil
}

// Reset ends the kernel and starts a fresh one; it returns when that one answers.
func (s *Session) Reset(ctx context.Context, r api.ResetRequest) error {
	if s.main != nil && (r.KeepFiles != nil && !*r.KeepFiles || r.KeepPackages != nil && !*r.KeepPackages) {
		return api.Invalid("the files and packages belong to session %.140q, in whose sandbox this one runs; reset that one", s.main.clientID)
	}
	return s.do(ctx, func(own context.Context) error {
		told := s.running && !s.leaving() // its last record says that it is reset
		if err := s.stop(own, reasonReset); err != nil {
			return err
		}
		if !told {
			c := s.cancelQueue(reasonReset)
			c.add(s.died(reasonReset))
			c.add(s.keepSaved(nil)) // with the executions that say so
			s.mustCommit(own, c)
		}
		if r.KeepPackages != nil && !*r.KeepPackages {
			if err := s.packages.Clear(own); err != nil {
				return err
			}
		}
		if r.KeepFiles != nil && !*r.KeepFiles {
			if err := s.known.clear(own); err != nil {
				return err
			}
		}
		fresh := s.guard.forget()
		fresh.add(s.keepSaved(nil))
		fresh.add(s.approvals.forgetAll())
		if err := s.journal.commit(own, fresh); err != nil {
			return err
		}
		if err := s.startKernel(own); err != nil {
			if own.Err() != nil { // the next server starts one
				return err
			}
			s.failStart(own, nil, err)
			return api.Errorf(api.CodeKernelStart, "%s", startError(s.env, err))
		}
		return s.touch(own)
	})
}
