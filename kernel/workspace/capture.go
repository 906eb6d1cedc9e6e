package workspace

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// captureTries is how often a file is read that changes while it is read.
const captureTries = 3

// Keep stores what a file holds and returns its SHA-256 in hexadecimal. The file is at its start and belongs to the
// caller; it may change meanwhile, and then it is offered again. An error that is a [NotKeptError] makes the file
// [Missing]; any other ends the capture.
type Keep func(ctx context.Context, f *os.File, e Entry) (digest string, err error)

// NotKeptError says why a [Keep] does not keep a file, in words for people.
type NotKeptError struct{ Reason string }

func (e *NotKeptError) Error() string { return "not kept: " + e.Reason }

// The reasons why something is [Missing].
const (
	reasonSpecial    = "it is a pipe, a socket or a device"
	reasonWritten    = "it was being written"
	reasonUnreadable = "the server may not read it"
	reasonMount      = "another file system is mounted there"
	reasonUnread     = "its contents were not kept"
)

var (
	reasonDeep  = fmt.Sprintf("it is more than %d folders deep", MaxDepth)
	reasonMany  = fmt.Sprintf("the workspace has more than %d entries", MaxEntries)
	reasonPaths = fmt.Sprintf("the paths of the workspace have more than %d bytes in total", MaxPathBytes)
)

// Capture describes the workspace and has the contents of its files kept. It follows no links and no mounts, and skips
// unfinished uploads. A file whose size, times and inode are those of the previous manifest, which may be nil, is taken
// over from it and not read; so a change through a shared memory mapping goes unnoticed on a file system, like tmpfs,
// that sets no time for it. With a nil keep, files that have changed are not read either and have no digest.
//
// A folder that the server may not read, is too deep, or does not fit into [MaxEntries] or [MaxPathBytes] is Missing
// as a whole, and what the previous manifest knew below it is taken over. Extended attributes and hard links are not
// described.
//
// Code that runs meanwhile can make the manifest one that the workspace never was as a whole. A file that changes while
// it is read is read up to three times, and then Missing. ctx bounds the work.
func (d *Dir) Capture(ctx context.Context, previous *Manifest, keep Keep) (Manifest, error) {
	c := capturer{ctx: ctx, keep: keep, left: MaxEntries, exactTimes: true}
	if previous != nil {
		c.previous = previous.Entries
		c.out.Entries = make([]ManifestEntry, 0, len(previous.Entries)+64)
	}
	err := d.use(func(root int) error {
		c.exactTimes = d.known().exactTimes
		return c.folder(root, ".", ".", 0)
	})
	if err != nil {
		return Manifest{}, fmt.Errorf("capture the workspace: %w", translate(err))
	}
	c.sortMissing()
	return c.out, nil
}

type capturer struct {
	ctx        context.Context
	previous   []ManifestEntry
	keep       Keep // may be nil
	exactTimes bool
	// open opens a folder called name in the folder at, to be read; nil means that its mode decides.
	open  func(at int, name, path string) (int, error)
	out   Manifest
	left  int // how many entries may still be looked at
	paths int // bytes of the paths and targets of what was looked at
	taken int // bytes of those that were taken over
}

// folder captures what is in the folder called name in the folder at, whose path is "." for the workspace.
func (c *capturer) folder(at int, name, path string, depth int) error {
	if err := context.Cause(c.ctx); err != nil {
		return err
	}
	if depth > MaxDepth {
		c.unseen(path, reasonDeep)
		return nil
	}
	fd, err := c.openFolder(at, name, path)
	switch {
	case errors.Is(err, fs.ErrPermission):
		c.unseen(path, reasonUnreadable)
		return nil
	case errors.Is(err, unix.EXDEV):
		c.unseen(path, reasonMount)
		return nil
	case gone(err):
		return nil
	case err != nil:
		return err
	}
	defer unix.Close(fd)
	names, err := readFolder(fd, c.left)
	if errors.Is(err, ErrTruncated) {
		c.unseen(path, reasonMany)
		return nil
	}
	if err != nil && !gone(err) {
		return err
	}
	prefix := path + "/"
	if path == "." {
		prefix = ""
	}
	total := 0
	for _, n := range names {
		total += len(prefix) + len(n.name)
	}
	if c.paths+total > MaxPathBytes {
		c.unseen(path, reasonPaths)
		return nil
	}
	c.left -= len(names)
	c.paths += total
	entries, missing := len(c.out.Entries), len(c.out.Missing)
	for _, step := range steps(fd, names) {
		if err := context.Cause(c.ctx); err != nil {
			return err
		}
		if inner, enter := strings.CutSuffix(step, "/"); enter {
			if err := c.folder(fd, inner, prefix+inner, depth+1); err != nil {
				return err
			}
			continue
		}
		var st unix.Stat_t
		err := unix.Fstatat(fd, step, &st, unix.AT_SYMLINK_NOFOLLOW)
		if errors.Is(err, fs.ErrPermission) { // names can be read, but nothing more
			c.out.Entries, c.out.Missing = c.out.Entries[:entries], c.out.Missing[:missing]
			c.unseen(path, reasonUnreadable)
			return nil
		}
		if gone(err) {
			continue
		}
		if err != nil {
			return err
		}
		if err := c.entry(fd, step, manifestEntryOf(prefix+step, &st)); err != nil {
			return err
		}
	}
	return nil
}

func (c *capturer) openFolder(at int, name, path string) (int, error) {
	if c.open != nil {
		return c.open(at, name, path)
	}
	return openBeneath(at, name, asFolder, 0)
}

// steps returns what to do in a folder so that paths come in the order of their bytes: the name of each entry, and
// for a folder, with a slash, once more when it is to be entered.
func steps(fd int, names []dirent) []string {
	list := make([]string, 0, len(names)+len(names)/8)
	for _, n := range names {
		if n.kind == unix.DT_UNKNOWN {
			var st unix.Stat_t
			if unix.Fstatat(fd, n.name, &st, unix.AT_SYMLINK_NOFOLLOW) == nil {
				n.kind = byte(st.Mode & unix.S_IFMT >> 12) // as the DT_ constants are defined
			}
		}
		switch {
		case n.kind == unix.DT_DIR:
			list = append(list, n.name, n.name+"/")
		case !isUpload(n.name):
			list = append(list, n.name)
		}
	}
	slices.Sort(list)
	return list
}

func (c *capturer) entry(at int, name string, e ManifestEntry) error {
	switch e.Kind {
	case File:
		return c.file(at, name, e)
	case Symlink:
		target := make([]byte, e.Size+1)
		n, err := retry(func() (int, error) { return unix.Readlinkat(at, name, target) })
		if gone(err) || err == unix.EINVAL { // replaced meanwhile
			return nil
		}
		if err != nil {
			return err
		}
		if c.paths += n; c.paths > MaxPathBytes {
			c.missing(e.Path, reasonPaths)
		} else {
			e.Target = string(target[:n])
		}
	case Other:
		c.missing(e.Path, reasonSpecial)
	}
	c.out.Entries = append(c.out.Entries, e)
	return nil
}

func (c *capturer) file(at int, name string, e ManifestEntry) error {
	old := find(c.previous, e.Path)
	switch {
	case old != nil && old.Digest != "" && old.unchanged(&e):
		e.Digest = old.Digest
	case c.keep != nil:
		return c.read(at, name, e)
	}
	c.out.Entries = append(c.out.Entries, e)
	return nil
}

// read has a file kept.
func (c *capturer) read(at int, name string, e ManifestEntry) error {
	fd, err := openBeneath(at, name, asFile, 0)
	switch {
	case errors.Is(err, fs.ErrPermission):
		c.missing(e.Path, reasonUnreadable)
		c.out.Entries = append(c.out.Entries, e)
		return nil
	case errors.Is(err, unix.EXDEV):
		c.missing(e.Path, reasonMount)
		c.out.Entries = append(c.out.Entries, e)
		return nil
	case gone(err) || errors.Is(err, ErrNotAFile): // replaced meanwhile
		return nil
	case err != nil:
		return err
	}
	f := os.NewFile(uintptr(fd), name)
	defer f.Close()
	reason := reasonWritten
	for range captureTries {
		var before, after unix.Stat_t
		if err := unix.Fstat(fd, &before); err != nil {
			return err
		}
		e = manifestEntryOf(e.Path, &before)
		if e.Kind != File { // replaced meanwhile
			return nil
		}
		if !c.exactTimes {
			// A change in the tick of the last one would leave the time as it is.
			last := Change{Kind: Modified, Entry: Entry{ModTime: time.Unix(0, e.ChangeTime)}}
			if err := waitForTick(c.ctx, []Change{last}); err != nil {
				return err
			}
		}
		// A later change of a page through a shared mapping sets the time of the file only if the page was on its way to
		// the disk in between.
		_ = unix.SyncFileRange(fd, 0, 0, unix.SYNC_FILE_RANGE_WAIT_BEFORE|unix.SYNC_FILE_RANGE_WRITE)
		if _, err := f.Seek(0, io.SeekStart); err != nil {
			return err
		}
		digest, err := c.keep(c.ctx, f, entryOf(e.Path, &before))
		if refused, ok := errors.AsType[*NotKeptError](err); ok {
			reason = refused.Reason
			break
		}
		if err != nil {
			return fmt.Errorf("keep %q: %w", e.Path, err)
		}
		if err := unix.Fstat(fd, &after); err != nil {
			return err
		}
		if now := manifestEntryOf(e.Path, &after); e.unchanged(&now) {
			e.Digest = digest
			c.out.Entries = append(c.out.Entries, e)
			return nil
		}
	}
	c.missing(e.Path, reason)
	c.out.Entries = append(c.out.Entries, e)
	return nil
}

// unseen names a folder that is not looked into, and takes over what the previous manifest knew below it.
func (c *capturer) unseen(path, reason string) {
	c.missing(path, reason)
	known := below(c.previous, path)
	bytes := 0
	for i := range known {
		bytes += len(known[i].Path) + len(known[i].Target)
	}
	if len(c.out.Entries)+c.left+len(known) > maxManifestEntries || c.taken+bytes > MaxPathBytes {
		return // otherwise user code could make it grow without end
	}
	c.taken += bytes
	c.out.Entries = append(c.out.Entries, known...)
}

func (c *capturer) missing(path, reason string) {
	if len(reason) > maxReason {
		reason = strings.ToValidUTF8(reason[:maxReason-len("…")], "") + "…"
	}
	c.out.Missing = append(c.out.Missing, Missing{path, reason})
}

func (c *capturer) sortMissing() {
	slices.SortFunc(c.out.Missing, func(a, b Missing) int { return strings.Compare(a.Path, b.Path) })
}

// keptMode are the bits of a mode that a manifest describes. A file with the set-user-ID bit would act for its owner,
// who is the server's own user if the server is not root.
const keptMode = 0o1777

func manifestEntryOf(path string, st *unix.Stat_t) ManifestEntry {
	e := ManifestEntry{
		Path: path, Kind: kindOf(st.Mode), Mode: st.Mode & keptMode,
		ModTime: st.Mtim.Nano(), ChangeTime: st.Ctim.Nano(), Inode: st.Ino,
	}
	if e.Kind != Directory {
		e.Size, e.Space = st.Size, st.Blocks*512
	}
	return e
}
