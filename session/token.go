package session

import (
	"context"
	"crypto/rand"
	"errors"
	"slices"
	"strings"
	"time"

	"talaria/api"
	"talaria/store"
)

// The bounds of session tokens.
const (
	maxTokens           = 1000 // of a session, at once
	defaultTokenSeconds = 3600
	maxTokenSeconds     = 365 * 24 * 3600
)

// Visit describes a client with a read-only link or a session token: it is not the owner, and may do what Rights say in
// one session.
type Visit struct {
	ShareID string
	Owner   string // of the session
	Session string // as the owner calls it
	Token   string
	Link    bool // a read-only link
	Rights  []api.Right
	EndsAt  time.Time // zero for a link
}

// May reports whether the visitor has a right.
func (v *Visit) May(right api.Right) bool { return slices.Contains(v.Rights, right) }

// Visit returns what a token allows in one session; ok is false for a token that is unknown or has expired.
func (m *Manager) Visit(ctx context.Context, token string) (v Visit, ok bool) {
	row, err := m.cfg.Store.Visitor(ctx, token)
	if err != nil {
		return v, false
	}
	v = Visit{ShareID: row.ID, Owner: row.Owner, Session: row.Session, Token: token, Link: row.Rights == "", Rights: []api.Right{api.RightRead}}
	if !v.Link {
		v.Rights, v.EndsAt = rightsOf(row.Rights), time.UnixMilli(row.EndsAt)
	}
	return v, true
}

func rightsOf(text string) []api.Right {
	var list []api.Right
	for one := range strings.SplitSeq(text, ",") {
		list = append(list, api.Right(one))
	}
	return list
}

// CreateToken creates a token for this session alone. Only this answer contains the token.
func (s *Session) CreateToken(ctx context.Context, req api.SessionTokenRequest) (api.SessionToken, error) {
	rights, seconds, err := checkToken(req)
	if err != nil {
		return api.SessionToken{}, err
	}
	there, err := s.m.cfg.Store.SessionTokens(ctx, s.n)
	if err != nil {
		return api.SessionToken{}, s.journal.readError(ctx, err)
	}
	if len(there) >= maxTokens {
		return api.SessionToken{}, api.Errorf(api.CodeLimitExceeded, "the session has %d tokens; revoke one, or wait until one expires", maxTokens)
	}
	now := api.Now()
	made := api.SessionToken{
		ID: newID(), Token: "ses-" + rand.Text(), Rights: rights, CreatedAt: now,
		ExpiresAt: api.Millis(now.UnixMilli() + int64(seconds*1000)),
	}
	names := make([]string, len(rights))
	for i, r := range rights {
		names[i] = string(r)
	}
	row := store.SessionToken{ID: made.ID, Rights: strings.Join(names, ","), CreatedAt: now.UnixMilli(), EndsAt: made.ExpiresAt.UnixMilli()}
	c := s.touched()
	c.also = func(tx *store.Tx) error { return tx.InsertSessionToken(s.n, made.Token, row) }
	return made, s.journal.commit(ctx, c)
}

// checkToken returns the rights in their own order, reading included.
func checkToken(req api.SessionTokenRequest) (rights []api.Right, seconds float64, err error) {
	for _, r := range req.Rights {
		if !slices.Contains(api.Rights, r) {
			return nil, 0, invalid("rights must be some of read, run, write and terminal, not %.80q", r)
		}
	}
	for _, r := range api.Rights {
		if r == api.RightRead || slices.Contains(req.Rights, r) {
			rights = append(rights, r)
		}
	}
	seconds = defaultTokenSeconds
	if req.ExpiresS != nil {
		seconds = *req.ExpiresS
	}
	if !(seconds >= 1 && seconds <= maxTokenSeconds) {
		return nil, 0, invalid("expires_s must be between 1 and %d", maxTokenSeconds)
	}
	return rights, seconds, nil
}

// Tokens lists the session's tokens that have not expired, newest first, without the tokens themselves.
func (s *Session) Tokens(ctx context.Context) ([]api.SessionToken, error) {
	rows, err := s.m.cfg.Store.SessionTokens(ctx, s.n)
	if err != nil {
		return nil, s.journal.readError(ctx, err)
	}
	list := make([]api.SessionToken, len(rows))
	for i, row := range rows {
		list[i] = api.SessionToken{ID: row.ID, Rights: rightsOf(row.Rights), CreatedAt: api.Millis(row.CreatedAt), ExpiresAt: api.Millis(row.EndsAt),
			LastUsedAt: row.UsedAt}
	}
	return list, nil
}

// RevokeToken ends the validity of a token of this session.
func (s *Session) RevokeToken(ctx context.Context, id string) error {
	c := s.touched()
	c.also = func(tx *store.Tx) error { return tx.DeleteSessionToken(s.n, id) }
	err := s.journal.commit(ctx, c)
	if errors.Is(err, store.ErrNotFound) {
		return api.Errorf(api.CodeNotFound, "the session has no token with the id %.80q", id)
	}
	return err
}
