package access

import (
	"context"
	"crypto/rand"
	"errors"
	"slices"
	"strings"

	"github.com/google/uuid"

	"talaria/api"
	"talaria/store"
)

// The bounds of session tokens.
const (
	maxTokens           = 1000 // of a session, at once
	defaultTokenSeconds = 3600
	maxTokenSeconds     = 365 * 24 * 3600
)

func rightsOf(text string) []api.Right {
	var list []api.Right
	for one := range strings.SplitSeq(text, ",") {
		list = append(list, api.Right(one))
	}
	return list
}

// CreateToken creates a token for this session alone. Only this answer contains the token.
func (a *Access) CreateToken(ctx context.Context, req api.SessionTokenRequest) (api.SessionToken, error) {
	rights, seconds, err := checkToken(req)
	if err != nil {
		return api.SessionToken{}, err
	}
	there, err := a.cfg.Store.SessionTokens(ctx, a.cfg.Session)
	if err != nil {
		return api.SessionToken{}, a.cfg.ReadError(ctx, err)
	}
	if len(there) >= maxTokens {
		return api.SessionToken{}, api.Errorf(api.CodeLimitExceeded, "the session has %d tokens; revoke one, or wait until one expires", maxTokens)
	}
	now := api.Now()
	made := api.SessionToken{
		ID: uuid.Must(uuid.NewV7()).String(), Token: "ses-" + rand.Text(), Rights: rights, CreatedAt: now,
		ExpiresAt: api.Millis(now.UnixMilli() + int64(seconds*1000)),
	}
	names := make([]string, len(rights))
	for i, r := range rights {
		names[i] = string(r)
	}
	row := store.SessionToken{ID: made.ID, Rights: strings.Join(names, ","), CreatedAt: now.UnixMilli(), EndsAt: made.ExpiresAt.UnixMilli()}
	return made, a.cfg.Commit(ctx, func(tx *store.Tx) error { return tx.InsertSessionToken(a.cfg.Session, made.Token, row) })
}

// checkToken returns the rights in their own order, reading included.
func checkToken(req api.SessionTokenRequest) (rights []api.Right, seconds float64, err error) {
	for _, r := range req.Rights {
		if !slices.Contains(api.Rights, r) {
			return nil, 0, api.Errorf(api.CodeInvalidRequest, "each of rights must be read, run, write or terminal, not %.80q", r)
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
		return nil, 0, api.Errorf(api.CodeInvalidRequest, "expires_s must be between 1 and %d", maxTokenSeconds)
	}
	return rights, seconds, nil
}

// Tokens lists the session's tokens that have not expired, newest first, without the tokens themselves.
func (a *Access) Tokens(ctx context.Context) ([]api.SessionToken, error) {
	rows, err := a.cfg.Store.SessionTokens(ctx, a.cfg.Session)
	if err != nil {
		return nil, a.cfg.ReadError(ctx, err)
	}
	list := make([]api.SessionToken, len(rows))
	for i, row := range rows {
		list[i] = api.SessionToken{ID: row.ID, Rights: rightsOf(row.Rights), CreatedAt: api.Millis(row.CreatedAt), ExpiresAt: api.Millis(row.EndsAt),
			LastUsedAt: row.UsedAt}
	}
	return list, nil
}

// RevokeToken ends the validity of a token of this session.
func (a *Access) RevokeToken(ctx context.Context, id string) error {
	err := a.cfg.Commit(ctx, func(tx *store.Tx) error { return tx.DeleteSessionToken(a.cfg.Session, id) })
	if errors.Is(err, store.ErrNotFound) {
		return api.Errorf(api.CodeNotFound, "the session has no token with the id %.80q", id)
	}
	return err
}
