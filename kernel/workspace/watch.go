package workspace

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// Bounds on a watch.
const (
	// MaxWatchedFolders bounds the folders of one watch.
	MaxWatchedFolders = 1024
	// MaxWatchEvents bounds the events that nobody has read.
	MaxWatchEvents = 4096
)

// The ends of a watch, besides [os.ErrClosed] and [fs.ErrNotExist], which says that the folder was removed or moved.
var (
	// ErrEventsLost: there were more events than were read in time.
	ErrEventsLost = errors.New("events were lost")
	// ErrTooManyFolders: a watch would need more folders than MaxWatchedFolders, or than the system allows.
	ErrTooManyFolders = errors.New("too many folders to watch")
	// ErrNoWatches: the system allows this user no further inotify instance.
	ErrNoWatches = errors.New("no inotify instance is left; raise fs.inotify.max_user_instances")
)

// EventKind says what happened to an entry of a watched folder.
type EventKind string

// The kinds of events.
const (
	EventCreate EventKind = "create" // also: it was moved here
	EventWrite  EventKind = "write"
	EventRemove EventKind = "remove"
	EventRename EventKind = "rename" // it was moved away from this name
	EventMode   EventKind = "mode"   // its mode, owner or times changed
)

// Event is one event of a watch. Name is relative to the watched folder, and as on the disk, maybe not UTF-8.
type Event struct {
	Name string
	Kind EventKind
}

const watched = unix.IN_CREATE | unix.IN_DELETE | unix.IN_MODIFY | unix.IN_ATTRIB | unix.IN_MOVED_FROM | unix.IN_MOVED_TO |
	unix.IN_DELETE_SELF | unix.IN_MOVE_SELF | unix.IN_ONLYDIR | unix.IN_EXCL_UNLINK

// Watch tells what happens in a folder. It is safe for concurrent use.
type Watch struct {
	root      *os.File // of the workspace, held until the watch is closed
	release   func()
	folder    string // as openBeneath takes it
	recursive bool
	inotify   *os.File
	folders   map[int32]string // relative to folder, "" being itself, by watch descriptor; run's alone after newWatch
	upload    uint32           // cookie of the last upload that was moved to its name; run's alone
	done      chan struct{}    // closed when nothing comes any more

	mu     sync.Mutex // guards the fields below
	events []Event
	err    error         // why nothing comes after events
	more   chan struct{} // closed, and replaced, when there is more
}

// Watch watches a folder, "" and "." being the workspace itself; recursive also watches the folders in it, and those made
// later. It follows no links. What is found in a new folder is told as created, a file also as written, and maybe twice. The
// server's own unfinished uploads are left out, and a finished one is told as created and written. The caller closes the watch,
// which keeps a [Lazy] workspace open.
//
// Besides the errors of [Dir.List] it returns [ErrTooManyFolders] and [ErrNoWatches].
func (d *Dir) Watch(folder string, recursive bool) (*Watch, error) {
	where, err := folderPath(folder)
	if err != nil {
		return nil, explain("watch", folder, err)
	}
	root, release, err := d.Hold()
	if err != nil {
		return nil, explain("watch", folder, err)
	}
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		release()
		if errors.Is(err, unix.EMFILE) {
			err = ErrNoWatches
		}
		return nil, explain("watch", folder, err)
	}
	w := &Watch{
		root: root, release: release, folder: where, recursive: recursive, inotify: os.NewFile(uintptr(fd), "inotify"),
		folders: map[int32]string{}, done: make(chan struct{}), more: make(chan struct{}),
	}
	if err := w.add("", false); err != nil {
		w.inotify.Close()
		release()
		return nil, explain("watch", folder, err)
	}
	go w.run()
	return w, nil
}

// Next waits for events and returns all there are, in order; each is returned once. When the watch has ended it returns why. ctx
// bounds the wait.
func (w *Watch) Next(ctx context.Context) ([]Event, error) {
	for {
		events, more, err := w.take()
		if len(events) > 0 || err != nil {
			return events, err
		}
		select {
		case <-more:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// Pending returns what Next would return, or nothing, without waiting.
func (w *Watch) Pending() ([]Event, error) {
	events, _, err := w.take()
	return events, err
}

func (w *Watch) take() (events []Event, more <-chan struct{}, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if events, w.events = w.events, nil; len(events) > 0 {
		return events, w.more, nil
	}
	return nil, w.more, w.err
}

// Done is closed when the watch has ended.
func (w *Watch) Done() <-chan struct{} { return w.done }

// Close ends the watch. It is idempotent, and returns when the watch has released everything.
func (w *Watch) Close() error {
	err := w.inotify.Close()
	<-w.done
	if errors.Is(err, os.ErrClosed) {
		return nil
	}
	return err
}

// run reads events until the watch ends.
func (w *Watch) run() {
	defer close(w.done)
	defer w.release()
	defer w.inotify.Close()
	buffer := make([]byte, 64<<10)
	for {
		n, err := w.inotify.Read(buffer)
		if err == nil {
			err = w.translate(buffer[:n])
		} else if errors.Is(err, os.ErrClosed) {
			err = explain("watch", w.folder, os.ErrClosed)
		}
		if err != nil {
			w.mu.Lock()
			w.err = err
			close(w.more)
			w.more = make(chan struct{})
			w.mu.Unlock()
			return
		}
	}
}

// translate reads struct inotify_event: the watch, a mask, a cookie, and the length of the name that follows, padded by zeros.
func (w *Watch) translate(data []byte) error {
	for len(data) >= unix.SizeofInotifyEvent {
		wd, mask := int32(binary.NativeEndian.Uint32(data)), binary.NativeEndian.Uint32(data[4:])
		cookie, size := binary.NativeEndian.Uint32(data[8:]), binary.NativeEndian.Uint32(data[12:])
		name, _, _ := bytes.Cut(data[unix.SizeofInotifyEvent:unix.SizeofInotifyEvent+size], []byte{0})
		data = data[unix.SizeofInotifyEvent+size:]
		if mask&unix.IN_Q_OVERFLOW != 0 {
			return ErrEventsLost
		}
		folder, known := w.folders[wd]
		if !known {
			continue
		}
		if err := w.one(wd, folder, string(name), mask, cookie); err != nil {
			return err
		}
	}
	return nil
}

func (w *Watch) one(wd int32, folder, name string, mask, cookie uint32) error {
	if name == "" {
		switch over := mask&(unix.IN_DELETE_SELF|unix.IN_MOVE_SELF|unix.IN_IGNORED|unix.IN_UNMOUNT) != 0; {
		case over && folder == "":
			return explain("watch", w.folder, fs.ErrNotExist)
		case mask&unix.IN_IGNORED != 0:
			delete(w.folders, wd)
		}
		return nil
	}
	if isUpload(name) {
		if mask&unix.IN_MOVED_FROM != 0 {
			w.upload = cookie
		}
		return nil
	}
	at, isFolder := path.Join(folder, name), mask&unix.IN_ISDIR != 0
	switch {
	case mask&unix.IN_MOVED_TO != 0 && cookie == w.upload:
		return w.tell(Event{at, EventCreate}, Event{at, EventWrite})
	case mask&(unix.IN_CREATE|unix.IN_MOVED_TO) != 0:
		err := w.tell(Event{at, EventCreate})
		if err == nil && isFolder && w.recursive {
			err = w.add(at, true)
		}
		return err
	case mask&unix.IN_MOVED_FROM != 0:
		if isFolder {
			w.forget(at)
		}
		return w.tell(Event{at, EventRename})
	case mask&unix.IN_DELETE != 0:
		return w.tell(Event{at, EventRemove})
	case mask&unix.IN_MODIFY != 0:
		return w.tell(Event{at, EventWrite})
	case mask&unix.IN_ATTRIB != 0:
		return w.tell(Event{at, EventMode})
	}
	return nil
}

func (w *Watch) tell(events ...Event) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.events)+len(events) > MaxWatchEvents {
		return ErrEventsLost
	}
	w.events = append(w.events, events...)
	close(w.more)
	w.more = make(chan struct{})
	return nil
}

// add watches a folder, and in a recursive watch those in it; with found it tells what is in them. Those that have gone
// meanwhile, or that the server may not read, are left out, except for the watched folder itself.
func (w *Watch) add(folder string, found bool) error {
	for left := []string{folder}; len(left) > 0; {
		next := left[len(left)-1]
		left = left[:len(left)-1]
		entries, err := w.addOne(next)
		if next != "" && (gone(err) || errors.Is(err, fs.ErrPermission)) {
			continue
		}
		if err != nil {
			return err
		}
		for _, e := range entries {
			if isUpload(e.name) {
				continue
			}
			at := path.Join(next, e.name)
			if found {
				told := []Event{{at, EventCreate}}
				if e.kind != unix.DT_DIR { // whatever was written to it before the folder was watched
					told = append(told, Event{at, EventWrite})
				}
				if err := w.tell(told...); err != nil {
					return err
				}
			}
			if e.kind == unix.DT_DIR && w.recursive {
				left = append(left, at)
			}
		}
	}
	return nil
}

// addOne watches one folder, and returns what is in it if that matters.
func (w *Watch) addOne(folder string) ([]dirent, error) {
	if len(w.folders) >= MaxWatchedFolders || strings.Count(folder, "/") > MaxDepth {
		return nil, ErrTooManyFolders
	}
	fd, err := with(w.root, func(root int) (int, error) {
		return openBeneath(root, path.Join(w.folder, folder), asFolder, 0)
	})
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	wd, err := with(w.inotify, func(inotify int) (int, error) {
		return unix.InotifyAddWatch(inotify, fmt.Sprintf("/proc/self/fd/%d", fd), watched)
	})
	if errors.Is(err, unix.ENOSPC) { // fs.inotify.max_user_watches
		err = ErrTooManyFolders
	}
	if err != nil {
		return nil, err
	}
	w.folders[int32(wd)] = folder
	if !w.recursive {
		return nil, nil
	}
	entries, err := readFolder(fd, MaxEntries)
	if errors.Is(err, ErrTruncated) {
		return nil, ErrTooManyFolders
	}
	return entries, err
}

// forget ends the watching of a folder that was moved, and of those in it.
func (w *Watch) forget(folder string) {
	for wd, at := range w.folders {
		if at == folder || strings.HasPrefix(at, folder+"/") {
			_, _ = with(w.inotify, func(inotify int) (int, error) { // fails if it was removed
				return unix.InotifyRmWatch(inotify, uint32(wd))
			})
			delete(w.folders, wd)
		}
	}
}

// with makes a system call on a file, which stays as it is: Fd would make it blocking.
func with(f *os.File, call func(fd int) (int, error)) (n int, err error) {
	conn, err := f.SyscallConn()
	if err != nil {
		return -1, err
	}
	if failed := conn.Control(func(fd uintptr) { n, err = retry(func() (int, error) { return call(int(fd)) }) }); failed != nil {
		return -1, os.ErrClosed
	}
	return n, err
}
