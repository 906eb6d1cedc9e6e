package workspace

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"sort"
	"strings"

	"golang.org/x/sys/unix"
)

// ChangeKind says what happened to a file between two scans.
type ChangeKind string

// The kinds of changes.
const (
	Created  ChangeKind = "created"
	Modified ChangeKind = "modified"
	Deleted  ChangeKind = "deleted"
)

// Change is one file that differs from an earlier scan. Path is as on the disk, maybe not UTF-8, so that [Dir.Open]
// accepts it. Entry is the file as it is now, or the zero value for a deleted one.
type Change struct {
	Path  string
	Kind  ChangeKind
	Entry Entry
}

// Scan finds the regular files of the workspace and the changes since the previous scan, both by path in the order of
// its bytes. It reads and follows nothing: a file counts as changed if its size, modification time or inode differs.
// It skips special files and unfinished uploads.
//
// Some files are taken over from the previous scan unchanged: those more than [MaxDepth] folders deep, in folders that
// do not fit into [MaxEntries], in folders that the server may not read, and all files after those whose paths have
// [MaxPathBytes] in total. Then the Snapshot is Truncated.
//
// If the file system's clock is so coarse that a further change could go unnoticed, Scan waits for its next tick, a
// few milliseconds. ctx bounds the work and that wait.
func (d *Dir) Scan(ctx context.Context, previous Snapshot) (Snapshot, []Change, error) {
	s := scanner{ctx: ctx, previous: previous.Files, left: MaxEntries}
	s.files = make([]FileState, 0, len(previous.Files))
	err := d.use(func(root int) error { return s.folder(root, ".", "", 0) })
	if errors.Is(err, errPathsFull) {
		s.takeRest()
	} else if err != nil {
		return Snapshot{}, nil, fmt.Errorf("scan the workspace: %w", translate(err))
	}
	changes := s.compare()
	if !d.known().exactTimes {
		if err := waitForTick(ctx, changes); err != nil {
			return Snapshot{}, nil, fmt.Errorf("scan the workspace: %w", err)
		}
	}
	return Snapshot{Files: s.files, Truncated: len(s.unseen) > 0 || s.rest != ""}, changes, nil
}

type scanner struct {
	ctx      context.Context
	previous []FileState
	files    []FileState // by path, like previous
	unseen   []string    // what was not looked at: files, and folders with a trailing slash, in the same order
	left     int         // how many entries may still be looked at
	paths    int         // bytes of the paths in files
	rest     string      // nothing from this path on was looked at; "" if everything was
}

// MaxPathBytes bounds the total size of the paths that one scan finds.
const MaxPathBytes = 16 << 20

var errPathsFull = errors.New("the paths of the workspace's files are too long in total")

// folder scans the folder called name in the folder at; its files' paths start with prefix.
func (s *scanner) folder(at int, name, prefix string, depth int) error {
	if err := context.Cause(s.ctx); err != nil {
		return err
	}
	fd, err := openBeneath(at, name, asFolder, 0)
	switch {
	case errors.Is(err, fs.ErrPermission):
		s.takeOver(prefix)
		return nil
	case gone(err):
		return nil
	case err != nil:
		return err
	}
	defer unix.Close(fd)
	entries, err := readFolder(fd, s.left)
	if errors.Is(err, ErrTruncated) {
		s.takeOver(prefix)
		return nil
	}
	if err != nil && !gone(err) {
		return err
	}
	s.left -= len(entries)
	var st unix.Stat_t
	for _, e := range inPathOrder(fd, entries) {
		path := prefix + e.name
		if e.kind == unix.DT_DIR {
			if depth == MaxDepth {
				s.takeOver(path + "/")
			} else if err := s.folder(fd, e.name, path+"/", depth+1); err != nil {
				return err
			}
			continue
		}
		err := unix.Fstatat(fd, e.name, &st, unix.AT_SYMLINK_NOFOLLOW)
		switch {
		case errors.Is(err, fs.ErrPermission):
			s.takeOver(path)
		case err == nil && kindOf(st.Mode) == File:
			if s.paths += len(path); s.paths > MaxPathBytes {
				s.rest = path
				return errPathsFull
			}
			s.files = append(s.files, FileState{path, st.Size, st.Mtim.Nano(), st.Ino})
		case err != nil && !gone(err):
			return err
		}
	}
	return nil
}

// takeOver keeps what the previous scan knew of a file, or of the files in a folder.
func (s *scanner) takeOver(unseen string) {
	s.unseen = append(s.unseen, unseen)
	from := sort.Search(len(s.previous), func(i int) bool { return s.previous[i].Path >= unseen })
	to := from
	for to < len(s.previous) && covers(unseen, s.previous[to].Path) {
		to++
	}
	if len(s.files)+to-from <= 2*MaxEntries { // otherwise user code could make it grow without end
		s.files = append(s.files, s.previous[from:to]...)
	}
}

// takeRest keeps what the previous scan knew of the files from rest on.
func (s *scanner) takeRest() {
	from := sort.Search(len(s.previous), func(i int) bool { return s.previous[i].Path >= s.rest })
	for _, f := range s.previous[from:] {
		if s.paths += len(f.Path); s.paths > 2*MaxPathBytes { // otherwise user code could make it grow without end
			return
		}
		s.files = append(s.files, f)
	}
}

// covers reports whether path was not looked at because unseen was not.
func covers(unseen, path string) bool {
	return path == unseen || (unseen == "" || strings.HasSuffix(unseen, "/")) && strings.HasPrefix(path, unseen)
}

// compare merges both lists.
func (s *scanner) compare() (changes []Change) {
	old, now, unseen := s.previous, s.files, s.unseen
	add := func(kind ChangeKind, f FileState) {
		changes = append(changes, Change{f.Path, kind, f.Entry()})
	}
	for len(old) > 0 || len(now) > 0 {
		order := -1
		switch {
		case len(old) == 0:
			order = 1
		case len(now) > 0:
			order = strings.Compare(old[0].Path, now[0].Path)
		}
		switch {
		case order < 0:
			path := old[0].Path
			for len(unseen) > 0 && unseen[0] < path && !covers(unseen[0], path) {
				unseen = unseen[1:]
			}
			behind := s.rest != "" && path >= s.rest
			if !behind && (len(unseen) == 0 || !covers(unseen[0], path)) {
				changes = append(changes, Change{Path: path, Kind: Deleted})
			}
			old = old[1:]
		case order > 0:
			add(Created, now[0])
			now = now[1:]
		default:
			if old[0] != now[0] {
				add(Modified, now[0])
			}
			old, now = old[1:], now[1:]
		}
	}
	return changes
}

// inPathOrder keeps only files and folders, and sorts them in the order of the paths below them.
func inPathOrder(fd int, entries []dirent) []dirent {
	var st unix.Stat_t
	for i, e := range entries {
		if e.kind == unix.DT_UNKNOWN && unix.Fstatat(fd, e.name, &st, unix.AT_SYMLINK_NOFOLLOW) == nil {
			entries[i].kind = byte(st.Mode & unix.S_IFMT >> 12) // as the DT_ constants are defined
		}
	}
	entries = slices.DeleteFunc(entries, func(e dirent) bool {
		return e.kind != unix.DT_DIR && e.kind != unix.DT_REG || e.kind == unix.DT_REG && isUpload(e.name)
	})
	slices.SortFunc(entries, func(a, b dirent) int {
		n := min(len(a.name), len(b.name))
		if c := strings.Compare(a.name[:n], b.name[:n]); c != 0 {
			return c
		}
		return a.after(n) - b.after(n)
	})
	return entries
}

// after returns the byte that follows n bytes of the name in the paths that begin with it.
func (e dirent) after(n int) int {
	switch {
	case n < len(e.name):
		return int(e.name[n])
	case e.kind == unix.DT_DIR:
		return '/'
	}
	return -1
}
