package workspace

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// MaxNamed bounds how many paths of each kind the result of a restore names.
const MaxNamed = 1000

// RestoreOptions are what a restore leaves out.
type RestoreOptions struct {
	// KeepPath reports whether a path that would change has to stay as it is now. It is asked about each such path by
	// itself, except below a folder that could not be looked into; nil means none.
	KeepPath func(path string) bool
}

// Paths are those of one kind: how many, and the first MaxNamed of them.
type Paths struct {
	Count int
	Names []string
}

func (p *Paths) add(path string) {
	if p.Count++; p.Count <= MaxNamed {
		p.Names = append(p.Names, path)
	}
}

// Restored is what a restore did, with paths as on the disk. Folders are counted too.
type Restored struct {
	Created, Modified, Deleted Paths
	NotRestored                []NotRestored // the first MaxNamed
	NotRestoredCount           int
	// Known describes the files that are in place now, for the next [Dir.Capture] as the previous manifest, so that it
	// reads none of them.
	Known Manifest
}

// NotRestored is a path that is not as it was, and why: words for people.
type NotRestored struct {
	Path   string
	Reason string
}

const (
	reasonKept    = "it is kept as it is now"
	reasonGone    = "its contents are no longer stored"
	reasonDamaged = "its stored contents are damaged"
	reasonNow     = "what is there now could not be looked into"
)

var errChanged = errors.New("it was changed meanwhile")

// Restore makes the workspace equal to want and touches only what differs from now, which is a capture that was just
// made, with or without contents being kept: a file whose digest now does not know is taken to be different. It puts
// back folders, files with their holes, links, modes and modification times; they belong to the session's user. open
// returns the contents of a digest, which Restore closes, or [fs.ErrNotExist].
//
// What want does not know the contents of stays as it is, and so does what KeepPath names; both are named as
// NotRestored, and so is each path that fails, with its reason, while the rest goes on. Without root's rights, folders
// whose modes are in the way are made accessible first, and looked into if now could not. The names of a file with
// several become separate files, unless nothing has changed about them.
//
// The result also tells what was done before an error: [ErrNoSpace], the end of ctx, or one of open other than
// fs.ErrNotExist. Running code of the session can spoil the result, but not make Restore touch anything outside of the
// workspace. A file is replaced as a whole: code that has it open keeps the old one, and both need space for a moment.
// Nothing is flushed to the disk. One restore of a workspace may run at a time.
func (d *Dir) Restore(ctx context.Context, want, now Manifest, open func(digest string) (*os.File, error),
	options RestoreOptions,
) (Restored, error) {
	r := restorer{
		ctx: ctx, dir: d, open: open, keep: options.KeepPath, want: want, now: now,
		held: want.unseen(), changed: map[string]bool{}, unlocked: map[string]uint32{},
		named: map[string]bool{}, left: map[string]bool{}, put: map[string]ManifestEntry{},
	}
	err := d.use(func(root int) error {
		r.root = root
		defer r.leave()
		return r.run()
	})
	if err != nil {
		err = fmt.Errorf("restore the workspace: %w", translate(err))
	}
	return r.done, err
}

type restorer struct {
	ctx       context.Context
	dir       *Dir
	root      int
	open      func(digest string) (*os.File, error)
	keep      func(path string) bool
	want, now Manifest
	unseenNow map[string]bool
	linked    map[uint64]bool          // inodes of files with several names now
	held      map[string]bool          // folders whose contents are left alone
	changed   map[string]bool          // folders in which names changed
	unlocked  map[string]uint32        // the modes of folders before they were made accessible
	named     map[string]bool          // paths in done.NotRestored
	left      map[string]bool          // paths that stay as they are, because KeepPath says so or something failed
	stack     []openFolder             // the folders on the way to the one that was entered last
	put       map[string]ManifestEntry // files that were put in place, as they are now
	done      Restored
}

// change is the difference at one path; one of both may be nil.
type change struct{ want, now *ManifestEntry }

func (r *restorer) run() error {
	err := r.lookAgain()
	if err == nil {
		err = r.apply(r.compare())
	}
	// Also after an error: modes must not stay open.
	err = errors.Join(err, r.finishFolders())
	r.done.Known = r.known()
	if err == nil && !r.dir.known().exactTimes {
		err = waitForTick(r.ctx, r.lastChanges())
	}
	return err
}

// known returns the entries that are in place, and those of folders that were left alone.
func (r *restorer) known() Manifest {
	known := Manifest{Entries: make([]ManifestEntry, 0, len(r.want.Entries))}
	for want, now := range pairs(r.want.Entries, r.now.Entries) {
		switch {
		case want == nil:
		case r.put[want.Path].Path != "":
			known.Entries = append(known.Entries, r.put[want.Path])
		case now != nil && now.Kind == File:
			known.Entries = append(known.Entries, *now)
		default:
			known.Entries = append(known.Entries, *want)
		}
	}
	return known
}

// lastChanges returns the changes of files that were put in place, for waitForTick.
func (r *restorer) lastChanges() (changes []Change) {
	for _, e := range r.put {
		changes = append(changes, Change{Kind: Modified, Entry: Entry{ModTime: time.Unix(0, e.ChangeTime)}})
	}
	return changes
}

func (r *restorer) apply(changes []change) error {
	for _, c := range slices.Backward(changes) { // what is in a folder before the folder
		if c.now == nil || c.want != nil && (c.want.Kind == Directory) == (c.now.Kind == Directory) {
			continue
		}
		if err := r.attempt(c.now.Path, func() error { return r.remove(c) }); err != nil {
			return err
		}
	}
	r.leave()
	for _, c := range changes {
		if c.want == nil || r.left[c.want.Path] {
			continue
		}
		if err := r.attempt(c.want.Path, func() error { return r.restore(c) }); err != nil {
			return err
		}
	}
	return nil
}

// attempt does one step. It returns only the errors that end the restore, and names the path after any other.
func (r *restorer) attempt(path string, step func() error) error {
	if err := context.Cause(r.ctx); err != nil {
		return err
	}
	err := translate(step())
	if err == nil {
		return nil
	}
	if fatal, ok := errors.AsType[fatalError](err); ok {
		return fatal.error
	}
	reason := err.Error()
	switch {
	case errors.Is(err, unix.ENOTEMPTY):
		reason = "the folder is not empty"
	case errors.Is(err, fs.ErrExist), errors.Is(err, ErrNotAFile), gone(err):
		reason = errChanged.Error()
	default:
		if inner, ok := errors.AsType[*fs.PathError](err); ok { // its path is a temporary file's
			reason = inner.Err.Error()
		}
	}
	r.left[path] = true
	r.name(path, reason)
	if errors.Is(err, ErrNoSpace) || r.ctx.Err() != nil {
		return err
	}
	return nil
}

// fatalError marks an error that is not about one path.
type fatalError struct{ error }

func (r *restorer) name(path, reason string) {
	if r.named[path] {
		return
	}
	r.named[path] = true
	if r.done.NotRestoredCount++; r.done.NotRestoredCount <= MaxNamed {
		r.done.NotRestored = append(r.done.NotRestored, NotRestored{path, reason})
	}
}

// compare returns what has to change, by path, and names what cannot or must not.
func (r *restorer) compare() (changes []change) {
	r.linked = linkedFiles(r.now.Entries)
	reasons := make(map[string]string, len(r.want.Missing))
	for _, missing := range r.want.Missing {
		reasons[missing.Path] = missing.Reason
		if r.held[missing.Path] && !coveredBy(r.held, missing.Path) {
			r.name(missing.Path, missing.Reason)
		}
	}
	if r.unseenNow["."] {
		r.name(".", reasonNow)
		r.held["."] = true
	}
	for want, now := range pairs(r.want.Entries, r.now.Entries) {
		c := change{want, now}
		path := ""
		if want != nil {
			path = want.Path
		} else {
			path = now.Path
		}
		switch {
		case coveredBy(r.held, path):
		case checkNames(path) != nil:
			r.name(path, ErrOutside.Error())
			r.held[path], r.left[path] = true, true
		case want != nil && want.isUnknown():
			if now != nil && (want.unchanged(now) || want.Kind == Other && now.Kind == Other && want.Inode == now.Inode) {
				continue
			}
			reason := reasonUnread
			if known, ok := reasons[path]; ok {
				reason = known
			}
			r.name(path, reason)
			r.held[path] = true // if it is a folder now
		case r.same(c):
			r.holdUnseen(c)
		case r.keep != nil && r.keep(path):
			r.name(path, reasonKept)
			r.left[path] = true
			r.holdUnseen(c)
		default:
			r.holdUnseen(c)
			changes = append(changes, c)
		}
	}
	return changes
}

// holdUnseen leaves a folder's contents alone that now could not look into. If the folder goes, they go with it.
func (r *restorer) holdUnseen(c change) {
	if c.now == nil || !r.unseenNow[c.now.Path] {
		return
	}
	r.held[c.now.Path] = true
	if c.want != nil && c.want.Kind == Directory {
		r.name(c.now.Path, reasonNow)
	}
}

// isUnknown reports whether what an entry held was not kept.
func (e *ManifestEntry) isUnknown() bool {
	return e.Kind == Other || e.Kind == File && e.Digest == "" || e.Kind == Symlink && e.Target == ""
}

// same reports whether nothing has to be done, apart from the times of folders.
func (r *restorer) same(c change) bool {
	if c.want == nil || c.now == nil || !c.want.alike(c.now) {
		return false
	}
	return c.want.Kind == Directory || c.want.ModTime == c.now.ModTime && !r.joined(c)
}

// joined reports whether a file that was one of its own is now another name of one.
func (r *restorer) joined(c change) bool {
	return c.now.Kind == File && c.now.Inode != c.want.Inode && r.linked[c.now.Inode]
}

// linkedFiles returns the inodes of the files that have several names.
func linkedFiles(entries []ManifestEntry) map[uint64]bool {
	linked := map[uint64]bool{}
	seen := make(map[uint64]bool, len(entries))
	for i := range entries {
		if e := &entries[i]; e.Kind == File {
			if seen[e.Inode] {
				linked[e.Inode] = true
			}
			seen[e.Inode] = true
		}
	}
	return linked
}

// parentOf splits a path of a manifest, which may be longer than any that the system accepts at once.
func parentOf(path string) (folder, name string) {
	if i := strings.LastIndexByte(path, '/'); i >= 0 {
		return path[:i], path[i+1:]
	}
	return ".", path
}

// checkNames is checkPath for a path of any length.
func checkNames(path string) error {
	for name := range strings.SplitSeq(path, "/") {
		if err := checkName(name); err != nil {
			return err
		}
	}
	return nil
}
