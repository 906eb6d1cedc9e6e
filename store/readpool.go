package store

import (
	"context"
	"database/sql"
	"errors"
	"sync"
)

// maxPrepared bounds the statements that a reader keeps. Those whose text depends on the request are few.
const maxPrepared = 256

// reader reads the database on several connections. It prepares each statement once on each connection. It is safe for concurrent
// use.
type reader struct {
	db *sql.DB

	mu    sync.RWMutex // guards stmts
	stmts map[string]*sql.Stmt
}

func newReader(db *sql.DB) *reader { return &reader{db: db, stmts: map[string]*sql.Stmt{}} }

// QueryContext is that of [sql.DB].
func (r *reader) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	if stmt := r.stmt(ctx, query); stmt != nil {
		return stmt.QueryContext(ctx, args...)
	}
	return r.db.QueryContext(ctx, query, args...)
}

// QueryRowContext is that of [sql.DB].
func (r *reader) QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row {
	if stmt := r.stmt(ctx, query); stmt != nil {
		return stmt.QueryRowContext(ctx, args...)
	}
	return r.db.QueryRowContext(ctx, query, args...)
}

// stmt returns the prepared statement, or nil if there is none: the caller's query then fails with the reason, or works without.
func (r *reader) stmt(ctx context.Context, query string) *sql.Stmt {
	r.mu.RLock()
	stmt, full := r.stmts[query], len(r.stmts) >= maxPrepared
	r.mu.RUnlock()
	if stmt != nil || full {
		return stmt
	}
	made, err := r.db.PrepareContext(ctx, query)
	if err != nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if stmt := r.stmts[query]; stmt != nil { // another goroutine was faster
		_ = made.Close()
		return stmt
	}
	r.stmts[query] = made
	return made
}

func (r *reader) close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	var errs []error
	for _, stmt := range r.stmts {
		errs = append(errs, stmt.Close())
	}
	clear(r.stmts)
	return errors.Join(append(errs, r.db.Close())...)
}
