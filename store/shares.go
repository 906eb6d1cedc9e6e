package store

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"errors"
	"fmt"
)

// Share is a token that may only read one session.
type Share struct {
	ID        string
	CreatedAt int64
}

// InsertShare makes token valid for reading the session.
func (t *Tx) InsertShare(n int64, token string, share Share) error {
	hash := sha256.Sum256([]byte(token))
	return t.exec(`INSERT INTO shares (hash, id, session, created_at) VALUES (?, ?, ?, ?)`,
		hash[:], share.ID, n, share.CreatedAt)
}

// DeleteShare revokes the share's token. It returns [ErrNotFound] if the session has no such share.
func (t *Tx) DeleteShare(n int64, id string) error {
	return t.one(`DELETE FROM shares WHERE session = ? AND id = ? AND rights = ''`, n, id)
}

// Shares lists the session's shares, newest first.
func (s *Store) Shares(ctx context.Context, n int64) ([]Share, error) {
	rows, err := s.ro.QueryContext(ctx, `SELECT id, created_at FROM shares WHERE session = ? AND rights = '' ORDER BY created_at DESC, id DESC`, n)
	if err != nil {
		return nil, fmt.Errorf("read shares: %w", err)
	}
	defer rows.Close()
	var list []Share
	for rows.Next() {
		var one Share
		if err := rows.Scan(&one.ID, &one.CreatedAt); err != nil {
			return nil, fmt.Errorf("read shares: %w", err)
		}
		list = append(list, one)
	}
	return list, rows.Err()
}

// SessionRef returns the media type of a digest that the session refers to. It returns [ErrNotFound] if it does not.
func (s *Store) SessionRef(ctx context.Context, n int64, digest string) (mediaType string, err error) {
	err = s.ro.QueryRowContext(ctx, `SELECT media_type FROM refs WHERE digest = ? AND session = ? AND kind = ?`,
		digest, n, RefPublic).Scan(&mediaType)
	if errors.Is(err, sql.ErrNoRows) {
		err = ErrNotFound
	}
	return mediaType, err
}
