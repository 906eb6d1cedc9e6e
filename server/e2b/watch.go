package e2b

import (
	"context"
	"crypto/rand"
	"path"
	"strings"
	"sync"

	"talaria/api"
	"talaria/session"
	"talaria/session/files"
)

// eventTypes are the names of the kinds of events.
var eventTypes = map[files.EventKind]string{
	files.Created: "EVENT_TYPE_CREATE", files.Written: "EVENT_TYPE_WRITE", files.Removed: "EVENT_TYPE_REMOVE",
	files.Renamed: "EVENT_TYPE_RENAME", files.Mode: "EVENT_TYPE_CHMOD",
}

// watchRequest is the message of WatchDir and of CreateWatcher.
type watchRequest struct {
	Path         string `json:"path"`
	Recursive    bool   `json:"recursive"`
	IncludeEntry bool   `json:"includeEntry"`
}

// watcher is a watch as a client asked for it.
type watcher struct {
	session *session.Session // released by close
	watch   *files.Watch
	folder  string // in the workspace
	entries bool   // of files are sent with events
	sandbox place
	over    chan struct{} // closed by close
}

func (h *Handler) watch(q *request, in watchRequest) (*watcher, error) {
	s, folder, err := h.at(q, in.Path, api.RightRead)
	if err != nil {
		return nil, err
	}
	watch, err := s.Files().Watch(folder, in.Recursive)
	if err != nil {
		s.Release()
		return nil, err
	}
	return &watcher{session: s, watch: watch, folder: folder, entries: in.IncludeEntry, sandbox: place{q.caller.Owner, s.ID()}, over: make(chan struct{})}, nil
}

// close is called once.
func (w *watcher) close() error {
	defer w.session.Release()
	close(w.over)
	return w.watch.Close()
}

// model is envd's FilesystemEvent.
func (w *watcher) model(ctx context.Context, e files.Event) object {
	one := object{"name": strings.ToValidUTF8(e.Name, "\uFFFD"), "type": eventTypes[e.Kind]}
	if w.entries {
		if f, err := w.session.Files().Stat(ctx, path.Join(w.folder, e.Name)); err == nil { // otherwise it is gone already
			one["entry"] = entry(f)
		}
	}
	return one
}

// watchDir sends events until the client leaves, or until the watch ends, which is an error.
func (h *Handler) watchDir(ctx context.Context, q *request, in watchRequest, out *messages) error {
	w, err := h.watch(q, in)
	if err != nil {
		return err
	}
	defer w.close()
	if err := out.send(object{"start": object{}}); err != nil {
		return err
	}
	f := newFollow(q, out, object{"keepalive": object{}})
	defer f.ticker.Stop()
	for {
		events, err := await(f, ctx, w.watch.Next)
		if err != nil {
			return err
		}
		for _, e := range events {
			if err := out.send(object{"filesystem": w.model(ctx, e)}); err != nil {
				return err
			}
		}
	}
}

// watchers are those that clients created to ask for events. The zero value is ready to use and safe for concurrent use.
type watchers struct {
	mu      sync.Mutex // guards the fields below
	by      map[string]*watcher
	stopped bool
}

// put keeps a watcher under a new id.
func (all *watchers) put(w *watcher) (id string, err error) {
	all.mu.Lock()
	defer all.mu.Unlock()
	if all.stopped {
		return "", api.Errorf(api.CodeShuttingDown, "the server is shutting down; try again in a moment")
	}
	if all.by == nil {
		all.by = map[string]*watcher{}
	}
	id = rand.Text()
	all.by[id] = w
	return id, nil
}

// of returns a watcher of a sandbox; remove also forgets it, and the caller closes it.
func (all *watchers) of(sandbox place, id string, remove bool) (*watcher, error) {
	all.mu.Lock()
	defer all.mu.Unlock()
	w := all.by[id]
	if w == nil || w.sandbox != sandbox {
		return nil, api.Errorf(api.CodeNotFound, "there is no watcher %.80q; create one", id)
	}
	if remove {
		delete(all.by, id)
	}
	return w, nil
}

// drop closes the watchers of a sandbox, which was killed, and forgets them.
func (all *watchers) drop(sandbox place) {
	all.end(func(w *watcher) bool { return w.sandbox == sandbox }, false)
}

// stop closes all watchers, and refuses new ones.
func (all *watchers) stop() { all.end(func(*watcher) bool { return true }, true) }

func (all *watchers) end(which func(*watcher) bool, stop bool) {
	var over []*watcher
	all.mu.Lock()
	all.stopped = all.stopped || stop
	for id, w := range all.by {
		if which(w) {
			over = append(over, w)
			delete(all.by, id)
		}
	}
	all.mu.Unlock()
	for _, w := range over {
		_ = w.close() // nobody waits for it
	}
}

// createWatcher begins a watch that outlives the call, until it is removed or the sandbox or the server ends.
func (h *Handler) createWatcher(q *request, in watchRequest) (any, error) {
	w, err := h.watch(q, in)
	if err != nil {
		return nil, err
	}
	id, err := h.watchers.put(w)
	if err != nil {
		_ = w.close()
		return nil, err
	}
	go func() {
		select {
		case <-w.session.Deleted():
			h.watchers.drop(w.sandbox)
		case <-w.over:
		}
	}()
	return object{"watcherId": id}, nil
}

// watcherRequest is the message of the calls for one watcher.
type watcherRequest struct {
	WatcherID string `json:"watcherId"`
}

// watcher finds the watcher that a call is about.
func (h *Handler) watcher(q *request, in watcherRequest, remove bool) (*watcher, error) {
	s, err := h.sandbox(q, api.RightRead)
	if err != nil {
		return nil, err
	}
	defer s.Release()
	return h.watchers.of(place{q.caller.Owner, s.ID()}, in.WatcherID, remove)
}

// getWatcherEvents answers with the events since the last time. Once events were lost it fails, until the watcher is removed.
func (h *Handler) getWatcherEvents(q *request, in watcherRequest) (any, error) {
	w, err := h.watcher(q, in, false)
	if err != nil {
		return nil, err
	}
	events, err := w.watch.Pending()
	if err != nil {
		return nil, err
	}
	list := []object{}
	for _, e := range events {
		list = append(list, w.model(q.Context(), e))
	}
	return object{"events": list}, nil
}

func (h *Handler) removeWatcher(q *request, in watcherRequest) (any, error) {
	w, err := h.watcher(q, in, true)
	if err != nil {
		return nil, err
	}
	return object{}, w.close()
}
