package files

import (
	"context"
	"errors"
	"os"
	"sync"

	"talaria/api"
	"talaria/kernel/workspace"
)

// The bounds on watches at one time. Each takes an inotify instance, of which Linux gives a user 128 by default.
const (
	maxWatches        = 64 // of all owners
	maxOwnerWatches   = 16
	maxSessionWatches = 8
)

// Event is one event of a watch.
type Event = workspace.Event

// EventKind says what happened to an entry of a watched folder.
type EventKind = workspace.EventKind

// The kinds of file events.
const (
	Created = workspace.EventCreate
	Written = workspace.EventWrite
	Removed = workspace.EventRemove
	Renamed = workspace.EventRename
	Mode    = workspace.EventMode
)

// Watch tells what happens in a folder of the workspace, whoever does it. It is safe for concurrent use.
type Watch struct {
	cfg     *Config
	watch   *workspace.Watch
	folder  string
	release func() // of the counts
	closed  chan struct{}
	once    sync.Once // guards closing
}

// Watch watches a folder of the workspace, "" being the workspace itself, until the watch is closed or the session is
// deleted. recursive also watches the folders in it, and those made later. It wakes no kernel and counts as no use. The caller
// closes the watch, and keeps the session until then.
func (w *Files) Watch(folder string, recursive bool) (*Watch, error) {
	release, err := w.cfg.Watches.take(w.cfg.Owner, w.cfg.Session)
	if err != nil {
		return nil, err
	}
	watch, err := w.cfg.Dir.Watch(folder, recursive)
	if err != nil {
		release()
		return nil, w.cfg.watchError(err, folder)
	}
	f := &Watch{cfg: &w.cfg, watch: watch, folder: folder, release: release, closed: make(chan struct{})}
	go func() {
		select {
		case <-w.cfg.Deleted: // the workspace is released even if the caller does not close the watch yet
			_ = watch.Close()
		case <-f.closed:
		}
	}()
	return f, nil
}

// Next waits for events and returns all there are, in order; each is returned once. A watch that has ended fails with why; it
// ends when more events come than are kept (limit_exceeded), when the folder is removed or moved (file_not_found), and with the
// session (session_not_found). ctx bounds the wait.
func (w *Watch) Next(ctx context.Context) ([]Event, error) {
	events, err := w.watch.Next(ctx)
	return events, w.cfg.watchError(err, w.folder)
}

// Pending returns what Next would return, or nothing, without waiting.
func (w *Watch) Pending() ([]Event, error) {
	events, err := w.watch.Pending()
	return events, w.cfg.watchError(err, w.folder)
}

// Close ends the watch. It is idempotent.
func (w *Watch) Close() (err error) {
	w.once.Do(func() {
		close(w.closed)
		err = w.watch.Close()
		w.release()
	})
	return err
}

func (c *Config) watchError(err error, folder string) error {
	switch {
	case errors.Is(err, os.ErrClosed):
		return c.ErrDeleted
	case errors.Is(err, workspace.ErrEventsLost):
		return api.Errorf(api.CodeLimitExceeded,
			"events were lost: more than %d waited to be read; list the folder and watch it again", workspace.MaxWatchEvents)
	case errors.Is(err, workspace.ErrTooManyFolders):
		return api.Errorf(api.CodeLimitExceeded,
			"a watch has at most %d folders; watch a folder with fewer in it, or without recursion", workspace.MaxWatchedFolders)
	case errors.Is(err, workspace.ErrNoWatches):
		return api.Errorf(api.CodeTooManyRequests, "the server cannot watch any more folders at the moment: %v", workspace.ErrNoWatches)
	}
	return fileError(err, folder)
}

// Watches counts the watches of all sessions. The zero value is ready to use and safe for concurrent use.
type Watches struct {
	mu sync.Mutex // guards the field below
	by map[watchCount]int
}

// watchCount names one count: of a session, of an owner, or of all.
type watchCount struct{ owner, session string }

// take counts a watch until release is called, once.
func (c *Watches) take(owner, session string) (release func(), err error) {
	counts := map[watchCount]int{{owner, session}: maxSessionWatches, {owner, ""}: maxOwnerWatches, {"", ""}: maxWatches}
	c.mu.Lock()
	defer c.mu.Unlock()
	for count, most := range counts {
		switch {
		case c.by[count] < most:
		case count.owner == "":
			return nil, api.Errorf(api.CodeTooManyRequests, "the server watches %d folders, which is its limit; try again later", most)
		case count.session == "":
			return nil, api.Errorf(api.CodeLimitExceeded, "you watch %d folders, which is the limit; end one of the watches", most)
		default:
			return nil, api.Errorf(api.CodeLimitExceeded, "the session has %d watched folders, which is the limit; end one of the watches", most)
		}
	}
	if c.by == nil {
		c.by = map[watchCount]int{}
	}
	for count := range counts {
		c.by[count]++
	}
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		for count := range counts {
			if c.by[count]--; c.by[count] == 0 {
				delete(c.by, count)
			}
		}
	}, nil
}
