// Package batch runs jobs of many cells over sessions: a durable list of items, each of which runs exactly once, and a
// fixed number at a time that is shared fairly between owners.
//
// An item becomes an execution of its session under an id made of the job's id and the item's index. A later server that
// submits it again therefore gets the first execution, so no item runs twice however the server ended.
package batch

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"sync"
	"time"

	"github.com/google/uuid"

	"talaria/api"
	"talaria/session"
	"talaria/store"
)

const (
	// ownerJobs bounds the jobs of one owner that have not ended, which hold their code and files.
	ownerJobs = 16
	// keptJobs is how many jobs that have ended are kept for one owner.
	keptJobs = 100
	// closeTime bounds how long Close waits for what does not end with the manager, such as a large fork.
	closeTime = 3 * time.Second
)

// errClosed is the cause of the contexts that end with the manager.
var errClosed = errors.New("the server is shutting down")

// Config is what a [Manager] needs. All of it is required.
type Config struct {
	Sessions *session.Manager
	Store    *store.Store
	Log      *slog.Logger
	Slots    int // items that run at a time, of all owners together
}

// Manager runs the jobs of all owners. It is safe for concurrent use.
type Manager struct {
	cfg    Config
	ctx    context.Context // ends with Close, errClosed being its cause
	cancel context.CancelCauseFunc
	tasks  sync.WaitGroup // items under way, and what ends jobs

	mu     sync.Mutex // guards the fields below, and those of jobs that say so
	closed bool
	jobs   map[int64]*job // that have not ended, by number
	open   map[string]int // the same, counted by owner, with those that are being created
	turns  turns
}

// Open continues the jobs that an earlier server left. ctx bounds the opening. The sessions' manager must be closed after
// this one.
func Open(ctx context.Context, cfg Config) (*Manager, error) {
	if cfg.Slots < 1 {
		return nil, fmt.Errorf("batch: %d items at a time; at least 1 must run", cfg.Slots)
	}
	m := &Manager{cfg: cfg, jobs: map[int64]*job{}, open: map[string]int{}, turns: newTurns(cfg.Slots)}
	m.ctx, m.cancel = context.WithCancelCause(context.Background())
	if err := m.recover(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("take over the batches of the last server: %w", err), m.Close())
	}
	return m, nil
}

// recover takes over what the last server left: jobs continue, and sessions that were to be deleted are.
func (m *Manager) recover(ctx context.Context) error {
	rows, err := m.cfg.Store.OpenBatches(ctx)
	if err != nil {
		return err
	}
	leftover, err := m.cfg.Store.DiscardableBatchSessions(ctx)
	if err != nil {
		return err
	}
	for _, row := range rows {
		j := m.newJob(row)
		var running []entry
		err := m.cfg.Store.BatchItems(ctx, row.N, true, func(item store.BatchItem) {
			e := entry{index: item.Index, tried: true}
			if !item.Fresh {
				e.session = item.Session
			}
			if item.Status == api.StatusRunning {
				running = append(running, e)
			} else {
				j.queue = append(j.queue, e)
			}
		})
		if err != nil {
			return err
		}
		m.mu.Lock()
		m.open[j.owner]++
		m.admit(j, row.Deadline)
		for _, e := range running {
			m.turns.adopt(j, e)
			m.tasks.Go(func() { m.run(j, e) })
		}
		m.mu.Unlock()
		if row.Reason != "" {
			j.cancel(errCancelled) // before anything of it runs
			m.tasks.Go(func() { m.cancelLogged(j, row.Reason) })
		}
	}
	for _, one := range leftover {
		m.tasks.Go(func() { m.discard(one) })
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.dispatch()
	return nil
}

// Close leaves the jobs, and the cells that run, to the next server. It is idempotent, and waits for what is under way. What takes too
// long ends with the sessions' manager.
func (m *Manager) Close() error {
	m.mu.Lock()
	m.closed = true
	for _, j := range m.jobs {
		j.stopTimers()
	}
	m.mu.Unlock()
	m.cancel(errClosed)
	over := make(chan struct{})
	go func() {
		m.tasks.Wait()
		close(over)
	}()
	select {
	case <-over:
	case <-time.After(closeTime):
		m.cfg.Log.Warn("items of batches are still under way; the next server continues them")
	}
	return nil
}

// Create accepts a job and begins to run it. It returns [api.CodeSessionNotFound] if the owner lacks one of the
// sessions. ctx bounds the creation.
func (m *Manager) Create(ctx context.Context, owner string, req api.BatchRequest) (api.Batch, error) {
	row, items, err := m.check(ctx, owner, req)
	if err != nil {
		return api.Batch{}, err
	}
	if err := m.reserve(owner); err != nil {
		return api.Batch{}, err
	}
	row.ID, row.Owner, row.CreatedAt = uuid.Must(uuid.NewV7()).String(), owner, time.Now().UnixMilli()
	if req.DeadlineS != nil {
		at := row.CreatedAt + int64(*req.DeadlineS*1000)
		row.Deadline = &at
	}
	for i := range items {
		if items[i].Fresh {
			items[i].Session = row.ID + "." + strconv.Itoa(i)
		}
	}
	err = m.cfg.Store.Do(context.WithoutCancel(ctx), store.Write{Apply: func(tx *store.Tx) (err error) {
		row.N, err = tx.InsertBatch(row, items)
		return errors.Join(err, tx.ForgetBatches(owner, keptJobs))
	}})
	if err != nil {
		m.unreserve(owner)
		return api.Batch{}, err
	}
	row.Status, row.Total, row.Open, row.LastSeq = api.BatchQueued, int64(len(items)), int64(len(items)), 1
	j := m.newJob(row)
	j.queue = make([]entry, len(items))
	for i, item := range items {
		if j.queue[i].index = i; !item.Fresh {
			j.queue[i].session = item.Session
		}
	}
	m.mu.Lock()
	m.admit(j, row.Deadline)
	m.dispatch()
	m.mu.Unlock()
	m.cfg.Log.Info("batch created", "batch", row.ID, "owner", owner, "items", len(items))
	out := batchOf(row)
	for _, item := range items {
		item.Status = api.StatusQueued
		out.Items = append(out.Items, itemOf(row.ID, item))
	}
	return out, nil
}

// reserve counts a job of an owner that is about to be created, unless there are too many.
func (m *Manager) reserve(owner string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.closed:
		return session.ErrClosing
	case m.open[owner] >= ownerJobs:
		return api.Errorf(api.CodeTooManyRequests, "%d of your batches have not ended, which is the limit; wait for one to end, or cancel one", ownerJobs)
	}
	m.open[owner]++
	return nil
}

func (m *Manager) unreserve(owner string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.forgetOne(owner)
}

// forgetOne undoes reserve. The caller holds mu.
func (m *Manager) forgetOne(owner string) {
	if m.open[owner]--; m.open[owner] == 0 {
		delete(m.open, owner)
	}
}

// Get returns the owner's job with all its items.
func (m *Manager) Get(ctx context.Context, owner, id string) (api.Batch, error) {
	row, err := m.row(ctx, owner, id)
	if err != nil {
		return api.Batch{}, err
	}
	out := batchOf(row)
	out.Items = make([]api.BatchItem, 0, row.Total)
	err = m.cfg.Store.BatchItems(ctx, row.N, false, func(item store.BatchItem) { out.Items = append(out.Items, itemOf(id, item)) })
	return out, err
}

// row returns the owner's job with that id.
func (m *Manager) row(ctx context.Context, owner, id string) (store.Batch, error) {
	row, err := m.cfg.Store.Batch(ctx, owner, id)
	if errors.Is(err, store.ErrNotFound) {
		return row, api.Errorf(api.CodeBatchNotFound, "you have no batch %.140q; the newest %d that have ended are kept", id, keptJobs)
	}
	return row, err
}

// List lists the owner's jobs without their items, newest first.
func (m *Manager) List(ctx context.Context, owner string, q api.PageQuery) (api.Page[api.Batch], error) {
	return session.PageOf(q, func(before int64, limit int) ([]api.Batch, []int64, error) {
		rows, err := m.cfg.Store.Batches(ctx, owner, before, limit)
		if err != nil {
			return nil, nil, err
		}
		items, numbers := make([]api.Batch, len(rows)), make([]int64, len(rows))
		for i, row := range rows {
			items[i], numbers[i] = batchOf(row), row.N
		}
		return items, numbers, nil
	})
}

// Load counts the items of all jobs that run, and those that wait.
func (m *Manager) Load() (running, waiting int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, j := range m.jobs {
		running += j.running
		waiting += int64(len(j.queue))
	}
	return running, waiting
}

// Cancel cancels a job: what runs is interrupted, and what has not started never will. It returns when the job has ended,
// or with the job so far when ctx ends. It changes nothing about a job that has ended.
func (m *Manager) Cancel(ctx context.Context, owner, id string) (api.Batch, error) {
	row, err := m.row(ctx, owner, id)
	if err != nil {
		return api.Batch{}, err
	}
	m.mu.Lock()
	j := m.jobs[row.N]
	m.mu.Unlock()
	if j != nil {
		if err := m.cancelJob(j, api.BatchReasonRequest); err != nil {
			return api.Batch{}, err
		}
		select {
		case <-j.ended:
		case <-ctx.Done():
		case <-m.ctx.Done():
		}
	}
	return m.Get(context.WithoutCancel(ctx), owner, id)
}

// batchOf is a job as clients see it, without its items.
func batchOf(row store.Batch) api.Batch {
	return api.Batch{
		ID: row.ID, Status: row.Status, Reason: row.Reason, Concurrency: row.Concurrency, DeadlineAt: instant(row.Deadline),
		Total: row.Total, Finished: row.Total - row.Open, LastSeq: row.LastSeq, CreatedAt: api.Millis(row.CreatedAt),
		StartedAt: instant(row.StartedAt), FinishedAt: instant(row.FinishedAt),
	}
}

// itemOf is an item of a job as clients see it.
func itemOf(id string, row store.BatchItem) api.BatchItem {
	item := api.BatchItem{
		Index: row.Index, Status: row.Status, Execution: row.Execution, Error: row.Error,
	}
	if row.StartedAt != nil {
		item.ExecutionID, item.SessionDeleted = executionID(id, row.Index), row.Discard != store.DiscardNot
	}
	if !row.Fresh || row.StartedAt != nil {
		item.SessionID = row.Session
	}
	return item
}

func instant(ms *int64) *api.Time {
	if ms == nil {
		return nil
	}
	t := api.Millis(*ms)
	return &t
}

// executionID is the id of an item's execution in its session.
func executionID(id string, index int) string { return id + "." + strconv.Itoa(index) }
