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

// groupSize is the largest number of writes that share a commit.
const groupSize = 512

// ErrClosed means that the store is closed.
var ErrClosed = errors.New("the store is closed")

// Write is one atomic change. Apply and Aborted run on the writer, one write after another in the order in which they
// were queued, so state that only they touch needs no lock. All other writes wait meanwhile: neither may block on
// anything but the database.
type Write struct {
	// Apply makes the change. When it fails, its change is undone and the rest of its group is not affected.
	Apply func(*Tx) error
	// Aborted runs when Apply succeeded but the commit of its group failed. Optional.
	Aborted func()
	// Committed runs after the commit and before Do returns, on the goroutine of the caller, so it delays only the
	// caller and later writes of the same Sequence. When the caller's context ends first, Committed still runs, on a
	// goroutine that Close waits for. It must not call Do with the same Sequence. Optional.
	Committed func()
	// Settled runs once when the outcome is known and Committed has run or never will, on the goroutine that Committed
	// runs on. It must not block. Optional.
	Settled func()
	// Sequence orders Committed relative to other writes. Optional: nil means in no order.
	Sequence *Sequence
}

// Sequence runs the Committed functions of the writes that share it one at a time, in the order of their commits. The
// zero value is ready for use.
type Sequence struct {
	last chan struct{} // closed when the newest of them has run; nil before the first. Only the writer touches it.
}

type queued struct {
	Write
	err     error
	applied bool          // Apply succeeded
	done    chan struct{} // closed when the write is committed or has failed
	turn    chan struct{} // closed when Committed may run; nil for at once. Set before done is closed.
	ran     chan struct{} // closed when Committed has run; nil without a Sequence
}

// writer commits writes in groups. It has no goroutine of its own: a caller that finds it idle commits its own write
// and those that arrive meanwhile, so a single write costs no goroutine switch.
type writer struct {
	conn  *sql.Conn
	log   *slog.Logger
	stmts map[string]*sql.Stmt             // only the goroutine that commits touches it
	due   func(context.Context, *sql.Conn) // asks for a checkpoint
	since int                              // writes since the last checkpoint; only the goroutine that commits touches it

	mu        sync.Mutex // guards the fields below
	queue     []*queued
	spare     []*queued // memory for the next queue
	busy      bool      // a goroutine commits
	abandoned int       // Committed functions that no caller waits for
	closed    bool
	idle      *sync.Cond // on mu: neither busy nor abandoned
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

// Do commits the write, in one group with those of other callers. Once queued, the write is carried out even when ctx
// ends; Do then returns ctx's error without knowing the outcome.
func (s *Store) Do(ctx context.Context, write Write) error {
	if err := ctx.Err(); err != nil {
		write.settled()
		return err
	}
	q := &queued{Write: write, done: make(chan struct{})}
	if s.writer.add(q) {
		s.writer.lead(q)
	} else {
		select {
		case <-q.done:
		case <-ctx.Done():
			s.writer.abandon(q)
			return ctx.Err()
		}
	}
	if q.err != nil || q.Committed == nil {
		q.settled()
		return q.err
	}
	if q.turn != nil {
		select {
		case <-q.turn:
		case <-ctx.Done():
			s.writer.abandon(q)
			return ctx.Err()
		}
	}
	q.finish()
	return nil
}

// settled runs Settled.
func (w *Write) settled() {
	if w.Settled != nil {
		w.Settled()
	}
}

// finish runs Committed and Settled. Its turn has come.
func (q *queued) finish() {
	defer q.settled()
	if q.ran != nil {
		defer close(q.ran)
	}
	q.Committed()
}

// abandon runs Committed and Settled on a goroutine of its own, since the caller does not wait for them.
func (w *writer) abandon(q *queued) {
	if q.Committed == nil && q.Settled == nil {
		return
	}
	w.mu.Lock()
	w.abandoned++
	w.mu.Unlock()
	go func() {
		if <-q.done; q.err != nil || q.Committed == nil {
			q.settled()
		} else {
			if q.turn != nil {
				<-q.turn
			}
			q.finish()
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		w.abandoned--
		w.idle.Broadcast()
	}()
}

// add queues a write, unless the writer is closed. It reports whether the caller has to lead.
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

// lead commits until the caller's own write is done; if more writes are queued, another goroutine takes over.
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

// take returns the next group. When nothing is queued it returns nil, and the caller leads no longer.
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

// more reports whether anything is queued. When nothing is, the caller leads no longer.
func (w *writer) more() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return !w.rest()
}

// rest ends the caller's lead if nothing is queued, and reports whether it did. The caller holds mu.
func (w *writer) rest() bool {
	if len(w.queue) > 0 {
		return false
	}
	w.busy = false
	w.idle.Broadcast()
	return true
}

// giveBack keeps the memory of a group for another queue.
func (w *writer) giveBack(group []*queued) {
	clear(group)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.spare == nil && cap(group) <= groupSize {
		w.spare = group[:0]
	}
}

// close refuses further writes, and returns when the queued ones are committed and their Committed functions that no
// caller waits for have run. It is idempotent.
func (w *writer) close() error {
	w.mu.Lock()
	again := w.closed
	w.closed = true
	for w.busy || w.abandoned > 0 {
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
			if q.applied && q.Aborted != nil {
				q.Aborted()
			}
		case q.Committed != nil && q.Sequence != nil:
			q.turn, q.ran = q.Sequence.last, make(chan struct{})
			q.Sequence.last = q.ran
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

// orFull returns err, wrapped in [errFull] if the disk is full.
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

// Tx is the transaction that a [Write] runs in. Only Apply may use it.
type Tx struct{ w *writer }

// apply runs one write of a group, in a savepoint unless it is the only one, so its failure affects no other write.
func (t *Tx) apply(q *queued, alone bool) error {
	if alone {
		q.run(t)
		return q.err
	}
	if err := t.exec("SAVEPOINT one"); err != nil {
		return fmt.Errorf("savepoint: %w", err)
	}
	if q.run(t); q.err != nil {
		if err := t.exec("ROLLBACK TO one"); err != nil {
			return fmt.Errorf("roll back to savepoint: %w", err)
		}
	}
	if err := t.exec("RELEASE one"); err != nil {
		return fmt.Errorf("release savepoint: %w", err)
	}
	return nil
}

// run runs Apply.
func (q *queued) run(t *Tx) {
	q.err = q.Apply(t)
	q.applied = q.err == nil
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
