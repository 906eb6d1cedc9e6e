package session

import (
	"context"
	"slices"

	"talaria/api"
	"talaria/session/settings"
	"talaria/store"
)

// An execution is refundable if it has ended without a mark in its row. The mark is set before the execution can reach anything
// outside of its sandbox, in the transaction of what lets it: settings may have changed by the time it ends, and another server may
// end it.

// marked returns the change that says of an execution that it may have reached something outside. On the session's goroutine.
func (r *execution) marked() change {
	if r.row.Outside {
		return change{}
	}
	r.row.Outside = true
	n := r.row.N
	return change{also: func(tx *store.Tx) error { return tx.MarkOutside(n) }}
}

// markRunning commits that the running cell may have reached something outside, if the network is open or is about to open. On the
// session's goroutine.
func (s *Session) markRunning(ctx context.Context, before, after api.Network) error {
	if before.Mode == api.NetworkNone && after.Mode == api.NetworkNone {
		return nil
	}
	s.mu.Lock()
	r := s.current
	open := r != nil && r.given && !r.row.Outside
	s.mu.Unlock()
	if !open {
		return nil
	}
	return s.journal.commit(ctx, r.marked())
}

// reachesOutside reports whether cells that run now can reach something outside without a call.
func (s *Session) reachesOutside() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.network.Mode != api.NetworkNone ||
		slices.ContainsFunc(s.mounts, func(m api.Mount) bool { return m.Mode == settings.MountWritable })
}
