package server

import (
	"context"
	"log/slog"
	"time"
)

// revocationCheck is how soon requests end after another process revoked their token.
const revocationCheck = time.Second

// recheck ends the requests whose credential is no longer valid.
func (s *Server) recheck(ctx context.Context) {
	s.revocations.Add(1) // a request that is not among the callers yet checks again itself
	for cred := range s.callers.credentials() {
		if !s.good(ctx, cred) {
			s.callers.expel(cred)
		}
	}
}

// watchRevocations rechecks after a token was revoked, also by talaria token revoke, until ctx ends.
func (s *Server) watchRevocations(ctx context.Context) {
	ticker := time.NewTicker(revocationCheck)
	defer ticker.Stop()
	last, err := s.tokens.Revocations(ctx)
	for {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
		now, failed := s.tokens.Revocations(ctx)
		if failed != nil {
			if err == nil && ctx.Err() == nil { // the first of several in a row
				s.log.Warn("look for revoked tokens; trying again", slog.Any("error", failed))
			}
			err = failed
			continue
		}
		if err = nil; now != last {
			last = now
			s.recheck(ctx)
		}
	}
}
