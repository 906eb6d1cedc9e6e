package session

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"

	"talaria/kernel/disk"
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
	n       int64 // the number of the session
	dir     *disk.Workspace
	journal *Journal
	log     *slog.Logger
	touched func() change

	scan      func(ctx context.Context, known workspace.Snapshot) (workspace.Snapshot, []workspace.Change, error)
	executing func() bool // a cell was given to the kernel and has not ended

	// looking holds a value while one of the sessions in the sandbox looks for changes, from its scan until what it found is committed: a
	// newer snapshot that is committed first would hide that from the next server. Take it before mu; its holder must not wait for the
	// goroutine of another session.
	looking chan struct{}

	scanning sync.Mutex // one scan for clients at a time, until its commit
	covered  uint64     // guarded by scanning: changes up to this one are in the snapshot

	mu       sync.Mutex // guards the fields below
	changes  uint64     // made by clients so far
	snapshot workspace.Snapshot
	version  uint64 // counts snapshots

	bytes atomic.Int64 // that the workspace had when a snapshot was last written
	saved uint64       // version of the snapshot in the database; only the store's writer touches it
}

// connect gives the files to a session that is being loaded, with the snapshot of its database.
func (k *knownFiles) connect(s *Session, snapshot workspace.Snapshot) {
	k.n, k.dir, k.journal, k.log, k.touched = s.n, s.dir, s.journal, s.log, s.touched
	k.scan, k.executing, k.snapshot = s.dir.Scan, s.cellsRun, snapshot
}

// look waits until no other session in the sandbox looks for changes, or ctx ends. Without an error, the caller looks and then calls
// done; if what it found is not kept, the files are known as before.
func (k *knownFiles) look(ctx context.Context) (done func(kept bool), err error) {
	select {
	case k.looking <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	before, version := k.get()
	return func(kept bool) {
		k.mu.Lock()
		if !kept && k.version != version {
			k.snapshot = before
			k.version++
		}
		k.mu.Unlock()
		<-k.looking
	}, nil
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

// note records that the session was used and adds the workspace as it is now to the known files, since a client
// changed it and not an execution. While a cell runs, the two cannot be told apart: the cell then lists the change.
func (k *knownFiles) note(ctx context.Context) error {
	ctx = context.WithoutCancel(ctx)
	return k.learn(ctx, k.change(), func(found *workspace.Snapshot, version uint64) error {
		c := k.touched()
		if found != nil {
			c.add(k.save(ctx, *found, version))
		}
		return k.journal.commit(ctx, c)
	})
}

// save returns the change that writes a snapshot, unless a newer one is written first.
func (k *knownFiles) save(ctx context.Context, snapshot workspace.Snapshot, version uint64) change {
	encoded, err := snapshot.MarshalBinary()
	if err != nil {
		k.log.Error("encode the snapshot", "error", err)
		return change{}
	}
	used, _, err := k.dir.Usage(ctx)
	if err != nil {
		k.log.Warn("measure the workspace", "error", err)
	}
	return change{
		also: func(tx *store.Tx) error {
			if version < k.saved {
				return nil
			}
			k.saved = version
			return tx.UpdateSnapshot(k.n, encoded, used)
		},
		done: func() { k.bytes.Store(used) },
	}
}

// clear empties the workspace. On the session's goroutine.
func (k *knownFiles) clear(ctx context.Context) error {
	if err := k.dir.Clear(ctx); err != nil {
		return fmt.Errorf("empty the workspace: %w", err)
	}
	done, err := k.look(ctx)
	if err != nil {
		return err
	}
	version := k.set(workspace.Snapshot{})
	done(true)
	return k.journal.commit(ctx, k.save(ctx, workspace.Snapshot{}, version))
}
