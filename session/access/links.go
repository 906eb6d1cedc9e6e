package access

import (
	"context"
	"crypto/rand"
	"errors"
	"net/url"

	"github.com/google/uuid"

	"talaria/api"
	"talaria/store"
)

// maxShares is how many read-only links a session may have at once.
const maxShares = 100

// Share creates a token that may only read this session. Only this answer has its URL.
func (a *Access) Share(ctx context.Context) (api.Share, error) {
	there, err := a.cfg.Store.Shares(ctx, a.cfg.Session)
	if err != nil {
		return api.Share{}, a.cfg.ReadError(ctx, err)
	}
	if len(there) >= maxShares {
		return api.Share{}, api.Errorf(api.CodeLimitExceeded, "the session has %d shares; delete one first", maxShares)
	}
	token := "share-" + rand.Text()
	now := api.Now()
	made := store.Share{ID: uuid.Must(uuid.NewV7()).String(), CreatedAt: now.UnixMilli()}
	err = a.cfg.Commit(ctx, func(tx *store.Tx) error { return tx.InsertShare(a.cfg.Session, token, made) })
	if err != nil {
		return api.Share{}, err
	}
	return api.Share{ID: made.ID, URL: "/?token=" + url.QueryEscape(token), CreatedAt: now}, nil
}

// Shares lists the shares that were not revoked, newest first, without their URLs.
func (a *Access) Shares(ctx context.Context) ([]api.Share, error) {
	rows, err := a.cfg.Store.Shares(ctx, a.cfg.Session)
	if err != nil {
		return nil, a.cfg.ReadError(ctx, err)
	}
	list := make([]api.Share, len(rows))
	for i, row := range rows {
		list[i] = api.Share{ID: row.ID, CreatedAt: api.Millis(row.CreatedAt)}
	}
	return list, nil
}

// Revoke ends the validity of a share's token.
func (a *Access) Revoke(ctx context.Context, id string) error {
	err := a.cfg.Commit(ctx, func(tx *store.Tx) error { return tx.DeleteShare(a.cfg.Session, id) })
	if errors.Is(err, store.ErrNotFound) {
		return api.Errorf(api.CodeNotFound, "the session has no share %.80q", id)
	}
	return err
}
