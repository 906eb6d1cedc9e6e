package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"talaria/api"
)

// Document returns the session's document as it was saved; its Revision is 0 if none was.
func (s *Store) Document(ctx context.Context, n int64) (api.Document, error) {
	var d api.Document
	err := s.ro.QueryRowContext(ctx, `SELECT revision, title, through, cells FROM documents WHERE session = ?`, n).Scan(
		&d.Revision, &d.Title, &d.Through, asJSON(&d.Cells))
	if errors.Is(err, sql.ErrNoRows) {
		return api.Document{}, nil
	}
	if err != nil {
		return d, fmt.Errorf("read a document: %w", err)
	}
	return d, nil
}

// PutDocument saves the document as the revision after d.Revision. It returns [ErrNotFound] if the saved one has
// another revision.
func (t *Tx) PutDocument(n int64, d api.Document) error {
	if d.Revision != 0 {
		return t.one(`UPDATE documents SET revision = revision + 1, title = ?, through = ?, cells = ?
			WHERE session = ? AND revision = ?`, d.Title, d.Through, asJSON(&d.Cells), n, d.Revision)
	}
	return t.one(`INSERT INTO documents (session, revision, title, through, cells) VALUES (?, 1, ?, ?, ?)
		ON CONFLICT (session) DO NOTHING`, n, d.Title, d.Through, asJSON(&d.Cells))
}

// HiddenThrough is the seq up to which an imported notebook stands in place of executions, and whether there is one.
func (s *Store) HiddenThrough(ctx context.Context, n int64) (seq int64, imported bool, err error) {
	err = s.ro.QueryRowContext(ctx, `SELECT notebook IS NOT NULL,
			coalesce((SELECT max(queued_seq) FROM executions e WHERE e.session = s.n AND e.n <= s.notebook_n), 0)
		FROM sessions s WHERE s.n = ?`, n).Scan(&imported, &seq)
	return seq, imported, err
}

// QueuedAfter returns the ids of the executions that were queued after a position in the log.
func (s *Store) QueuedAfter(ctx context.Context, n, seq int64) (map[string]bool, error) {
	rows, err := s.ro.QueryContext(ctx, `SELECT id FROM executions WHERE session = ? AND queued_seq > ?`, n, seq)
	if err != nil {
		return nil, fmt.Errorf("read executions: %w", err)
	}
	defer rows.Close()
	ids := map[string]bool{}
	for rows.Next() {
		var id string
		if err := rows.Scan(&id); err != nil {
			return nil, fmt.Errorf("read executions: %w", err)
		}
		ids[id] = true
	}
	return ids, rows.Err()
}
