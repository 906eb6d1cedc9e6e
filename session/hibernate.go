package session

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"maps"
	"math"
	"slices"
	"time"

	jsonv2 "github.com/go-json-experiment/json"

	"talaria/api"
	"talaria/artifacts"
	"talaria/kernel/command"
	"talaria/kernel/record"
	"talaria/store"
)

const (
	reasonHibernate = "hibernated"
	reasonRollback  = "rolled_back"
)

// maxAttempts is how often variables are loaded if that fails as a whole, as when their code ends the kernel.
const maxAttempts = 2

// besideAttempts is how often sessions beside one that is to hibernate hibernate first, if they are used again meanwhile.
const besideAttempts = 3

// Hibernate saves the variables and ends the kernel; the next use has them back. While a cell runs or waits, here or beside it, it fails
// with kernel_busy. A session that hibernates already stays as it is. At the end of ctx Hibernate returns at once: a session that has
// begun to hibernate still does, and no other one.
func (s *Session) Hibernate(ctx context.Context) (reply api.HibernateReply, err error) {
	reply.NotSaved = []api.NotSaved{}
	for range besideAttempts {
		if err := s.hibernateBeside(ctx); err != nil {
			return reply, err
		}
		var used *Session // beside this one, since it hibernated
		var saved *savedVariables
		err = s.do(ctx, func(own context.Context) (err error) {
			if err := s.atRest("hibernate"); err != nil {
				return err
			}
			if used = s.neededBeside(); used != nil { // its kernel would end with this one's, and its variables would be lost
				return used.busyBeside()
			}
			saved, err = s.hibernate(own)
			return err
		})
		if ctx.Err() != nil { // the session's goroutine may still be at it
			return reply, context.Cause(ctx)
		}
		if err == nil && saved != nil && saved.NotSaved != nil {
			reply.NotSaved = saved.NotSaved
		}
		if used == nil {
			break
		}
	}
	reply.Session = s.Info(ctx)
	return reply, err
}

// hibernate saves the variables of the kernel and ends it. It returns what was saved, or was before. On the session's goroutine.
func (s *Session) hibernate(ctx context.Context) (*savedVariables, error) {
	saved, err := s.saveToLeave(ctx, ctx)
	if err == nil {
		err = s.endLeaving(ctx)
	}
	return saved, err
}

// saveToLeave saves the variables of the kernel, if there is one, which then is leaving. It fails if no variables are saved afterwards.
// saving bounds the time that saving may take. On the session's goroutine.
func (s *Session) saveToLeave(ctx, saving context.Context) (*savedVariables, error) {
	s.mu.Lock()
	saved := s.saved
	s.mu.Unlock()
	switch {
	case !s.running && saved == nil:
		return nil, api.Errorf(api.CodeNoKernel, "the session has no kernel, so there are no variables to save")
	case !s.running, s.leaving():
		return saved, nil
	}
	hold := s.m.cfg.Artifacts.Hold()
	defer hold.Release()
	saved, err := s.saveVariables(saving, hold, math.MaxInt64)
	if err == nil {
		err = s.journal.commit(ctx, s.keepSaved(saved))
	}
	return saved, err
}

// leaving reports whether the session has a kernel that must run nothing more: its variables are saved, and the next kernel loads them.
// A kernel is left so if the host does not confirm its end, or if the server ends meanwhile. On the session's goroutine.
func (s *Session) leaving() bool { return s.running && s.nextLoadsSaved() }

// endLeaving ends the kernel if it is leaving. If it fails, it can be repeated. On the session's goroutine.
func (s *Session) endLeaving(ctx context.Context) error {
	if !s.leaving() {
		return nil
	}
	return s.stop(ctx, reasonHibernate)
}

// nextLoadsSaved reports whether the next kernel has the variables that are saved. One that starts is about to load them.
func (s *Session) nextLoadsSaved() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.saved != nil && s.state != api.StateStarting
}

// keepSaved returns the change that makes these the saved variables of the session; nil is none.
func (s *Session) keepSaved(saved *savedVariables) change {
	s.mu.Lock()
	before := s.saved
	s.mu.Unlock()
	return change{
		also: func(tx *store.Tx) error {
			if saved == nil {
				return tx.UpdateSaved(s.n, nil, "")
			}
			encoded, err := jsonv2.Marshal(saved)
			if err != nil {
				return err
			}
			return tx.UpdateSaved(s.n, encoded, saved.Digest)
		},
		done: func() { s.mu.Lock(); defer s.mu.Unlock(); s.saved = saved },
		published: func() {
			if before != nil {
				s.m.blobs.removeSoon([]string{before.Digest})
			}
		},
	}
}

// saveVariables has the kernel write its variables to a file of about so many bytes at most, and of no more than the session's
// memory, and takes that among the artifacts, where hold protects it. On the session's goroutine.
func (s *Session) saveVariables(ctx context.Context, hold *artifacts.Hold, limit int64) (*savedVariables, error) {
	s.mu.Lock()
	key, count := s.key(), s.executionCount
	limit = min(limit, s.limits.MemoryBytes)
	s.mu.Unlock()
	long := saveTime
	if end, ok := ctx.Deadline(); ok { // one variable that takes too long must not cost all of them
		long = min(long, time.Until(end)*4/5)
	}
	return s.variablesFile.save(ctx, hold, key, limit, count,
		command.SaveVariables{Path: s.variablesFile.name, Seconds: long.Seconds(), MaxBytes: limit})
}

// saveCopy does the same with the variables that a live checkpoint has, whatever goes on in the kernel. It fails with
// checkpoint_gone if its copy has ended.
func (s *Session) saveCopy(ctx context.Context, hold *artifacts.Hold, row store.Checkpoint) (*savedVariables, error) {
	s.mu.Lock()
	key, limit := s.key(), s.limits.MemoryBytes
	s.mu.Unlock()
	saved, err := s.variablesFile.save(ctx, hold, key, limit, row.ExecutionCount,
		command.SaveCopy{ID: row.Copy, Path: s.variablesFile.name, Seconds: saveTime.Seconds(), MaxBytes: limit})
	if errors.Is(err, command.ErrNoCopy) || errors.Is(err, command.ErrNoKernel) {
		return nil, api.Errorf(api.CodeCheckpointGone, "the variables of this checkpoint are gone: its copy of the interpreter has ended, "+
			"perhaps for lack of memory; its files can still be restored")
	}
	return saved, err
}

// loadSaved gives a kernel that has just started the saved variables, and commits that it has them. placed is why they could not
// be placed, or nil. It returns what is not there. After an error they stay saved, and a kernel that is still there is leaving. On the
// session's goroutine.
func (s *Session) loadSaved(ctx context.Context, key record.Key, saved *savedVariables, placed error) ([]api.NotRestored, error) {
	began := time.Now()
	lost, err := s.variablesFile.load(ctx, key, saved, placed)
	if err != nil && ctx.Err() != nil {
		return nil, err // the next start loads them
	}
	if tried := saved.Attempts + 1; err != nil && !errors.Is(err, fs.ErrNotExist) && tried < maxAttempts { // likewise, unless they are gone
		again := *saved
		again.Attempts = tried
		c := s.keepSaved(&again)
		c.state(s, api.StateHibernated, reasonStart)
		return nil, errors.Join(err, s.journal.commit(ctx, c))
	}
	if err != nil {
		s.log.Error("load the saved variables", "error", err)
		lost = []api.NotRestored{{Name: "all variables", Reason: "loading them failed, or ended the kernel; the cause is in the server's log"}}
	}
	c := s.keepSaved(nil)
	s.mu.Lock()
	generation := s.generation
	s.mu.Unlock()
	c.drafts = []draft{{body: api.KernelWoken{Generation: generation, NotRestored: lost, DurationMS: time.Since(began).Milliseconds()}}}
	c.also = both(c.also, func(tx *store.Tx) error { return tx.UpdateExecutionCount(s.n, saved.ExecutionCount) })
	c.done = then(c.done, func() { s.mu.Lock(); defer s.mu.Unlock(); s.executionCount, s.notRestored = saved.ExecutionCount, lost })
	if !s.mustCommit(ctx, c) {
		return lost, ErrClosing
	}
	return lost, nil
}

// Wake starts the kernel of a session that has none, with its variables if they are saved. A session that has a kernel stays as it
// is.
func (s *Session) Wake(ctx context.Context) (reply api.WakeReply, err error) {
	reply.NotRestored = []api.NotRestored{}
	err = s.do(context.WithoutCancel(ctx), func(own context.Context) error {
		if s.running && !s.leaving() {
			return nil
		}
		lost, err := s.wakeKernel(own)
		reply.NotRestored = append(reply.NotRestored, lost...)
		return err
	})
	reply.Session = s.Info(ctx)
	return reply, err
}

// wakeKernel starts the kernel of a session that has none, and returns what did not come back. On the session's goroutine.
func (s *Session) wakeKernel(ctx context.Context) ([]api.NotRestored, error) {
	if err := s.startKernel(ctx); err != nil {
		if errors.Is(err, command.ErrUnresponsive) || ctx.Err() != nil {
			return nil, err
		}
		s.failStart(ctx, nil, err)
		return nil, api.Errorf(api.CodeKernelStart, "%s", startError(s.env, err))
	}
	s.mu.Lock()
	lost := s.notRestored
	s.mu.Unlock()
	return lost, s.touch(ctx)
}

// hasVariables reports whether the session has variables, in a kernel or saved. On the session's goroutine.
func (s *Session) hasVariables() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.running || s.saved != nil
}

// recoverSaved goes on with the saved variables that the last server was about to load into a kernel: the next kernel loads them. This
// one has run no cell, and may have died. On the session's goroutine.
func (s *Session) recoverSaved(ctx context.Context, state api.SessionState) {
	s.mu.Lock()
	saved := s.saved
	s.mu.Unlock()
	if saved != nil && state == api.StateStarting {
		var c change
		c.state(s, api.StateHibernated, "")
		s.mustCommit(ctx, c)
	}
}

// whenIdle says what happens to the kernel when nobody uses it. The caller holds s.mu.
func (s *Session) whenIdle() api.OnIdle { return cmp.Or(s.onIdle, s.m.cfg.OnIdle, api.OnIdleHibernate) }

// hibernatesIdle reports whether the session's settings want its kernel's variables saved when nobody uses it.
func (s *Session) hibernatesIdle() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.whenIdle() == api.OnIdleHibernate
}

// hibernateIdle saves the variables of an idle kernel and ends it, if the session's settings say so. It reports false if the
// kernel still has to be ended. An error says why; unless it is leaving, its variables would be lost then.
func (s *Session) hibernateIdle(ctx context.Context) (bool, error) {
	if !s.hibernatesIdle() {
		return false, nil
	}
	saved, err := s.hibernate(ctx)
	if err != nil {
		return false, err
	}
	s.logHibernation(saved)
	return true, nil
}

func (s *Session) logHibernation(saved *savedVariables) {
	s.log.Info("an idle kernel hibernates", "bytes", saved.Bytes, "not_saved", len(saved.NotSaved))
}

// warnOfLoss logs that an idle kernel ends without its variables, if they are not saved. On the session's goroutine.
func (s *Session) warnOfLoss(err error) {
	if s.leaving() {
		return
	}
	s.log.Warn("an idle kernel cannot hibernate; it is stopped, and its variables are lost", "error", err)
}

// hibernateAtEnd saves the variables of a kernel that runs no cell and ends it, since the server or the host ends, if the session's
// settings say so. It reports false if the kernel still has to be ended.
func (s *Session) hibernateAtEnd(ctx context.Context) bool {
	if !s.running || !s.hibernatesIdle() || s.atRest("hibernate") != nil {
		return false
	}
	if err := s.m.ending.take(ctx, s.owner); err != nil {
		s.log.Warn("there was no time to save the variables of an idle kernel, and they are lost", "error", err)
		return false
	}
	saving, cancel := context.WithTimeout(ctx, s.m.ending.saveTime())
	saved, err := s.saveToLeave(ctx, saving)
	cancel()
	s.m.ending.free() // its end may take longer, and the variables do not depend on it
	if err == nil {
		s.logHibernation(saved)
		err = s.endLeaving(ctx)
	}
	if err != nil {
		s.warnOfLoss(err)
	}
	return err == nil
}

// HostEnds hibernates the sessions with these kernels that run no cell and whose settings say so, since the host of the
// kernels ends. The others are left to the host, but end earlier if they run in the sandbox of one that hibernates. Sessions with a kernel
// are always loaded. ctx bounds the time, which its deadline divides among them.
func (m *Manager) HostEnds(ctx context.Context, keys []record.Key) {
	ending := map[*Session]record.Key{}
	for _, key := range keys {
		if s := m.known(key.Session); s != nil {
			ending[s] = key
		}
	}
	m.ending.share(ctx, len(ending))
	besideFirst(slices.Collect(maps.Keys(ending)), func(s *Session) { s.hibernateWithHost(ctx, ending) })
}

// hibernateWithHost has the session hibernate if it still has the kernel that ends, and before that once more those beside it that have
// another one by now: they were used since it was their turn.
func (s *Session) hibernateWithHost(ctx context.Context, ending map[*Session]record.Key) {
	tried := maps.Clone(ending)
	for left := besideAttempts; left > 0; left-- {
		var used []*Session
		err := s.do(ctx, func(own context.Context) error {
			if left > 1 {
				used = s.startedBeside(tried)
			}
			if len(used) == 0 && s.kernelKey() == ending[s] && ctx.Err() == nil {
				s.hibernateAtEnd(own)
			}
			return nil
		})
		if err != nil || len(used) == 0 { // the session ends, or ctx has left no time for it
			return
		}
		for _, one := range used {
			tried[one] = one.kernelKey()
			_ = one.do(ctx, func(own context.Context) error {
				if ctx.Err() == nil {
					one.hibernateAtEnd(own)
				}
				return nil
			})
		}
	}
}
