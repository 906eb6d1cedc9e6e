package store

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"time"
)

// maxLogins is how many logins of one token may exist; a new one ends the oldest.
const maxLogins = 1000

// Login makes a login of a token, and returns what its cookie holds; the database keeps a hash. [ErrNotFound] for a
// token that nobody has.
func (s *Store) Login(ctx context.Context, token string, until time.Time) (login string, err error) {
	login = rand.Text()
	hash, of, now := sha256.Sum256([]byte(login)), sha256.Sum256([]byte(token)), time.Now().UnixMilli()
	return login, s.Do(ctx, Write{Apply: func(t *Tx) error {
		if err := t.exec(`DELETE FROM logins WHERE ends_at <= ?`, now); err != nil {
			return err
		}
		if err := t.exec(`DELETE FROM logins WHERE hash IN
			(SELECT hash FROM logins WHERE token = ? ORDER BY created_at DESC LIMIT -1 OFFSET ?)`, of[:], maxLogins-1); err != nil {
			return err
		}
		return t.one(`INSERT INTO logins (hash, token, created_at, ends_at) SELECT ?, hash, ?, ? FROM tokens WHERE hash = ?`,
			hash[:], now, until.UnixMilli(), of[:])
	}})
}

// LoginOwner is whose login it is; ok is false for one that is not there any more.
func (s *Store) LoginOwner(ctx context.Context, login string) (owner string, first, ok bool) {
	hash := sha256.Sum256([]byte(login))
	err := s.ro.QueryRowContext(ctx, `SELECT t.owner, t.first FROM logins l JOIN tokens t ON t.hash = l.token
		WHERE l.hash = ? AND l.ends_at > ?`, hash[:], time.Now().UnixMilli()).Scan(&owner, &first)
	return owner, first, err == nil
}

// Logout ends a login. It is not an error if the login has ended already.
func (s *Store) Logout(ctx context.Context, login string) error {
	hash := sha256.Sum256([]byte(login))
	return s.Do(ctx, Write{Apply: func(t *Tx) error {
		if err := t.exec(`DELETE FROM logins WHERE hash = ?`, hash[:]); err != nil {
			return err
		}
		return t.countRevocation()
	}})
}

// Revocations returns a number that changes whenever any process revokes a token or a login.
func (s *Store) Revocations(ctx context.Context) (n int64, err error) {
	if err := s.ro.QueryRowContext(ctx, `SELECT n FROM revocations WHERE id = 1`).Scan(&n); err != nil {
		return 0, fmt.Errorf("read the revocations: %w", err)
	}
	return n, nil
}

func (t *Tx) countRevocation() error { return t.exec(`UPDATE revocations SET n = n + 1 WHERE id = 1`) }
