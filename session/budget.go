package session

import (
	"context"
	"errors"

	"talaria/api"
	"talaria/store"
)

// errNoRoom means that limits.artifact_bytes leaves no room for an artifact.
var errNoRoom = errors.New("limits.artifact_bytes leaves no room")

// artifactDefault returns limits.artifact_bytes for sessions that ask for no other value.
func (m *Manager) artifactDefault(l api.Limits) int64 {
	if d := m.cfg.Defaults.ArtifactBytes; d > 0 {
		return d
	}
	n := 2 * l.DiskBytes
	if most := m.cfg.Ceilings.ArtifactBytes; most > 0 {
		n = min(n, most)
	}
	return n
}

// DefaultLimits returns the limits of a session that asks for none.
func (m *Manager) DefaultLimits() api.Limits { return m.complete(m.cfg.Defaults) }

// complete fills in limits that an earlier version did not store.
func (m *Manager) complete(l api.Limits) api.Limits {
	if l.DisplayBytes == 0 {
		l.DisplayBytes = m.cfg.Defaults.DisplayBytes
	}
	if l.LogBytes == 0 {
		l.LogBytes = m.cfg.Defaults.LogBytes
	}
	if l.ArtifactBytes == 0 {
		l.ArtifactBytes = m.artifactDefault(l)
	}
	return l
}

// keeps adds to what the session keeps. Called by the store's writer, once a change is committed.
func (s *Session) keeps(logBytes, artifactBytes int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.logBytes += logBytes
	s.artifactBytes += artifactBytes
}

// makeRoom makes room for an artifact of n bytes of disk space: it drops old versions of files, the oldest first. It
// reserves the room until the change that refers to the artifact is committed. It fails with [errNoRoom]. On the
// session's goroutine.
func (s *Session) makeRoom(ctx context.Context, n int64) error {
	s.mu.Lock()
	excess := s.artifactBytes + s.pendingArtifacts + n - s.limits.ArtifactBytes
	limit := s.limits.ArtifactBytes
	s.mu.Unlock()
	if n > limit {
		return errNoRoom
	}
	if excess > 0 {
		freed, err := s.dropOldVersions(ctx, excess)
		if err != nil {
			return err
		}
		if freed < excess {
			return errNoRoom
		}
	}
	s.pendingArtifacts += n
	return nil
}

// dropOldVersions drops as many of the oldest versions as take that much disk space, and returns how much they took.
func (s *Session) dropOldVersions(ctx context.Context, excess int64) (freed int64, err error) {
	var digests []string
	err = s.m.cfg.Store.OldVersions(ctx, s.n, func(r store.Ref) bool {
		digests = append(digests, r.Digest)
		freed += r.Bytes
		return freed < excess
	})
	if err != nil || freed < excess {
		return 0, err
	}
	if err := s.commit(context.WithoutCancel(ctx), change{drops: digests}); err != nil {
		return 0, err
	}
	s.m.removeUnused(ctx, digests)
	return freed, nil
}

// removeUnused removes the blobs that no session refers to.
func (m *Manager) removeUnused(ctx context.Context, digests []string) {
	ctx = context.WithoutCancel(ctx)
	for _, d := range digests {
		err := m.cfg.Artifacts.DeleteUnless(d, func() (bool, error) { return m.cfg.Store.Referenced(ctx, d) })
		if err != nil {
			m.cfg.Log.Warn("remove an unreferenced artifact", "error", err)
		}
	}
}

// keepExecutions is how many of its newest executions a session never forgets.
const keepExecutions = 100

// kept is how much the session keeps of its log and its artifacts. Guarded by Session.mu.
type kept struct {
	logID         string
	firstSeq      int64
	logBytes      int64 // of events and executions
	artifactBytes int64 // disk space
}

// trimLog shortens the log to limits.log_bytes less a sixteenth, so that there is some room again: its oldest finished
// executions lose their events. When all but the newest have lost them, the oldest are removed as a whole. On the
// session's goroutine.
func (s *Session) trimLog(ctx context.Context) error {
	first, excess := s.logExcess()
	if excess <= 0 {
		return nil
	}
	to, err := s.m.cfg.Store.TrimTo(ctx, s.n, first, excess)
	if err != nil {
		return err
	}
	for first < to && ctx.Err() == nil {
		var bytes int64
		var unused []string
		err := s.write(ctx, store.Write{
			Apply:     func(tx *store.Tx) (err error) { first, bytes, unused, err = tx.TrimLog(s.n, to); return err },
			Committed: func() { s.trimmed(first, bytes) },
		})
		if err != nil {
			return err
		}
		s.m.removeUnused(ctx, unused)
	}
	for ctx.Err() == nil {
		_, excess := s.logExcess()
		if excess <= 0 {
			return nil
		}
		var bytes int64
		err := s.write(ctx, store.Write{
			Apply: func(tx *store.Tx) (err error) {
				bytes, err = tx.ForgetExecutions(s.n, excess, keepExecutions)
				return err
			},
			Committed: func() { s.trimmed(0, bytes) },
		})
		if err != nil || bytes == 0 {
			return err
		}
	}
	return nil
}

// logExcess returns where the log begins, and how many of its bytes have to be removed.
func (s *Session) logExcess() (first, excess int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.gone || s.logBytes <= s.limits.LogBytes {
		return s.firstSeq, 0
	}
	return s.firstSeq, s.logBytes - s.limits.LogBytes + s.limits.LogBytes/16
}

func (s *Session) trimmed(first, bytes int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.firstSeq = max(s.firstSeq, first)
	s.logBytes -= bytes
}

// expired is the error for a reader that asks for events that the log no longer has.
func (s *Session) expired() error {
	first := s.FirstSeq()
	return api.Errorf(api.CodeEventsExpired, "the log begins at seq %d; ask for after=%d", first, first-1)
}
