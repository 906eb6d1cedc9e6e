package batch

import (
	"context"
	"errors"
	"slices"
	"time"

	"talaria/api"
	"talaria/store"
)

// After a refusal that may pass, such as a full queue, a job pauses before it tries again.
const (
	firstPause   = time.Second
	longestPause = 30 * time.Second
	maxRefusals  = 10 // in a row; about three minutes
)

// errCancelled is the cause of the context of a job that is cancelled.
var errCancelled = errors.New("the batch was cancelled")

// job is a job that has not ended.
type job struct {
	n           int64
	id          string
	owner       string
	concurrency int64
	shares      shares
	ctx         context.Context // ends when the job is cancelled, and with the manager
	cancel      context.CancelCauseFunc
	ended       chan struct{} // closed when it has ended

	// Guarded by Manager.mu.

	queue    []entry // what waits, by index
	running  int64
	paused   bool
	refusals int           // in a row that led to a pause
	reason   string        // why it is cancelled
	changed  chan struct{} // closed, and replaced, when it has a new event
	deadline *time.Timer   // nil: none
	rest     *time.Timer   // ends the pause; nil before the first
}

func (m *Manager) newJob(row store.Batch) *job {
	j := &job{
		n: row.N, id: row.ID, owner: row.Owner, concurrency: row.Concurrency, shares: sharesOf(row.Total),
		ended: make(chan struct{}), changed: make(chan struct{}), reason: row.Reason,
	}
	j.ctx, j.cancel = context.WithCancelCause(m.ctx)
	return j
}

// admit lets the job's items run, until its deadline in milliseconds if there is one. The caller holds mu.
func (m *Manager) admit(j *job, deadline *int64) {
	m.jobs[j.n] = j
	m.turns.add(j)
	if deadline != nil && j.reason == "" && !m.closed {
		j.deadline = time.AfterFunc(time.Until(time.UnixMilli(*deadline)), func() { m.expire(j) })
	}
}

// dispatch runs items while slots are free. The caller holds mu.
func (m *Manager) dispatch() {
	for !m.closed {
		j, e, ok := m.turns.next()
		if !ok {
			return
		}
		m.tasks.Go(func() { m.run(j, e) })
	}
}

// stopTimers ends the deadline and a pause. The caller holds Manager.mu.
func (j *job) stopTimers() {
	for _, t := range []*time.Timer{j.deadline, j.rest} {
		if t != nil {
			t.Stop()
		}
	}
}

// expire cancels a job at its deadline, on the goroutine of a timer.
func (m *Manager) expire(j *job) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.closed {
		m.tasks.Go(func() { m.cancelLogged(j, api.BatchReasonDeadline) })
	}
}

func (m *Manager) cancelLogged(j *job, reason string) {
	if err := m.cancelJob(j, reason); err != nil && m.ctx.Err() == nil {
		m.cfg.Log.Error("cancel a batch", "batch", j.id, "error", err)
	}
}

// cancelJob cancels what waits, and has what runs interrupted. It does not wait for the end of that.
func (m *Manager) cancelJob(j *job, reason string) error {
	m.mu.Lock()
	first := j.reason == ""
	if first {
		j.reason = reason
	}
	reason = j.reason
	waiting := j.queue
	j.queue = nil
	m.mu.Unlock()
	last := false
	err := m.cfg.Store.Do(context.Background(), store.Write{Apply: func(tx *store.Tx) error {
		if err := tx.CancelBatch(j.n, reason); err != nil {
			return err
		}
		now := time.Now().UnixMilli()
		for _, e := range waiting {
			if e.tried {
				continue
			}
			var err error
			if last, err = tx.FinishBatchItem(j.n, cancelled(e.index), now); err != nil {
				return err
			}
		}
		return nil
	}})
	m.mu.Lock()
	if err != nil { // the items still wait, for another attempt to cancel them or for their turn
		j.queue = append(j.queue, waiting...)
		slices.SortFunc(j.queue, func(a, b entry) int { return a.index - b.index })
		if first {
			j.reason = ""
		}
		m.dispatch()
	}
	m.mu.Unlock()
	if err != nil {
		return err
	}
	j.cancel(errCancelled)
	m.committed(j, last)
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, e := range waiting {
		if e.tried && !m.closed { // to interrupt its cell, and delete its session
			e.session = "" // it waits for no other
			m.turns.adopt(j, e)
			m.tasks.Go(func() { m.run(j, e) })
		}
	}
	return nil
}

// cancelled is how an item ends that never ran.
func cancelled(index int) store.BatchItem {
	return store.BatchItem{Index: index, Status: api.StatusCancelled}
}

// committed tells those who follow the job that it has new events; last says that it has ended.
func (m *Manager) committed(j *job, last bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	close(j.changed)
	j.changed = make(chan struct{})
	if !last {
		return
	}
	j.stopTimers()
	j.cancel(nil)
	close(j.ended)
	delete(m.jobs, j.n)
	m.turns.remove(j)
	m.forgetOne(j.owner)
	m.cfg.Log.Info("batch ended", "batch", j.id, "owner", j.owner, "reason", j.reason)
}

// pause puts an item back that was refused for a reason that may pass, and lets the job rest. again is false after too
// many refusals in a row, or once the job is cancelled.
func (m *Manager) pause(j *job, e entry) (again bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if j.reason != "" || !j.paused && j.refusals >= maxRefusals {
		return false
	}
	e.tried = true
	at, _ := slices.BinarySearchFunc(j.queue, e.index, func(other entry, index int) int { return other.index - index })
	j.queue = slices.Insert(j.queue, at, e)
	m.turns.release(j, e)
	if !j.paused && !m.closed {
		j.paused = true
		j.rest = time.AfterFunc(min(firstPause<<j.refusals, longestPause), func() { m.wake(j) })
		j.refusals++ // once for all items that ran at the time
	}
	m.dispatch()
	return true
}

// wake ends the job's pause.
func (m *Manager) wake(j *job) {
	m.mu.Lock()
	defer m.mu.Unlock()
	j.paused = false
	m.dispatch()
}
