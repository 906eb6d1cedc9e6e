package session

import (
	"context"
	"errors"
)

// errNoRoom means that limits.artifact_bytes leaves no room for an artifact.
var errNoRoom = errors.New("limits.artifact_bytes leaves no room")

// makeRoom makes room for an artifact of n bytes of disk space: it drops old versions of files, the oldest first. It
// reserves the room until the change that refers to the artifact is committed. It fails with [errNoRoom]. On the
// session's goroutine.
func (s *Session) makeRoom(ctx context.Context, n int64) error {
	s.mu.Lock()
	limit := s.limits.ArtifactBytes
	s.mu.Unlock()
	if n > limit {
		return errNoRoom
	}
	k, _ := s.journal.figures()
	if excess := k.artifactBytes + s.pendingArtifacts + n - limit; excess > 0 {
		freed, err := s.journal.dropOldVersions(ctx, excess)
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
