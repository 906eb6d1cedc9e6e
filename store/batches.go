package store

import (
	"context"
	"database/sql"
	"errors"

	"talaria/api"
)

// Batch is a row of batches.
type Batch struct {
	N           int64
	ID          string
	Owner       string
	Status      api.BatchStatus
	Reason      string // why it was cancelled; "": it was not
	Concurrency int64
	Deadline    *int64
	Total       int64
	Open        int64 // items that have not ended
	LastSeq     int64
	CreatedAt   int64
	StartedAt   *int64
	FinishedAt  *int64
}

// BatchItem is a row of batch_items. Code and Files are empty once it has ended.
type BatchItem struct {
	Index     int
	Session   string // the id that clients use
	Fresh     bool   // the session is made for the item
	ForkOf    string // as a fork of this one; "": of none
	Code      string
	Files     map[string]api.BatchFile
	Status    api.ExecutionStatus
	Execution *api.BatchExecution
	Error     *api.Error
	Discard   Discard
	StartedAt *int64
}

// Discard is what becomes of the session that was made for an item.
type Discard int

// What becomes of a session.
const (
	DiscardNot Discard = iota
	DiscardDue
	DiscardDone
)

// BatchEvent is a change of a batch, if Item is nil, or of one of its items, as it was then.
type BatchEvent struct {
	Seq    int64
	At     int64
	Status string
	Reason string     // of the batch, with its end
	Item   *BatchItem // without its code and files
}

const batchColumns = `n, id, owner, status, reason, concurrency, deadline, total, open, last_seq, created_at, started_at, finished_at`

func scanBatch(scan func(...any) error) (b Batch, err error) {
	err = scan(&b.N, &b.ID, &b.Owner, &b.Status, &b.Reason, &b.Concurrency, &b.Deadline, &b.Total, &b.Open, &b.LastSeq,
		&b.CreatedAt, &b.StartedAt, &b.FinishedAt)
	if errors.Is(err, sql.ErrNoRows) {
		err = ErrNotFound
	}
	return b, err
}

// InsertBatch adds a batch with all its items, and returns its number. All are queued, and the batch has its first event.
func (t *Tx) InsertBatch(b Batch, items []BatchItem) (int64, error) {
	res, err := t.result(`INSERT INTO batches (id, owner, status, concurrency, deadline, total, open, last_seq, created_at)
		VALUES (?, ?, ?, ?, ?, ?, ?, 1, ?)`, b.ID, b.Owner, api.BatchQueued, b.Concurrency, b.Deadline, len(items), len(items), b.CreatedAt)
	if err != nil {
		return 0, err
	}
	n, err := res.LastInsertId()
	if err != nil {
		return 0, err
	}
	for _, item := range items {
		var files any
		if len(item.Files) > 0 {
			files = asJSON(&item.Files)
		}
		err := t.exec(`INSERT INTO batch_items (batch, i, session, fresh, fork_of, code, files, status) VALUES (?, ?, ?, ?, ?, ?, ?, ?)`,
			n, item.Index, item.Session, item.Fresh, item.ForkOf, item.Code, files, api.StatusQueued)
		if err != nil {
			return 0, err
		}
	}
	return n, nil
}

// ForgetBatches removes the owner's batches that have ended, but for the newest keep of them.
func (t *Tx) ForgetBatches(owner string, keep int) error {
	return t.exec(`DELETE FROM batches WHERE owner = ?1 AND finished_at IS NOT NULL AND n <= coalesce((SELECT n FROM batches
		WHERE owner = ?1 AND finished_at IS NOT NULL ORDER BY n DESC LIMIT 1 OFFSET ?2), 0)`, owner, keep)
}

// nextBatchSeq gives the batch's next event its place.
func (t *Tx) nextBatchSeq(n int64) (seq int64, err error) {
	row, err := t.row(`UPDATE batches SET last_seq = last_seq + 1 WHERE n = ? RETURNING last_seq`, n)
	if err != nil {
		return 0, err
	}
	return seq, row.Scan(&seq)
}

// StartBatchItem writes that the item's session has its execution. The first item starts the batch.
func (t *Tx) StartBatchItem(n int64, index int, at int64) error {
	seq, err := t.nextBatchSeq(n)
	if err != nil {
		return err
	}
	res, err := t.result(`UPDATE batches SET status = ?, started_at = ?, started_seq = ? WHERE n = ? AND started_at IS NULL`,
		api.BatchRunning, at, seq, n)
	if err != nil {
		return err
	}
	if first, err := res.RowsAffected(); err != nil {
		return err
	} else if first > 0 {
		if seq, err = t.nextBatchSeq(n); err != nil {
			return err
		}
	}
	return t.one(`UPDATE batch_items SET status = ?, started_at = ?, started_seq = ? WHERE batch = ? AND i = ?`,
		api.StatusRunning, at, seq, n, index)
}

// FinishBatchItem writes how an item ended: its Status, Execution, Error and Discard. It reports whether the batch has
// ended with it.
func (t *Tx) FinishBatchItem(n int64, item BatchItem, at int64) (last bool, err error) {
	seq, err := t.nextBatchSeq(n)
	if err != nil {
		return false, err
	}
	execution, err := nullableJSON(item.Execution)
	if err != nil {
		return false, err
	}
	failure, err := nullableJSON(item.Error)
	if err != nil {
		return false, err
	}
	err = t.one(`UPDATE batch_items SET status = ?, execution = ?, error = ?, discard = ?, code = '', files = NULL, finished_at = ?,
		finished_seq = ? WHERE batch = ? AND i = ? AND finished_at IS NULL`,
		item.Status, execution, failure, item.Discard, at, seq, n, item.Index)
	if err != nil {
		return false, err
	}
	row, err := t.row(`UPDATE batches SET open = open - 1 WHERE n = ? RETURNING open`, n)
	if err != nil {
		return false, err
	}
	var open int64
	if err := row.Scan(&open); err != nil || open > 0 {
		return false, err
	}
	return true, t.one(`UPDATE batches SET status = iif(reason = '', ?, ?), finished_at = ?, last_seq = last_seq + 1 WHERE n = ?`,
		api.BatchDone, api.BatchCancelled, at, n)
}

// CancelBatch writes why a batch that has not ended is cancelled. The first reason stays.
func (t *Tx) CancelBatch(n int64, reason string) error {
	return t.exec(`UPDATE batches SET reason = ? WHERE n = ? AND reason = '' AND finished_at IS NULL`, reason, n)
}

// DiscardedBatchSession writes that the session of an item, which was due to be deleted, is gone.
func (t *Tx) DiscardedBatchSession(n int64, index int) error {
	return t.exec(`UPDATE batch_items SET discard = ? WHERE batch = ? AND i = ? AND discard = ?`, DiscardDone, n, index, DiscardDue)
}

// Batch returns the owner's batch with that id.
func (s *Store) Batch(ctx context.Context, owner, id string) (Batch, error) {
	return scanBatch(s.ro.QueryRowContext(ctx, `SELECT `+batchColumns+` FROM batches WHERE id = ? AND owner = ?`, id, owner).Scan)
}

// Batches lists the owner's batches, newest first, from below before (0: from the newest).
func (s *Store) Batches(ctx context.Context, owner string, before int64, limit int) ([]Batch, error) {
	return s.batches(ctx, `WHERE owner = ? AND (? = 0 OR n < ?) ORDER BY n DESC LIMIT ?`, owner, before, before, limit)
}

// OpenBatches lists all owners' batches that have not ended, oldest first.
func (s *Store) OpenBatches(ctx context.Context) ([]Batch, error) {
	return s.batches(ctx, `WHERE finished_at IS NULL ORDER BY n`)
}

func (s *Store) batches(ctx context.Context, rest string, args ...any) ([]Batch, error) {
	rows, err := s.ro.QueryContext(ctx, `SELECT `+batchColumns+` FROM batches `+rest, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var list []Batch
	for rows.Next() {
		b, err := scanBatch(rows.Scan)
		if err != nil {
			return nil, err
		}
		list = append(list, b)
	}
	return list, rows.Err()
}

// BatchItem returns an item with its code and files.
func (s *Store) BatchItem(ctx context.Context, n int64, index int) (item BatchItem, err error) {
	item.Index = index
	err = s.ro.QueryRowContext(ctx, `SELECT session, fresh, fork_of, code, files, status, started_at FROM batch_items WHERE batch = ? AND i = ?`, n, index).
		Scan(&item.Session, &item.Fresh, &item.ForkOf, &item.Code, asJSON(&item.Files), &item.Status, &item.StartedAt)
	if errors.Is(err, sql.ErrNoRows) {
		err = ErrNotFound
	}
	return item, err
}

// BatchItems calls found with each item of a batch, by index and without code and files; with open, only with those that
// have not ended.
func (s *Store) BatchItems(ctx context.Context, n int64, open bool, found func(BatchItem)) error {
	rows, err := s.ro.QueryContext(ctx, `SELECT i, session, fresh, status, execution, error, discard, started_at FROM batch_items
		WHERE batch = ? AND (? = 0 OR finished_at IS NULL) ORDER BY i`, n, open)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var item BatchItem
		err := rows.Scan(&item.Index, &item.Session, &item.Fresh, &item.Status, asJSON(&item.Execution), asJSON(&item.Error),
			&item.Discard, &item.StartedAt)
		if err != nil {
			return err
		}
		found(item)
	}
	return rows.Err()
}

// BatchEvents lists the events of a batch after a position, in order.
func (s *Store) BatchEvents(ctx context.Context, n, after int64, limit int) ([]BatchEvent, error) {
	rows, err := s.ro.QueryContext(ctx, `SELECT * FROM (
			SELECT 1 AS seq, created_at, ?4, '', -1, '', 0, NULL, NULL, 0, NULL FROM batches WHERE n = ?1
			UNION ALL SELECT started_seq, started_at, ?5, '', -1, '', 0, NULL, NULL, 0, NULL FROM batches WHERE n = ?1 AND started_seq IS NOT NULL
			UNION ALL SELECT last_seq, finished_at, status, reason, -1, '', 0, NULL, NULL, 0, NULL FROM batches WHERE n = ?1 AND finished_at IS NOT NULL
			UNION ALL SELECT started_seq, started_at, ?6, '', i, session, fresh, NULL, NULL, 0, started_at FROM batch_items
				WHERE batch = ?1 AND started_seq > ?2
			UNION ALL SELECT finished_seq, finished_at, status, '', i, session, fresh, execution, error, discard, started_at FROM batch_items
				WHERE batch = ?1 AND finished_seq > ?2
		) WHERE seq > ?2 ORDER BY seq LIMIT ?3`, n, after, limit, api.BatchQueued, api.BatchRunning, api.StatusRunning)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var list []BatchEvent
	for rows.Next() {
		var e BatchEvent
		var item BatchItem
		err := rows.Scan(&e.Seq, &e.At, &e.Status, &e.Reason, &item.Index, &item.Session, &item.Fresh, asJSON(&item.Execution), asJSON(&item.Error),
			&item.Discard, &item.StartedAt)
		if err != nil {
			return nil, err
		}
		if item.Status = api.ExecutionStatus(e.Status); item.Index >= 0 {
			e.Item = &item
		}
		list = append(list, e)
	}
	return list, rows.Err()
}

// BatchSession is a session that was made for an item of a batch.
type BatchSession struct {
	Batch   int64
	Index   int
	Owner   string
	Session string
}

// DiscardableBatchSessions lists the sessions of items that have ended and that are to be deleted.
func (s *Store) DiscardableBatchSessions(ctx context.Context) ([]BatchSession, error) {
	rows, err := s.ro.QueryContext(ctx, `SELECT i.batch, i.i, b.owner, i.session FROM batch_items i JOIN batches b ON b.n = i.batch
		WHERE i.discard = 1`)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var list []BatchSession
	for rows.Next() {
		var one BatchSession
		if err := rows.Scan(&one.Batch, &one.Index, &one.Owner, &one.Session); err != nil {
			return nil, err
		}
		list = append(list, one)
	}
	return list, rows.Err()
}
