package store

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"talaria/api"
)

// SessionToken is a token for one session; the database keeps only a hash of the token itself.
type SessionToken struct {
	ID        string
	Owner     string // of the session
	Session   string // as the owner calls it
	Rights    string // separated by commas
	CreatedAt int64
	EndsAt    int64
	UsedAt    *api.Time // nil before the first use
}

// InsertSessionToken makes token good for the session until it expires, and drops expired tokens of the session.
func (t *Tx) InsertSessionToken(n int64, token string, one SessionToken) error {
	if err := t.exec(`DELETE FROM shares WHERE session = ? AND ends_at <= ?`, n, one.CreatedAt); err != nil {
		return err
	}
	hash := sha256.Sum256([]byte(token))
	return t.exec(`INSERT INTO shares (hash, id, session, created_at, rights, ends_at) VALUES (?, ?, ?, ?, ?, ?)`,
		hash[:], one.ID, n, one.CreatedAt, one.Rights, one.EndsAt)
}

// DeleteSessionToken revokes a token of the session. [ErrNotFound] where the session has no such token.
func (t *Tx) DeleteSessionToken(n int64, id string) error {
	return t.one(`DELETE FROM shares WHERE session = ? AND id = ? AND rights != ''`, n, id)
}

// RevokeSessionToken revokes a token by its id, also for a running server. It fails with [ErrNotFound] if there is none.
func (s *Store) RevokeSessionToken(ctx context.Context, id string) error {
	return s.Do(ctx, Write{Apply: func(t *Tx) error {
		if err := t.one(`DELETE FROM shares WHERE id = ? AND rights != ''`, id); err != nil {
			return err
		}
		return t.countRevocation()
	}})
}

const selectSessionTokens = `SELECT sh.id, s.owner, s.client_id, sh.rights, sh.created_at, sh.ends_at, ifnull(sh.last_used_at, 0)
	FROM shares sh JOIN sessions s ON s.n = sh.session WHERE sh.rights != '' AND sh.ends_at > ? `

// SessionTokens are the session's tokens that have not expired, newest first.
func (s *Store) SessionTokens(ctx context.Context, n int64) ([]SessionToken, error) {
	rows, err := s.ro.QueryContext(ctx, selectSessionTokens+`AND sh.session = ? ORDER BY sh.created_at DESC, sh.id DESC`, time.Now().UnixMilli(), n)
	return scanSessionTokens(rows, err)
}

// AllSessionTokens are the tokens of all sessions that have not expired, by owner and session.
func (s *Store) AllSessionTokens(ctx context.Context) ([]SessionToken, error) {
	rows, err := s.ro.QueryContext(ctx, selectSessionTokens+`ORDER BY s.owner, s.client_id, sh.created_at`, time.Now().UnixMilli())
	return scanSessionTokens(rows, err)
}

func scanSessionTokens(rows *sql.Rows, err error) ([]SessionToken, error) {
	if err != nil {
		return nil, fmt.Errorf("read session tokens: %w", err)
	}
	defer rows.Close()
	var list []SessionToken
	for rows.Next() {
		var one SessionToken
		var used int64
		if err := rows.Scan(&one.ID, &one.Owner, &one.Session, &one.Rights, &one.CreatedAt, &one.EndsAt, &used); err != nil {
			return nil, fmt.Errorf("read session tokens: %w", err)
		}
		one.UsedAt = usedAt(used)
		list = append(list, one)
	}
	return list, rows.Err()
}

// Visitor is the read-only link (with no Rights) or the session token behind a token. EndsAt is 0 for a link.
// [ErrNotFound] for a token that is unknown or has expired.
func (s *Store) Visitor(ctx context.Context, token string) (one SessionToken, err error) {
	hash := sha256.Sum256([]byte(token))
	err = s.ro.QueryRowContext(ctx, `SELECT sh.id, s.owner, s.client_id, sh.rights, sh.created_at, ifnull(sh.ends_at, 0)
		FROM shares sh JOIN sessions s ON s.n = sh.session
		WHERE sh.hash = ? AND (sh.ends_at IS NULL OR sh.ends_at > ?)`, hash[:], time.Now().UnixMilli()).Scan(
		&one.ID, &one.Owner, &one.Session, &one.Rights, &one.CreatedAt, &one.EndsAt)
	if errors.Is(err, sql.ErrNoRows) {
		err = ErrNotFound
	}
	return one, err
}
