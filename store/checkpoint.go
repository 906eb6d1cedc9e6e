package store

import (
	"context"
	"database/sql"
	"log/slog"
	"sync/atomic"
)

const (
	// checkpointEvery is after how many writes SQLite's log is moved into the database.
	checkpointEvery = 500
	// maxLogPages is how long that log may get, in pages, before writers wait for it to be moved.
	maxLogPages = 64 << 20 / 4096
)

// checkpointer moves SQLite's write-ahead log into the database concurrently with the writer, since that waits for the
// disk and a commit need not. The writer has to move it itself only if it is faster for a long time.
type checkpointer struct {
	db    *sql.DB
	log   *slog.Logger
	pages atomic.Int64  // in the log, when last looked at
	wake  chan struct{} // has room for one value
	ended chan struct{}
}

func newCheckpointer(db *sql.DB, log *slog.Logger) *checkpointer {
	db.SetMaxOpenConns(1)
	c := &checkpointer{db: db, log: log, wake: make(chan struct{}, 1), ended: make(chan struct{})}
	go c.run()
	return c
}

// due is called by the writer between two commits, and asks for a checkpoint.
func (c *checkpointer) due(ctx context.Context, writer *sql.Conn) {
	if c.tooLong() {
		if _, err := writer.ExecContext(ctx, `PRAGMA wal_checkpoint(TRUNCATE)`); err != nil {
			c.log.Error("checkpoint the database", "error", err)
		}
		c.pages.Store(0)
		return
	}
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

func (c *checkpointer) run() {
	defer close(c.ended)
	for range c.wake {
		var busy, pages, moved int64
		if err := c.db.QueryRow(`PRAGMA wal_checkpoint(PASSIVE)`).Scan(&busy, &pages, &moved); err != nil {
			c.log.Error("checkpoint the database", "error", err)
		}
		c.pages.Store(pages)
	}
}

// tooLong reports whether the log has grown so long that the writer has to move it itself.
func (c *checkpointer) tooLong() bool { return c.pages.Load() > maxLogPages }

// close is called once the writer has ended.
func (c *checkpointer) close() error {
	close(c.wake)
	<-c.ended
	return c.db.Close()
}
