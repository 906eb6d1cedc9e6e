package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"sync"
)

// groupSize is how many writes share a commit at the most.
const groupSize = 512

// ErrClosed tells that the store is closed.
var ErrClosed = errors.New("the store is closed")

// Write is one atomic change. Apply and Committed run on the writer's goroutine, one write after another in the
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

type writer struct {
	conn  *sql.Conn
	log   *slog.Logger
	stmts map[string]*sql.Stmt // touched by the goroutine only
	queue chan *queued
	quit  chan struct{}
	once  sync.Once
	ended chan struct{}
}

func newWriter(db *sql.DB, log *slog.Logger) (*writer, error) {
	conn, err := db.Conn(context.Background())
	if err != nil {
		return nil, fmt.Errorf("open the database: %w", err)
	}
	w := &writer{
		conn: conn, log: log, stmts: map[string]*sql.Stmt{},
		queue: make(chan *queued, groupSize), quit: make(chan struct{}), ended: make(chan struct{}),
	}
	go w.run()
	return w, nil
}

// Do queues the write and waits for its commit. Once queued it is carried out even when ctx ends; then Do returns
// ctx's error without knowing the outcome.
func (s *Store) Do(ctx context.Context, write Write) error {
	q := &queued{Write: write, done: make(chan struct{})}
	select {
	case <-s.writer.quit:
		return ErrClosed
	case s.writer.queue <- q:
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case <-q.done:
		return q.err
	case <-s.writer.ended:
		select {
		case <-q.done:
			return q.err
		default:
			return ErrClosed
		}
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (w *writer) close() {
	w.once.Do(func() { close(w.quit) })
	<-w.ended
}

func (w *writer) run() {
	defer close(w.ended)
	defer w.conn.Close()
	group := make([]*queued, 0, groupSize)
	for {
		group = group[:0]
		select {
		case q := <-w.queue:
			group = append(group, q)
		case <-w.quit:
			select {
			case q := <-w.queue:
				group = append(group, q)
			default:
				return
			}
		}
	more:
		for len(group) < groupSize {
			select {
			case q := <-w.queue:
				group = append(group, q)
			default:
				break more
			}
		}
		w.commit(group)
	}
}

func (w *writer) commit(group []*queued) {
	err := w.transact(group)
	for _, q := range group {
		switch {
		case q.err != nil:
		case err != nil:
			q.err = err
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
