package store

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"talaria/api"
)

// ErrTokenTaken means that the token belongs to another owner, or to one session.
var ErrTokenTaken = errors.New("this token belongs to another owner or to a session")

// PutToken makes token valid for owner. first marks the owner that runs the server. It fails with [ErrTokenTaken] rather
// than change what a token gives access to.
func (s *Store) PutToken(ctx context.Context, token, owner string, first bool) error {
	hash := sha256.Sum256([]byte(token))
	return s.Do(ctx, Write{Apply: func(t *Tx) error {
		err := t.one(`INSERT INTO tokens (hash, owner, first, created_at)
			SELECT ?1, ?2, ?3, ?4 WHERE NOT EXISTS (SELECT 1 FROM shares WHERE hash = ?1)
			ON CONFLICT (hash) DO UPDATE SET first = excluded.first WHERE owner = excluded.owner`,
			hash[:], owner, first, time.Now().UnixMilli())
		if errors.Is(err, ErrNotFound) {
			return ErrTokenTaken
		}
		return err
	}})
}

// Token describes a token, without the token itself.
type Token struct {
	ID        string // the beginning of its hash, in hexadecimal digits
	Owner     string
	First     bool // it belongs to the owner that runs the server
	CreatedAt int64
	UsedAt    *api.Time // nil before the first use
}

// tokenID is the id of the token with that hash.
func tokenID(hash []byte) string { return hex.EncodeToString(hash[:6]) }

// TokenID is the id that a token has in a list.
func TokenID(token string) string {
	hash := sha256.Sum256([]byte(token))
	return tokenID(hash[:])
}

// ListTokens returns all tokens, by owner, the oldest first.
func (s *Store) ListTokens(ctx context.Context) ([]Token, error) {
	rows, err := s.ro.QueryContext(ctx, `SELECT hash, owner, first, created_at, ifnull(last_used_at, 0) FROM tokens ORDER BY owner, created_at, hash`)
	if err != nil {
		return nil, fmt.Errorf("read tokens: %w", err)
	}
	defer rows.Close()
	var list []Token
	for rows.Next() {
		var one Token
		var hash []byte
		var used int64
		if err := rows.Scan(&hash, &one.Owner, &one.First, &one.CreatedAt, &used); err != nil {
			return nil, fmt.Errorf("read tokens: %w", err)
		}
		one.ID, one.UsedAt = tokenID(hash), usedAt(used)
		list = append(list, one)
	}
	return list, rows.Err()
}

// RevokeToken revokes the token with that id and ends its logins. It fails with [ErrNotFound] if there is none.
func (s *Store) RevokeToken(ctx context.Context, id string) error {
	return s.Do(ctx, Write{Apply: func(t *Tx) error {
		if err := t.one(`DELETE FROM tokens WHERE lower(hex(substr(hash, 1, 6))) = ?`, id); err != nil {
			return err
		}
		return t.countRevocation()
	}})
}

// Owner is whose token it is; ok is false for a token that nobody has.
func (s *Store) Owner(ctx context.Context, token string) (owner string, first, ok bool) {
	hash := sha256.Sum256([]byte(token))
	err := s.ro.QueryRowContext(ctx, `SELECT owner, first FROM tokens WHERE hash = ?`, hash[:]).Scan(&owner, &first)
	return owner, first, err == nil
}

// Boot describes the last server that ran on this state.
type Boot struct {
	First  bool   // there was none
	BootID string // of the machine, then
	Clean  bool   // it ended in order
	LastN  int64  // the number of the newest session that ever was
}

// Begin marks the state as in use by a server on the boot bootID, and returns how the last one left it.
func (s *Store) Begin(ctx context.Context, bootID string) (Boot, error) {
	var last Boot
	err := s.ro.QueryRowContext(ctx, `SELECT boot_id, clean, last_n FROM server WHERE id = 1`).Scan(
		&last.BootID, &last.Clean, &last.LastN)
	if errors.Is(err, sql.ErrNoRows) {
		last = Boot{First: true, Clean: true}
	} else if err != nil {
		return last, fmt.Errorf("read the last server: %w", err)
	}
	return last, s.Do(ctx, Write{Apply: func(t *Tx) error {
		return t.exec(`INSERT INTO server (id, boot_id, clean, last_n) VALUES (1, ?, 0, 0)
			ON CONFLICT (id) DO UPDATE SET boot_id = excluded.boot_id, clean = 0`, bootID)
	}})
}

// End marks that the server ended in order.
func (s *Store) End(ctx context.Context) error {
	return s.Do(ctx, Write{Apply: func(t *Tx) error { return t.exec(`UPDATE server SET clean = 1 WHERE id = 1`) }})
}
