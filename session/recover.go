package session

import (
	"context"
	"fmt"
	"os"
	"strings"

	jsonv2 "github.com/go-json-experiment/json"

	"talaria/api"
	"talaria/kernel"
	"talaria/kernel/workspace"
	"talaria/store"
)

// recover reports what the last server left: its kernels are gone with it. After a power failure the newest events may
// be lost; then each log that was in use gets a new id, so that nobody resumes over the gap.
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
	rows, err := m.cfg.Store.LiveSessions(ctx)
	if err != nil {
		return err
	}
	if err := m.sweepKernels(ctx, rows); err != nil {
		return err
	}
	for _, row := range rows {
		s, err := m.loaded(ctx, row)
		if err != nil {
			return fmt.Errorf("session %s: %w", row.ID, err)
		}
		if err := s.crashed(ctx); err != nil {
			return fmt.Errorf("session %s: %w", row.ID, err)
		}
	}
	if err := m.leftSpools(ctx); err != nil {
		return err
	}
	return m.leftFolders(ctx)
}

// sweepKernels ends what is left of the kernels that these sessions had.
func (m *Manager) sweepKernels(ctx context.Context, rows []store.Session) error {
	var handles []kernel.Handle
	for _, row := range rows {
		var h kernel.Handle
		if row.Handle == nil {
			continue
		}
		if err := jsonv2.Unmarshal(row.Handle, &h); err != nil {
			return fmt.Errorf("session %s: read the handle of its sandbox: %w", row.ID, err)
		}
		handles = append(handles, h)
	}
	return m.cfg.Host.Sweep(ctx, handles)
}

// mendLogs gives every log a new id and drops what its lost tail took with it: events whose bodies are gone.
func (m *Manager) mendLogs(ctx context.Context) error {
	rows, err := m.cfg.Store.AllSessions(ctx)
	if err != nil {
		return err
	}
	for _, row := range rows {
		keep := row.LastSeq
		err := m.cfg.Store.EventDigests(ctx, row.N, func(seq int64, digest string) bool {
			if !m.cfg.Artifacts.Has(digest) {
				keep = seq - 1
			}
			return true
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
			m.cfg.Log.Warn("a power failure took the end of a log", "session", row.ID, "events", row.LastSeq-keep)
		}
	}
	return nil
}

// crashed reports that the session's kernel went with the server that crashed.
func (s *Session) crashed(ctx context.Context) error {
	open, err := s.m.cfg.Store.OpenExecutions(ctx, s.n)
	if err != nil {
		return err
	}
	var c change
	for _, row := range open {
		s.mu.Lock()
		r := &run{row: row, done: make(chan struct{}), out: newOutput(s, row.ID, s.limits)}
		s.mu.Unlock()
		o := outcome{status: api.StatusCancelled, reason: reasonCrash, state: api.VariablesLost}
		if row.Status == api.StatusRunning {
			if err := s.recoverOutput(ctx, r); err != nil {
				return err
			}
			o.status = api.StatusDied
			failure := api.ErrorOutput{Ename: "KernelDied", Evalue: "the server crashed and the kernel went with it: its variables " +
				"are lost, the files in the workspace are kept; the next cell starts a fresh kernel"}
			failure.Traceback = []string{failure.Ename + ": " + failure.Evalue}
			r.failure = &failure
			r.out.traceback(failure)
			c.drafts = append(c.drafts, r.out.last(draft{executionID: row.ID, body: api.ErrorEvent{ErrorOutput: failure}})...)
		}
		c.add(s.ended(r, o))
	}
	s.mu.Lock()
	generation := s.generation
	s.mu.Unlock()
	c.drafts = append(c.drafts, draft{body: api.KernelDied{Reason: reasonCrash, Generation: generation}})
	c.add(s.died("restart"))
	c.state(s, api.StateDead, reasonCrash)
	return s.commit(ctx, c)
}

// leftSpools ends the spools of executions that have ended: kept where the log names the artifact, else dropped.
func (m *Manager) leftSpools(ctx context.Context) error {
	names, err := m.cfg.Artifacts.Spools()
	if err != nil {
		return err
	}
	known := map[string]bool{}
	if len(names) > 0 {
		digests, err := m.cfg.Store.AllDigests(ctx)
		if err != nil {
			return err
		}
		for _, d := range digests {
			known[d] = true
		}
	}
	for _, name := range names {
		w, err := m.cfg.Artifacts.OpenSpool(ctx, name)
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

// leftFolders removes the folders of sessions that are in the database no longer, or not yet.
func (m *Manager) leftFolders(ctx context.Context) error {
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
		if err := workspace.Delete(ctx, m.cfg.SessionsDir, e.Name()); err != nil {
			return err
		}
	}
	return nil
}
