package session

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"slices"
	"strings"

	jsonv2 "github.com/go-json-experiment/json"

	"talaria/api"
	"talaria/kernel"
	"talaria/kernel/command"
	"talaria/kernel/record"
	"talaria/session/packages"
	"talaria/store"
)

// recover takes over what the last server left: living kernels continue, queued cells stay queued, and losses are
// logged. A power failure may lose the newest events; then each log gets a new id, so that no client resumes across
// the gap.
func (m *Manager) recover(ctx context.Context) error {
	last, err := m.cfg.Store.Begin(ctx, m.cfg.BootID)
	if err != nil {
		return err
	}
	m.crashed = !last.First && !last.Clean
	powerFailure := !last.First && !last.Clean && last.BootID != m.cfg.BootID
	m.lastN = last.LastN
	if powerFailure {
		if err := m.mendLogs(ctx); err != nil {
			return err
		}
	}
	if err := m.disownBeside(ctx); err != nil {
		return err
	}
	disowned, err := m.cfg.Store.DisownedSessions(ctx)
	if err != nil {
		return err
	}
	for _, n := range disowned {
		if err := m.forget(ctx, n); err != nil {
			return err
		}
	}
	if err := m.countOwners(ctx); err != nil {
		return err
	}
	rows, err := m.cfg.Store.OpenSessions(ctx)
	if err != nil {
		return err
	}
	open := make([][]store.Execution, len(rows))
	for i, row := range rows {
		if open[i], err = m.cfg.Store.OpenExecutions(ctx, row.N); err != nil {
			return err
		}
	}
	if err := m.leftSpools(ctx, rows, open); err != nil {
		return err
	}
	known, err := m.cfg.Host.Kernels(ctx) // before any is started
	if err != nil {
		return fmt.Errorf("list kernels: %w", err)
	}
	copies, err := m.cfg.Store.CountCopies(ctx)
	if err != nil {
		return err
	}
	taken := map[record.Key]bool{}
	var lost []kernel.Handle
	var loaded []*Session
	leave := func(row store.Session) {
		var h kernel.Handle
		if row.Handle != nil && jsonv2.Unmarshal(row.Handle, &h) == nil {
			lost = append(lost, h)
		}
	}
	for i, row := range rows {
		s, err := m.load(ctx, row.N, row.ID)
		if errors.Is(err, fs.ErrNotExist) { // a power failure may have taken back its deletion, but not that of its folder
			m.cfg.Log.Error("a session has lost its folder; all that can be done with it is to delete it", "session", row.ID, "error", err)
			leave(row)
			continue
		}
		if err != nil {
			return fmt.Errorf("session %s: %w", row.ID, err)
		}
		defer s.Release()
		loaded = append(loaded, s)
		var alive bool
		err = s.do(ctx, func(own context.Context) (err error) {
			if alive, err = s.takeOver(own, row, open[i]); err == nil {
				err = s.recoverAfter(own)
			}
			return err
		})
		if err != nil {
			return fmt.Errorf("session %s: %w", row.ID, err)
		}
		if alive {
			s.holds(copies[row.N] * copyCost)
			taken[record.Key{Session: row.ID, Generation: row.KernelNumber()}] = true
			continue
		}
		if row.State == api.StateStarting && len(open[i]) == 0 {
			s.startSoon()
		}
		leave(row)
	}
	if err := m.cfg.Host.Sweep(ctx, lost); err != nil {
		return err
	}
	strangers := slices.DeleteFunc(known, func(key record.Key) bool { return taken[key] })
	if err := m.stopOrphans(ctx, strangers); err != nil { // the installers among them
		return err
	}
	for _, s := range loaded {
		if err := s.packages.Tidy(); err != nil {
			s.log.Warn("remove what an installation of the last server left", "error", err)
		}
	}
	return m.sweepFolders(ctx)
}

// disownBeside begins to delete the sessions beside one that is gone: they cannot be loaded.
func (m *Manager) disownBeside(ctx context.Context) error {
	lost, err := m.cfg.Store.SessionsBesideNone(ctx)
	for _, n := range lost {
		if err == nil {
			m.cfg.Log.Warn("a session outlived the one in whose sandbox it ran; it is deleted", "number", n)
			err = m.cfg.Store.Do(ctx, store.Write{Apply: func(tx *store.Tx) error { return tx.DisownSession(n) }})
		}
	}
	return err
}

// countOwners counts what each owner has, as the last server left it.
func (m *Manager) countOwners(ctx context.Context) error {
	return m.cfg.Store.OwnerStates(ctx, func(owner string, state api.SessionState, n int64) {
		use := ownerUse{sessions: n}
		if hasKernel(state) {
			use.kernels = n
		}
		m.owners.add(owner, use)
	})
}

// stopOrphans ends kernels that belong to no session: those whose start was not recorded, and dead ones.
func (m *Manager) stopOrphans(ctx context.Context, strangers []record.Key) error {
	for _, key := range strangers {
		if err := m.cfg.Host.Stop(ctx, key, "no_session"); err != nil {
			return err
		}
		m.cfg.Host.Ack(key, math.MaxUint64)
	}
	return nil
}

// mendLogs gives every log a new id and drops what its lost tail took with it: events whose bodies are gone or cut short.
func (m *Manager) mendLogs(ctx context.Context) error {
	rows, err := m.cfg.Store.AllSessions(ctx)
	if err != nil {
		return err
	}
	for _, row := range rows {
		keep := row.LastSeq
		err := m.cfg.Store.EventDigests(ctx, row.N, func(seq int64, digest string, size int64) {
			if m.cfg.Artifacts.Size(digest) != size {
				keep = seq - 1
			}
		})
		if err != nil {
			return err
		}
		err = m.cfg.Store.Do(ctx, store.Write{Apply: func(tx *store.Tx) error {
			if err := tx.UpdateLogID(row.N, newID()); err != nil {
				return err
			}
			if keep == row.LastSeq {
				return nil
			}
			return tx.TruncateLog(row.N, keep)
		}})
		if err != nil {
			return err
		}
		if keep < row.LastSeq {
			m.cfg.Log.Warn("a power failure lost the end of a log", "session", row.ID, "events", row.LastSeq-keep)
		}
	}
	return nil
}

// takeOver continues a session of an earlier server: its kernel, if that lives or has left records, and its queue.
// alive is false if no host knows the kernel. On the session's goroutine.
func (s *Session) takeOver(ctx context.Context, row store.Session, open []store.Execution) (alive bool, err error) {
	var a command.Attachment
	if row.State != api.StateDead && row.State != api.StateHibernated {
		a, err = s.m.cfg.Host.Attach(ctx, record.Key{Session: row.ID, Generation: row.KernelNumber()})
		if err != nil && !errors.Is(err, command.ErrNoKernel) {
			s.log.Error("cannot attach to a kernel; it is treated as dead", "error", err)
		}
		alive = err == nil
	}
	current, err := s.requeue(ctx, row, open, a.Given)
	if err == nil {
		s.approvals.expectClients()
		err = s.tools.recover(ctx, s.kernelKey(), a.Asks)
	}
	if err == nil {
		err = s.recoverApprovals(ctx)
	}
	switch {
	case err != nil:
		return alive, err
	case alive:
		if err := s.resume(ctx, row, a); err != nil {
			return true, err
		}
		s.recoverSaved(ctx, row.State)
		return true, s.recoverCheckpoints(ctx, true)
	case row.State == api.StateStarting && current == nil: // it produced no kernel, so nothing is lost
		s.mu.Lock()
		s.restartReason = ""
		s.mu.Unlock()
		return false, nil
	case row.State == api.StateDead || row.State == api.StateHibernated:
		return false, s.recoverCheckpoints(ctx, false)
	}
	if err := s.crashed(ctx, row); err != nil {
		return false, err
	}
	return false, s.recoverCheckpoints(ctx, false)
}

// requeue queues the executions that have not ended. The one that the kernel was given is the current one.
func (s *Session) requeue(ctx context.Context, row store.Session, open []store.Execution, given string) (*execution, error) {
	var current *execution
	var queue []*execution
	var pending *api.PendingInput
	for _, e := range open {
		s.mu.Lock()
		r := &execution{row: e, done: make(chan struct{}), out: newOutput(s.out, e.ID, s.limits, s.redact)}
		s.mu.Unlock()
		s.tools.provideFor(r)
		if err := r.recoverAfter(); err != nil {
			return nil, err
		}
		switch {
		case e.Status == api.StatusRunning:
			r.given, current = true, r
			var err error
			if pending, err = s.restoreOutput(ctx, r, row.Output); err != nil {
				return nil, err
			}
		case e.ID == given && current == nil:
			r.given, current = true, r
			r.out.number, r.row.Generation = e.N, row.Generation
			if count := row.ExecutionCount + 1; !e.Silent {
				r.row.ExecutionCount = &count
			}
		default:
			queue = append(queue, r)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.current, s.queue, s.pending = current, queue, pending
	if current != nil {
		queue = append(queue, current)
	}
	for _, r := range queue {
		s.open[r.row.ID] = r
		s.freeQueued(-int64(len(r.row.Code)))
	}
	return current, nil
}

// resume continues with a living kernel from the cursor.
func (s *Session) resume(ctx context.Context, row store.Session, a command.Attachment) error {
	s.running, s.replayTo = true, a.Last
	s.holdMain()
	s.mu.Lock()
	key := s.key()
	s.armReaper()
	s.mu.Unlock()
	if err := s.ready(ctx, a.Info); err != nil {
		return err
	}
	s.answerAfterAgain(key, a.Asks)
	for _, ask := range a.Asks {
		if ask.Kind != record.AskInstall {
			continue // a question stays open, and calls were taken over
		}
		cut := command.InstallResult{Error: packages.ErrServerEnds.Error()}
		answer := command.AnswerInstall{RequestID: ask.ID, Result: cut}
		if err := command.Tell(ctx, s.m.cfg.Host, key, answer); err != nil {
			s.log.Debug("answer an installation of the last server", "error", err)
		}
	}
	go s.pump(ctx, key, row.KSeq)
	return nil
}

// crashed records that the session's kernel died with its host.
func (s *Session) crashed(ctx context.Context, row store.Session) error {
	t := s.translation(ctx)
	t.kseq = row.KSeq
	if t.died(nil, record.Died{Reason: reasonHostCrash, Exit: kernel.Exit{Lost: true}}); t.failed {
		return store.ErrClosed
	}
	return nil
}

// leftSpools ends the spools of executions that have ended: it keeps them if the log names the artifact, and otherwise
// drops them.
func (m *Manager) leftSpools(ctx context.Context, rows []store.Session, open [][]store.Execution) error {
	names, err := m.cfg.Artifacts.Spools()
	if err != nil {
		return err
	}
	inUse := map[string]bool{}
	for i, row := range rows {
		for _, e := range open[i] {
			for _, stream := range []string{"stdout", "stderr"} {
				inUse[spoolName(row.ID, e.N, stream)] = true
			}
		}
	}
	names = slices.DeleteFunc(names, func(name string) bool { return inUse[name] })
	known := map[string]bool{}
	if len(names) > 0 {
		var err error
		if known, err = m.blobs.digests(ctx); err != nil {
			return err
		}
	}
	for _, name := range names {
		w, err := m.cfg.Artifacts.OpenSpool(ctx, name, -1)
		if err != nil {
			return err
		}
		if known[w.Blob().SHA256] {
			_, err = w.Commit()
		} else {
			err = w.Abort()
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// sweepFolders removes the folders of sessions that the database no longer has, or never had.
func (m *Manager) sweepFolders(ctx context.Context) error {
	rows, err := m.cfg.Store.AllSessions(ctx)
	if err != nil {
		return err
	}
	known := map[string]bool{}
	for _, row := range rows {
		known[row.ID] = true
		m.uids[row.UID] = true
	}
	entries, err := os.ReadDir(m.cfg.SessionsDir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if known[e.Name()] || strings.HasPrefix(e.Name(), ".") {
			continue
		}
		if err := m.cfg.Disk.Delete(ctx, e.Name()); err != nil {
			return err
		}
	}
	return nil
}
