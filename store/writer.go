package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"sync"

	"github.com/mattn/go-sqlite3"
)

// groupSize is how many writes share a commit at the most.
const groupSize = 512

// ErrClosed tells that the store is closed.
var ErrClosed = errors.New("the store is closed")

// Write is one atomic change. Apply and Committed run under the writer's lock, one write after another in the
// order in which they were queued, so what only they touch needs no lock.
type Write struct {
	// Apply makes the change; it must not block on anything but the database. When it fails, its change is undone
	// and the others of its group are not harmed.
	Apply func(*Tx) error
	// Committed runs after the commit, before the next group, and before Do returns. Optional; it must not block.
	Committed func()
	// Aborted runs when Apply succeeded but its group's commit failed. Optional; it must not block.
	Aborted func()
}

type queued struct {
	Write
	err  error
	done chan struct{}
}

// writer commits writes in groups. There is no goroutine of its own: whoever finds it idle commits, for itself and for
// those who came meanwhile, so that a write alone costs no change of goroutines.
type writer struct {
	conn  *sql.Conn
	log   *slog.Logger
	stmts map[string]*sql.Stmt             // touched by who commits
	due   func(context.Context, *sql.Conn) // asks for a checkpoint
	since int                              // writes since the last one; touched by who commits

	mu     sync.Mutex // guards what follows
	queue  []*queued
	spare  []*queued // for the next queue
	busy   bool      // somebody commits
	closed bool
	idle   *sync.Cond // on mu: nobody commits
}

func newWriter(db *sql.DB, due func(context.Context, *sql.Conn), log *slog.Logger) (*writer, error) {
	conn, err := db.Conn(context.Background())
	if err != nil {
		return nil, fmt.Errorf("open the database: %w", err)
	}
	if _, err := conn.ExecContext(context.Background(), "PRAGMA wal_autocheckpoint = 0"); err != nil {
		return nil, errors.Join(fmt.Errorf("open the database: %w", err), conn.Close())
	}
	w := &writer{conn: conn, log: log, due: due, stmts: map[string]*sql.Stmt{}}
	w.idle = sync.NewCond(&w.mu)
	return w, nil
}

// Do commits the write, with those of others. Once queued it is carried out even when ctx ends; then Do returns ctx's
// error without knowing the outcome.
func (s *Store) Do(ctx context.Context, write Write) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	q := &queued{Write: write, done: make(chan struct{})}
	if s.writer.add(q) {
		s.writer.lead(q)
		return q.err
	}
	select {
	case <-q.done:
		return q.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// add queues a write, unless the writer is closed. It is true where the caller is to lead.
func (w *writer) add(q *queued) (leads bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		q.err = ErrClosed
		close(q.done)
		return false
	}
	w.queue = append(w.queue, q)
	leads = !w.busy
	w.busy = true
	return leads
}

// lead commits until the caller's own write is done; if there is more, another goroutine goes on.
func (w *writer) lead(own *queued) {
	for group := w.take(); group != nil; group = w.take() {
		w.commit(group)
		w.giveBack(group)
		if own == nil {
			continue
		}
		select {
		case <-own.done:
			if w.more() {
				go w.lead(nil)
			}
			return
		default:
		}
	}
}

// take is the next group, nil where there is none; then nobody commits any more.
func (w *writer) take() []*queued {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.rest() {
		return nil
	}
	group := w.queue
	if len(group) > groupSize {
		group, w.queue = group[:groupSize:groupSize], group[groupSize:]
		return group
	}
	w.queue, w.spare = w.spare[:0], nil
	return group
}

// more reports whether something is queued; else nobody commits any more.
func (w *writer) more() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return !w.rest()
}

// rest ends the leading where nothing is queued. The caller holds mu.
func (w *writer) rest() bool {
	if len(w.queue) > 0 {
		return false
	}
	w.busy = false
	w.idle.Broadcast()
	return true
}

// giveBack keeps the memory of a group for another one.
func (w *writer) giveBack(group []*queued) {
	clear(group)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.spare == nil && cap(group) <= groupSize {
		w.spare = group[:0]
	}
}

// close takes no more writes, and returns when those that were queued are committed. It is idempotent.
func (w *writer) close() error {
	w.mu.Lock()
	again := w.closed
	w.closed = true
	for w.busy {
		w.idle.Wait()
	}
	w.mu.Unlock()
	if again {
		return nil
	}
	return w.conn.Close()
}

func (w *writer) commit(group []*queued) {
	err := w.transact(group)
	for _, q := range group {
		switch {
		case q.err != nil:
			q.err = orFull(q.err)
		case err != nil:
			q.err = orFull(err)
			if q.Aborted != nil {
				q.Aborted()
			}
		case q.Committed != nil:
			q.Committed()
		}
	}
	for _, q := range group {
		close(q.done)
	}
	if w.since += len(group); w.since >= checkpointEvery {
		w.since = 0
		w.due(context.Background(), w.conn)
	}
}

// orFull is err, as [errFull] if the disk is full.
func orFull(err error) error {
	if e, ok := errors.AsType[sqlite3.Error](err); ok && e.Code == sqlite3.ErrFull {
		return fmt.Errorf("%w: %w", errFull, err)
	}
	return err
}

func (w *writer) transact(group []*queued) error {
	tx := &Tx{w}
	if err := tx.exec("BEGIN IMMEDIATE"); err != nil {
		return fmt.Errorf("begin: %w", err)
	}
	for _, q := range group {
		if err := tx.apply(q, len(group) == 1); err != nil {
			return errors.Join(err, tx.exec("ROLLBACK"))
		}
	}
	if err := tx.exec("COMMIT"); err != nil {
		w.log.Error("commit", "error", err)
		return errors.Join(fmt.Errorf("commit: %w", err), tx.exec("ROLLBACK"))
	}
	return nil
}

// Tx is the transaction that a [Write] runs in. It is used by Apply only.
type Tx struct{ w *writer }

// apply runs one write of a group, in a savepoint of its own unless it is alone; its failure is its own.
func (t *Tx) apply(q *queued, alone bool) error {
	if alone {
		q.err = q.Apply(t)
		return q.err
	}
	if err := t.exec("SAVEPOINT one"); err != nil {
		return fmt.Errorf("savepoint: %w", err)
	}
	if q.err = q.Apply(t); q.err != nil {
		if err := t.exec("ROLLBACK TO one"); err != nil {
			return fmt.Errorf("roll back to savepoint: %w", err)
		}
	}
	if err := t.exec("RELEASE one"); err != nil {
		return fmt.Errorf("release savepoint: %w", err)
	}
	return nil
}

// stmt prepares each statement once for the life of the connection.
func (t *Tx) stmt(query string) (*sql.Stmt, error) {
	if s, ok := t.w.stmts[query]; ok {
		return s, nil
	}
	s, err := t.w.conn.PrepareContext(context.Background(), query)
	if err != nil {
		return nil, err
	}
	t.w.stmts[query] = s
	return s, nil
}

func (t *Tx) result(query string, args ...any) (sql.Result, error) {
	s, err := t.stmt(query)
	if err != nil {
		return nil, err
	}
	return s.Exec(args...)
}

func (t *Tx) rows(query string, args ...any) (*sql.Rows, error) {
	s, err := t.stmt(query)
	if err != nil {
		return nil, err
	}
	return s.Query(args...)
}

func (t *Tx) row(query string, args ...any) (*sql.Row, error) {
	s, err := t.stmt(query)
	if err != nil {
		return nil, err
	}
	return s.QueryRow(args...), nil
}

func (t *Tx) exec(query string, args ...any) error {
	_, err := t.result(query, args...)
	return err
}

// one fails with [ErrNotFound] unless exactly one row was changed.
func (t *Tx) one(query string, args ...any) error {
	res, err := t.result(query, args...)
	if err != nil {
		return err
	}
	if n, err := res.RowsAffected(); err != nil {
		return err
	} else if n != 1 {
		return ErrNotFound
	}
	return nil
}
