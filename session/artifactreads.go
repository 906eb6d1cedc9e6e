package session

import (
	"context"
	"os"

	"talaria/api"
)

// Artifacts lists what the session's executions made, newest first.
func (x *Executions) Artifacts(ctx context.Context, q api.PageQuery) (api.Page[api.SessionArtifact], error) {
	return PageOf(q, func(before int64, limit int) ([]api.SessionArtifact, []int64, error) {
		rows, err := x.journal.store.Artifacts(ctx, x.journal.n, before, limit)
		if err != nil {
			return nil, nil, err
		}
		var items []api.SessionArtifact
		var numbers []int64
		for _, r := range rows {
			a := api.SessionArtifact{
				Artifact:    api.Artifact{Path: r.Path, Change: r.Change, Size: r.Size, MediaType: r.MediaType, SHA256: r.SHA256},
				ExecutionID: r.ExecutionID, Seq: r.Seq, Time: api.Millis(r.Time),
			}
			a.Omitted = r.Change != api.Deleted && !r.Kept
			if r.Kept {
				a.URL = api.ArtifactURL(r.SHA256)
			}
			items, numbers = append(items, a), append(numbers, r.Seq)
		}
		return items, numbers, nil
	})
}

// OpenArtifact opens bytes that this session refers to; the caller closes them.
func (s *Session) OpenArtifact(ctx context.Context, sha256 string) (*os.File, string, error) {
	mediaType, err := s.m.cfg.Store.SessionRef(ctx, s.n, sha256)
	return s.m.blobs.open(mediaType, sha256, err)
}

// OpenArtifact opens bytes that one of the owner's sessions refers to; the caller closes them.
func (m *Manager) OpenArtifact(ctx context.Context, owner, sha256 string) (*os.File, string, error) {
	mediaType, err := m.cfg.Store.PublicRef(ctx, owner, sha256)
	return m.blobs.open(mediaType, sha256, err)
}
