package batch

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"talaria/api"
	"talaria/session"
	"talaria/store"
)

// idleAfter is when the kernel of a session that was made for an item stops, in seconds: nothing else will run there.
const idleAfter = 1.0

// run runs an item that has a slot to its end, and gives the slot back.
func (m *Manager) run(j *job, e entry) {
	item, err := m.cfg.Store.BatchItem(m.ctx, j.n, e.index)
	if err == nil {
		err = m.carryOut(j, &item)
	}
	if m.leaves(err) {
		return
	}
	if passing(err) && m.pause(j, e) {
		return
	}
	if err != nil {
		item = m.refused(j, item, err)
	}
	last := false
	err = m.cfg.Store.Do(context.Background(), store.Write{Apply: func(tx *store.Tx) (err error) {
		last, err = tx.FinishBatchItem(j.n, item, time.Now().UnixMilli())
		return err
	}})
	switch {
	case err == nil:
		m.committed(j, last)
	case m.leaves(err) || passing(err) && m.pause(j, e): // what came of it is found again
		return
	default:
		m.cfg.Log.Error("record the end of an item of a batch; a restart does that", "batch", j.id, "item", e.index, "error", err)
	}
	if err == nil && item.Discard == store.DiscardDue {
		m.discard(store.BatchSession{Batch: j.n, Index: item.Index, Owner: j.owner, Session: item.Session})
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	j.refusals = 0
	m.turns.release(j, e)
	m.dispatch()
}

// leaves reports whether an item is left to the next server.
func (m *Manager) leaves(err error) bool {
	return err != nil && (m.ctx.Err() != nil || errors.Is(err, session.ErrClosing))
}

// passing reports whether what could not be done now may be possible soon.
func passing(err error) bool {
	known := new(api.Error)
	if !errors.As(err, &known) {
		return false
	}
	return slices.Contains([]api.Code{api.CodeNotReady, api.CodeQueueFull, api.CodeSessionLimit, api.CodeDiskFull, api.CodeKernelBusy}, known.Code)
}

// refused is how an item ends that could not run, or whose execution is gone.
func (m *Manager) refused(j *job, item store.BatchItem, err error) store.BatchItem {
	end := store.BatchItem{Index: item.Index, Session: item.Session, Fresh: item.Fresh}
	if item.Fresh {
		end.Discard = store.DiscardDue
	}
	known := new(api.Error)
	switch {
	case errors.Is(err, errCancelled):
		end.Status = api.StatusCancelled
		return end
	case item.Status == api.StatusRunning && errors.As(err, &known) && (known.Code == api.CodeSessionNotFound || known.Code == api.CodeExecutionNotFound):
		end.Status, end.Error = api.StatusDied, api.Errorf(api.CodeSessionNotFound, "the session was deleted while the item ran there")
		return end
	case !errors.As(err, &known):
		m.cfg.Log.Error("run an item of a batch", "batch", j.id, "item", item.Index, "error", err)
		known = api.Errorf(api.CodeInternal, "the server failed to run this; its log has the details")
	}
	end.Status, end.Error = api.StatusFailed, known
	return end
}

// carryOut has the item's session run it, and waits for the end, which it puts into the item.
func (m *Manager) carryOut(j *job, item *store.BatchItem) error {
	s, err := m.sessionOf(j, *item)
	if err != nil {
		return err
	}
	defer s.Release()
	id := executionID(j.id, item.Index)
	if item.Status == api.StatusQueued {
		if err := m.submit(j, item, s, id); err != nil {
			return err
		}
	}
	e, err := s.Wait(j.ctx, id)
	if err != nil && j.ctx.Err() != nil && m.ctx.Err() == nil {
		if err := m.interrupt(s, id); err != nil && m.ctx.Err() == nil {
			m.cfg.Log.Warn("interrupt an item of a cancelled batch", "session", s.Serial(), "error", err)
		}
		e, err = s.Wait(m.ctx, id)
	}
	if err != nil {
		return err
	}
	result, complete := j.shares.summarize(e)
	item.Status, item.Execution = e.Status, result
	switch {
	case item.Fresh && complete:
		item.Discard = store.DiscardDue
	case item.Fresh: // its log and files stay
		idle := idleAfter
		if err := s.Update(m.ctx, api.SessionPatch{IdleTimeoutS: &idle}); err != nil && m.ctx.Err() == nil {
			m.cfg.Log.Warn("let the session of an item idle", "session", s.Serial(), "error", err)
		}
	}
	return nil
}

// interrupt interrupts an execution, as soon as its host responds.
func (m *Manager) interrupt(s *session.Session, id string) error {
	for {
		err := s.Interrupt(m.ctx, id)
		if !passing(err) {
			return err
		}
		select {
		case <-time.After(firstPause):
		case <-m.ctx.Done():
			return context.Cause(m.ctx)
		}
	}
}

// sessionOf returns the item's session, and makes it if the item has none. The caller releases it.
func (m *Manager) sessionOf(j *job, item store.BatchItem) (*session.Session, error) {
	if !item.Fresh || item.Status == api.StatusRunning {
		return m.cfg.Sessions.Get(j.owner, item.Session)
	}
	if j.ctx.Err() != nil {
		return nil, context.Cause(j.ctx)
	}
	metadata := map[string]string{"batch": j.id}
	if item.ForkOf != "" {
		return m.cfg.Sessions.EnsureFork(m.ctx, j.owner, item.Session, item.ForkOf, metadata)
	}
	s, _, err := m.cfg.Sessions.Ensure(m.ctx, j.owner, item.Session, api.SessionRequest{Metadata: &metadata}, api.IfExistsKeep)
	return s, err
}

// submit puts the item into its session's queue, with its files in the workspace, unless a server before this one did.
func (m *Manager) submit(j *job, item *store.BatchItem, s *session.Session, id string) error {
	_, err := s.Executions().Get(m.ctx, id)
	if errors.Is(err, api.Errorf(api.CodeExecutionNotFound, "")) {
		if j.ctx.Err() != nil {
			return context.Cause(j.ctx)
		}
		for _, name := range slices.Sorted(maps.Keys(item.Files)) {
			if _, _, err := s.Files().Put(m.ctx, name, bytes.NewReader(item.Files[name])); err != nil {
				return err
			}
		}
		_, err = s.Submit(context.Background(), api.ExecutionRequest{ID: &id, Code: &item.Code}, false)
	}
	if err != nil {
		return err
	}
	err = m.cfg.Store.Do(context.Background(), store.Write{Apply: func(tx *store.Tx) error {
		return tx.StartBatchItem(j.n, item.Index, time.Now().UnixMilli())
	}})
	if err != nil {
		return err
	}
	item.Status = api.StatusRunning
	m.committed(j, false)
	return nil
}

// discard deletes the session that was made for an item whose result is recorded. One that cannot be deleted now is
// deleted by the next server.
func (m *Manager) discard(one store.BatchSession) {
	ctx := context.Background()
	err := m.cfg.Sessions.Delete(ctx, one.Owner, one.Session)
	if err == nil || errors.Is(err, session.ErrDeleted) {
		err = m.cfg.Store.Do(ctx, store.Write{Apply: func(tx *store.Tx) error { return tx.DiscardedBatchSession(one.Batch, one.Index) }})
	}
	if err != nil && m.ctx.Err() == nil {
		m.cfg.Log.Warn("delete the session of an item", "session", one.Session, "error", err)
	}
}
