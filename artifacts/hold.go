package artifacts

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync"
)

// Hold protects blobs from removal between their put and the moment when the caller has recorded its reference to
// them. It is safe for concurrent use. A nil Hold protects nothing.
type Hold struct {
	store *Store

	mu      sync.Mutex // guards digests
	digests []string
}

// Hold starts a Hold, which the caller releases.
func (s *Store) Hold() *Hold { return &Hold{store: s} }

// Put is [Store.Put]. The blob stays until the release.
func (h *Hold) Put(ctx context.Context, r io.Reader) (Blob, error) { return h.store.put(ctx, r, h) }

// PutBytes is [Store.PutBytes]. The blob stays until the release.
func (h *Hold) PutBytes(ctx context.Context, b []byte) (Blob, error) {
	return h.store.putBytes(ctx, b, h)
}

// Keep keeps a blob that is stored until the release. It reports false if there is none.
func (h *Hold) Keep(digest string) (bool, error) {
	path, err := h.store.path(digest)
	if err != nil {
		return false, err
	}
	l := h.store.lockOf(digest)
	l.Lock()
	defer l.Unlock()
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		return false, nil
	} else if err != nil {
		return false, fmt.Errorf("look for artifact %s: %w", digest, withoutPath(err))
	}
	h.add(digest)
	return true, nil
}

// Release lets go of everything that was put or kept so far. It may be called again after further ones.
func (h *Hold) Release() {
	if h == nil {
		return
	}
	h.mu.Lock()
	digests := h.digests
	h.digests = nil
	h.mu.Unlock()
	if len(digests) == 0 {
		return
	}
	h.store.mu.Lock()
	defer h.store.mu.Unlock()
	for _, d := range digests {
		if h.store.held[d]--; h.store.held[d] == 0 {
			delete(h.store.held, d)
		}
	}
}

// add protects a blob. The caller has the lock of its digest.
func (h *Hold) add(digest string) {
	if h == nil {
		return
	}
	h.store.mu.Lock()
	h.store.held[digest]++
	h.store.mu.Unlock()
	h.mu.Lock()
	h.digests = append(h.digests, digest)
	h.mu.Unlock()
}

func (s *Store) isHeld(digest string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.held[digest] > 0
}
