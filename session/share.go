package session

import (
	"context"
	"crypto/rand"
	"errors"
	"net/url"
	"os"

	"talaria/api"
	"talaria/store"
)

// maxShares is how many read-only links a session may have at once.
const maxShares = 100

// Share creates a token that may only read this session. Only this answer has its URL.
func (s *Session) Share(ctx context.Context) (api.Share, error) {
	there, err := s.m.cfg.Store.Shares(ctx, s.n)
	if err != nil {
		return api.Share{}, s.journal.readError(ctx, err)
	}
	if len(there) >= maxShares {
		return api.Share{}, api.Errorf(api.CodeLimitExceeded, "the session has %d shares; delete one first", maxShares)
	}
	token := "share-" + rand.Text()
	now := api.Now()
	made := store.Share{ID: newID(), CreatedAt: now.UnixMilli()}
	c := s.touched()
	c.also = func(tx *store.Tx) error { return tx.InsertShare(s.n, token, made) }
	if err := s.journal.commit(ctx, c); err != nil {
		return api.Share{}, err
	}
	return api.Share{ID: made.ID, URL: "/?token=" + url.QueryEscape(token), CreatedAt: now}, nil
}

// Shares lists the shares that were not revoked, newest first, without their URLs.
func (s *Session) Shares(ctx context.Context) ([]api.Share, error) {
	rows, err := s.m.cfg.Store.Shares(ctx, s.n)
	if err != nil {
		return nil, s.journal.readError(ctx, err)
	}
	list := make([]api.Share, len(rows))
	for i, row := range rows {
		list[i] = api.Share{ID: row.ID, CreatedAt: api.Millis(row.CreatedAt)}
	}
	return list, nil
}

// Revoke ends the validity of a share's token.
func (s *Session) Revoke(ctx context.Context, id string) error {
	c := s.touched()
	c.also = func(tx *store.Tx) error { return tx.DeleteShare(s.n, id) }
	err := s.journal.commit(ctx, c)
	if errors.Is(err, store.ErrNotFound) {
		return api.Errorf(api.CodeNotFound, "the session has no share %.80q", id)
	}
	return err
}

// OpenArtifact opens bytes that this session refers to; the caller closes them.
func (s *Session) OpenArtifact(ctx context.Context, sha256 string) (*os.File, string, error) {
	mediaType, err := s.m.cfg.Store.SessionRef(ctx, s.n, sha256)
	return s.m.blobs.open(mediaType, sha256, err)
}
