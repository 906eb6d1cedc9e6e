package store

import (
	"context"
	"crypto/sha256"
	"time"

	"talaria/api"
)

// NoteUses records when tokens were last used. A key of uses is the token of an owner or for one session, or what the
// cookie of a login holds; a login counts as a use of its token. Keys that are no longer valid are ignored.
func (s *Store) NoteUses(ctx context.Context, uses map[string]time.Time) error {
	return s.Do(ctx, Write{Apply: func(t *Tx) error {
		for secret, at := range uses {
			sum := sha256.Sum256([]byte(secret))
			if err := t.noteUse(sum[:], at.UnixMilli()); err != nil {
				return err
			}
		}
		return nil
	}})
}

func (t *Tx) noteUse(hash []byte, at int64) error {
	if err := t.exec(`UPDATE tokens SET last_used_at = ? WHERE hash IN (SELECT ? UNION ALL SELECT token FROM logins WHERE hash = ?)`,
		at, hash, hash); err != nil {
		return err
	}
	return t.exec(`UPDATE shares SET last_used_at = ? WHERE hash = ?`, at, hash)
}

// usedAt is a column last_used_at, read as 0 where it is NULL, as the API shows it.
func usedAt(ms int64) *api.Time {
	if ms == 0 {
		return nil
	}
	at := api.Millis(ms)
	return &at
}
