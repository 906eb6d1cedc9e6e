package server

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// usesWritten is how often the last uses of tokens are written to the store.
const usesWritten = time.Minute

// tokenUses collects when credentials were last used, so that a request costs no write. It is safe for concurrent use.
type tokenUses struct {
	mu  sync.Mutex           // guards new
	new map[string]time.Time // not written yet, by token or cookie
}

// note counts a use of a valid credential.
func (u *tokenUses) note(cred credential) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.new == nil {
		u.new = map[string]time.Time{}
	}
	u.new[cred.token+cred.login+cred.share] = time.Now() // one of them is set
}

// writeUses writes the uses since the last time. A failure loses them: the next use is noted again.
func (s *Server) writeUses(ctx context.Context) {
	s.uses.mu.Lock()
	uses := s.uses.new
	s.uses.new = nil
	s.uses.mu.Unlock()
	if len(uses) == 0 {
		return
	}
	if err := s.tokens.NoteUses(ctx, uses); err != nil && ctx.Err() == nil {
		s.log.Warn("cannot record when tokens were last used", slog.Any("error", err))
	}
}

// recordUses writes the last uses of tokens from time to time until ctx ends, and what is left then.
func (s *Server) recordUses(ctx context.Context) {
	ticker := time.NewTicker(usesWritten)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			s.writeUses(ctx)
		case <-ctx.Done():
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
			defer cancel()
			s.writeUses(last)
			return
		}
	}
}
