// Package store keeps everything that must survive in one SQLite database: tokens, sessions, executions, events.
//
// There are two handles: one writer, which commits what is queued meanwhile in one transaction, and a pool of
// readers. Only this package imports the driver.
package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/gofrs/flock"
	_ "github.com/mattn/go-sqlite3"
	"github.com/pressly/goose/v3"

	"talaria/api"
	"talaria/migrations"
)

// ErrLocked means that another server is using the state directory.
var ErrLocked = errors.New("another server is using this state directory")

// ErrNotFound means that the row does not exist.
var ErrNotFound = errors.New("not found")

// errFull means that the disk is full and nothing was changed.
var errFull = api.Errorf(api.CodeDiskFull, "the server's disk is full, so nothing was changed; try again in a second, "+
	"and if that fails, delete files or sessions, or ask the operator for more space")

// Store is an open database. It is safe for concurrent use.
type Store struct {
	rw          *sql.DB
	ro          *reader
	lock        *flock.Flock // nil for a guest
	logPath     string       // of SQLite's write-ahead log
	writer      *writer
	checkpoints *checkpointer
	once        sync.Once
	closed      error
}

// lockPatience is how long a lock may outlive the server that had it: a child that was between fork and exec when the
// server was killed holds it until its exec.
const (
	lockPatience = 2 * time.Second
	lockRetry    = 10 * time.Millisecond
)

// Open opens the database in dir, alone: it fails with [ErrLocked] while another server has it. It creates and
// migrates the database as needed. ctx bounds the opening only.
func Open(ctx context.Context, dir string, log *slog.Logger) (*Store, error) {
	lock := flock.New(filepath.Join(dir, "lock"), flock.SetPermissions(0o600))
	patience, cancel := context.WithTimeout(ctx, lockPatience)
	defer cancel()
	switch _, err := lock.TryLockContext(patience, lockRetry); {
	case err == nil:
	case ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded):
		return nil, ErrLocked
	default:
		return nil, fmt.Errorf("lock the state directory: %w", err)
	}
	s, err := open(ctx, dir, log)
	if err != nil {
		return nil, errors.Join(err, lock.Unlock())
	}
	s.lock = lock
	return s, nil
}

// OpenGuest opens the database beside a server that may be running, for a short command.
func OpenGuest(ctx context.Context, dir string, log *slog.Logger) (*Store, error) {
	return open(ctx, dir, log)
}

func open(ctx context.Context, dir string, log *slog.Logger) (*Store, error) {
	path := filepath.Join(dir, "talaria.db")
	if err := touch(path); err != nil {
		return nil, err
	}
	rw, err := sql.Open("sqlite3", dsn(path, url.Values{"_txlock": {"immediate"}, "_cache_size": {"-16000"}}))
	if err != nil {
		return nil, fmt.Errorf("open the database: %w", err)
	}
	rw.SetMaxOpenConns(1)
	if err := migrate(ctx, rw); err != nil {
		return nil, errors.Join(err, rw.Close())
	}
	ro, err := sql.Open("sqlite3", dsn(path, url.Values{"mode": {"ro"}, "_query_only": {"1"}}))
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open the database: %w", err), rw.Close())
	}
	ro.SetMaxOpenConns(8)
	ro.SetMaxIdleConns(8)
	moving, err := sql.Open("sqlite3", dsn(path, nil))
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open the database: %w", err), rw.Close(), ro.Close())
	}
	s := &Store{rw: rw, ro: newReader(ro), checkpoints: newCheckpointer(moving, log), logPath: path + "-wal"}
	if s.writer, err = newWriter(rw, s.checkpoints.due, log); err != nil {
		return nil, errors.Join(err, s.checkpoints.close(), rw.Close(), ro.Close())
	}
	return s, nil
}

// touch creates the file with a private mode before SQLite would create it with a common one.
func touch(path string) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return fmt.Errorf("open the database: %w", err)
	}
	return f.Close()
}

func dsn(path string, more url.Values) string {
	q := url.Values{
		"_journal_mode": {"WAL"},
		"_synchronous":  {"NORMAL"},
		"_busy_timeout": {"10000"},
		"_foreign_keys": {"1"},
	}
	for k, v := range more {
		q[k] = v
	}
	return (&url.URL{Scheme: "file", Opaque: (&url.URL{Path: path}).EscapedPath(), RawQuery: q.Encode()}).String()
}

func migrate(ctx context.Context, db *sql.DB) error {
	provider, err := goose.NewProvider(goose.DialectSQLite3, db, fs.FS(migrations.FS))
	if err != nil {
		return fmt.Errorf("read the migrations: %w", err)
	}
	current, target, err := provider.GetVersions(ctx)
	if err != nil {
		return fmt.Errorf("read the schema's version: %w", err)
	}
	if current > target {
		return fmt.Errorf("the database has schema version %d, but this program supports up to %d: run a newer version of talaria", current, target)
	}
	if _, err := provider.Up(ctx); err != nil {
		return fmt.Errorf("migrate the database: %w", err)
	}
	return nil
}

// Sync flushes to the disk what has been committed, so that no power failure takes it back. It waits for the disk.
func (s *Store) Sync() error {
	f, err := os.Open(s.logPath) // what is no longer in the log was flushed when SQLite moved it
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("flush the database: %w", err)
	}
	return errors.Join(f.Sync(), f.Close())
}

// Close commits what is queued and closes the database. It is idempotent.
func (s *Store) Close() error {
	s.once.Do(func() {
		s.closed = errors.Join(s.writer.close(), s.checkpoints.close(), s.ro.close(), s.rw.Close())
	})
	err := s.closed
	if s.lock != nil {
		err = errors.Join(err, s.lock.Unlock())
	}
	return err
}
