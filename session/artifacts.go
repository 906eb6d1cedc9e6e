package session

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"talaria/api"
	"talaria/store"
)

// Artifacts lists what the session's executions made, newest first.
func (s *Session) Artifacts(ctx context.Context, q api.PageQuery) (api.Page[api.SessionArtifact], error) {
	return page(q, func(before int64, limit int) ([]api.SessionArtifact, []int64, error) {
		rows, err := s.m.cfg.Store.Artifacts(ctx, s.n, before, limit)
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

// OpenArtifact opens bytes that one of the owner's sessions refers to; the caller closes them.
func (m *Manager) OpenArtifact(ctx context.Context, owner, sha256 string) (*os.File, string, error) {
	mediaType, err := m.cfg.Store.PublicRef(ctx, owner, sha256)
	return m.openRef(mediaType, sha256, err)
}

// openRef opens the bytes of a reference that was looked up; err is the look-up's.
func (m *Manager) openRef(mediaType, sha256 string, err error) (*os.File, string, error) {
	missing := api.Errorf(api.CodeArtifactNotFound, "none of your sessions refers to the artifact %.80q", sha256)
	if errors.Is(err, store.ErrNotFound) {
		return nil, "", missing
	}
	if err != nil {
		return nil, "", err
	}
	f, _, err := m.cfg.Artifacts.Get(sha256)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, "", missing
	}
	return f, mediaType, err
}

// blob reads a blob of that size.
func (m *Manager) blob(sha256 string, size int64) ([]byte, error) {
	f, n, err := m.cfg.Artifacts.Get(sha256)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if n != size {
		return nil, fmt.Errorf("artifact %s has %d bytes, not %d", sha256, n, size)
	}
	b := make([]byte, n)
	_, err = io.ReadFull(f, b)
	return b, err
}

// sweepArtifacts removes blobs that no session refers to, at start and then every hour until ctx ends.
func (m *Manager) sweepArtifacts(ctx context.Context) {
	tick := time.NewTicker(time.Hour)
	defer tick.Stop()
	for {
		if err := m.sweepOnce(ctx); err != nil && ctx.Err() == nil {
			m.cfg.Log.Error("sweep artifacts", "error", err)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

func (m *Manager) sweepOnce(ctx context.Context) error {
	before := time.Now().Add(-time.Hour) // by then a commit has recorded everything that was put
	known, err := m.digests(ctx)
	if err != nil {
		return err
	}
	_, err = m.cfg.Artifacts.Sweep(ctx, before, func(d string) bool { return known[d] })
	return err
}

// digests returns what sessions refer to: in their logs, and in their checkpoints.
func (m *Manager) digests(ctx context.Context) (map[string]bool, error) {
	list, err := m.cfg.Store.AllDigests(ctx)
	if err != nil {
		return nil, err
	}
	known := make(map[string]bool, len(list))
	for _, d := range list {
		known[d] = true
	}
	return known, nil
}
