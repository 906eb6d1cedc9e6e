package store

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"errors"
	"fmt"
	"time"
)

// PutToken makes token good for owner. first marks the owner who runs the server.
func (s *Store) PutToken(ctx context.Context, token, owner string, first bool) error {
	hash := sha256.Sum256([]byte(token))
	return s.Do(ctx, Write{Apply: func(t *Tx) error {
		return t.exec(`INSERT INTO tokens (hash, owner, first, created_at) VALUES (?, ?, ?, ?)
			ON CONFLICT (hash) DO UPDATE SET owner = excluded.owner, first = excluded.first`,
			hash[:], owner, first, time.Now().UnixMilli())
	}})
}

// DeleteToken makes the token good for nobody.
func (s *Store) DeleteToken(ctx context.Context, token string) error {
	hash := sha256.Sum256([]byte(token))
	return s.Do(ctx, Write{Apply: func(t *Tx) error { return t.exec(`DELETE FROM tokens WHERE hash = ?`, hash[:]) }})
}

// Owner is whose token it is; ok is false for a token that nobody has.
func (s *Store) Owner(ctx context.Context, token string) (owner string, first, ok bool) {
	hash := sha256.Sum256([]byte(token))
	err := s.ro.QueryRowContext(ctx, `SELECT owner, first FROM tokens WHERE hash = ?`, hash[:]).Scan(&owner, &first)
	return owner, first, err == nil
}

// Boot is what is known of the last server that ran on this state.
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
