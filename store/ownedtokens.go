package store

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"talaria/api"
)

// OwnedTokens lists an owner's tokens that have not expired: those for all sessions, then those for one, the oldest first.
func (s *Store) OwnedTokens(ctx context.Context, owner string) ([]api.OwnedToken, error) {
	rows, err := s.ro.QueryContext(ctx, `
		SELECT 0 AS part, lower(hex(substr(hash, 1, 6))) AS id, '' AS session, '' AS rights, created_at, 0 AS ends_at, ifnull(last_used_at, 0)
			FROM tokens WHERE owner = ?
		UNION ALL
		SELECT 1, sh.id, s.client_id, sh.rights, sh.created_at, sh.ends_at, ifnull(sh.last_used_at, 0)
			FROM shares sh JOIN sessions s ON s.n = sh.session WHERE s.owner = ? AND sh.rights != '' AND sh.ends_at > ?
		ORDER BY part, created_at, id`, owner, owner, time.Now().UnixMilli())
	if err != nil {
		return nil, fmt.Errorf("read the tokens of an owner: %w", err)
	}
	defer rows.Close()
	list := []api.OwnedToken{}
	for rows.Next() {
		var one api.OwnedToken
		var part int
		var rights string
		var created, ends, used int64
		if err := rows.Scan(&part, &one.ID, &one.Session, &rights, &created, &ends, &used); err != nil {
			return nil, fmt.Errorf("read the tokens of an owner: %w", err)
		}
		one.CreatedAt, one.LastUsedAt = api.Millis(created), usedAt(used)
		if one.Session != "" {
			at := api.Millis(ends)
			one.ExpiresAt = &at
			for right := range strings.SplitSeq(rights, ",") {
				one.Rights = append(one.Rights, api.Right(right))
			}
		}
		list = append(list, one)
	}
	return list, rows.Err()
}

// RevokeOwned revokes the owner's token with that id, of either kind, and ends its logins. found is false if the owner
// has no such token.
func (s *Store) RevokeOwned(ctx context.Context, owner, id string) (found bool, err error) {
	err = s.Do(ctx, Write{Apply: func(t *Tx) error {
		err := t.one(`DELETE FROM tokens WHERE owner = ? AND lower(hex(substr(hash, 1, 6))) = ?`, owner, id)
		if errors.Is(err, ErrNotFound) {
			err = t.one(`DELETE FROM shares WHERE id = ? AND rights != ''
				AND session IN (SELECT n FROM sessions WHERE owner = ?)`, id, owner)
		}
		if err != nil {
			return err
		}
		return t.countRevocation()
	}})
	if errors.Is(err, ErrNotFound) {
		return false, nil
	}
	return err == nil, err
}
