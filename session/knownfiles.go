package session

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"talaria/kernel/workspace"
	"talaria/store"
)

// knownFiles is the workspace as the log knows it: a cell's artifacts are the differences from it at the end of the
// cell.
//
// Scans of the workspace take longer the more files it has, so none runs under mu. The session's goroutine scans when
// a cell ends; a client that changes files scans under scanning, and drops its result if the goroutine set a snapshot
// meanwhile or gave a cell to the kernel. Lock scanning before mu, and mu before Session.mu.
type knownFiles struct {
	scan      func(ctx context.Context, known workspace.Snapshot) (workspace.Snapshot, []workspace.Change, error)
	executing func() bool // a cell was given to the kernel and has not ended

	scanning sync.Mutex // one scan for clients at a time, until its commit
	covered  uint64     // guarded by scanning: changes up to this one are in the snapshot

	mu       sync.Mutex // guards the fields below
	changes  uint64     // made by clients so far
	snapshot workspace.Snapshot
	version  uint64 // counts snapshots

	saved uint64 // version of the snapshot in the database; only the store's writer touches it
}

// get returns the snapshot and its version.
func (k *knownFiles) get() (workspace.Snapshot, uint64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.snapshot, k.version
}

// set replaces the snapshot and returns its version. On the session's goroutine.
func (k *knownFiles) set(next workspace.Snapshot) (version uint64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.snapshot = next
	k.version++
	return k.version
}

// replace replaces the snapshot of a version, unless it was replaced already or a cell runs.
func (k *knownFiles) replace(version uint64, next workspace.Snapshot) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.version != version || k.executing() {
		return false
	}
	k.snapshot = next
	k.version++
	return true
}

// change counts a change by a client and returns its number.
func (k *knownFiles) change() uint64 {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.changes++
	return k.changes
}

// changed returns the number of the newest change by a client.
func (k *knownFiles) changed() uint64 {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.changes
}

// learn scans the workspace until the snapshot has the client's change of that number, and calls commit with what the
// scan found: nil when an earlier scan covered the change, or when a cell runs or the scan fails, so that a cell lists it.
func (k *knownFiles) learn(ctx context.Context, change uint64, commit func(found *workspace.Snapshot, version uint64) error) error {
	k.scanning.Lock()
	defer k.scanning.Unlock()
	for k.covered < change && !k.executing() {
		covers := k.changed()
		known, version := k.get()
		next, _, err := k.scan(ctx, known)
		if err != nil && !errors.Is(err, workspace.ErrTruncated) {
			break
		}
		if k.replace(version, next) {
			k.covered = covers
			return commit(&next, version+1)
		}
	}
	return commit(nil, 0)
}

// filesChanged records that the session was used and adds the workspace as it is now to the known files, since a client
// changed it and not an execution. While a cell runs, the two cannot be told apart: the cell then lists the change.
func (s *Session) filesChanged(ctx context.Context) error {
	ctx = context.WithoutCancel(ctx)
	return s.known.learn(ctx, s.known.change(), func(found *workspace.Snapshot, version uint64) error {
		c := s.touched()
		if found != nil {
			c.add(s.saveSnapshot(ctx, *found, version))
		}
		return s.journal.commit(ctx, c)
	})
}

// isExecuting reports whether a cell was taken from the queue and has not ended.
func (s *Session) isExecuting() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.current != nil
}

// saveSnapshot returns the change that writes a snapshot, unless a newer one is written first.
func (s *Session) saveSnapshot(ctx context.Context, snapshot workspace.Snapshot, version uint64) change {
	encoded, err := snapshot.MarshalBinary()
	if err != nil {
		s.log.Error("encode the snapshot", "error", err)
		return change{}
	}
	used, _, err := s.dir.Usage(ctx)
	if err != nil {
		s.log.Warn("measure the workspace", "error", err)
	}
	return change{
		also: func(tx *store.Tx) error {
			if version < s.known.saved {
				return nil
			}
			s.known.saved = version
			return tx.UpdateSnapshot(s.n, encoded, used)
		},
		done: func() { s.mu.Lock(); s.diskBytes = used; s.mu.Unlock() },
	}
}

// clearFiles empties the workspace. On the session's goroutine.
func (s *Session) clearFiles(ctx context.Context) error {
	if err := s.dir.Clear(ctx); err != nil {
		return fmt.Errorf("empty the workspace: %w", err)
	}
	version := s.known.set(workspace.Snapshot{})
	return s.journal.commit(ctx, s.saveSnapshot(ctx, workspace.Snapshot{}, version))
}
