package workspace

import (
	"fmt"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Kind says what an entry is.
type Kind string

// The kinds of entries.
const (
	File      Kind = "file"
	Directory Kind = "directory"
	Symlink   Kind = "symlink"
	Other     Kind = "other" // a pipe, a socket, a device
)

// Entry is one thing in the workspace, as it was when it was looked at.
type Entry struct {
	Name    string
	Path    string // relative to the workspace
	Kind    Kind
	Size    int64
	Space   int64 // on the disk: less than Size if the file has holes; 0 if it was not measured
	ModTime time.Time
	Inode   uint64
}

// List returns the entries of a folder, one level, by name; "" and "." mean the workspace itself. Links are listed as
// such and never followed; unfinished uploads are left out. A name that is not UTF-8 on the disk is listed with U+FFFD
// in it, and cannot be addressed by the listed name. With more than [MaxEntries], or paths of more than [MaxPathBytes]
// in total, it returns some of them with [ErrTruncated].
func (d *Dir) List(folder string) ([]Entry, error) {
	where, err := folderPath(folder)
	if err != nil {
		return nil, explain("list", folder, err)
	}
	fd := -1
	if err := d.use(func(root int) error {
		fd, err = openBeneath(root, where, asFolder, 0)
		return err
	}); err != nil {
		return nil, explain("list", folder, err)
	}
	defer unix.Close(fd)
	names, err := readFolder(fd, MaxEntries)
	if err != nil && names == nil {
		return nil, explain("list", folder, err)
	}
	entries := make([]Entry, 0, len(names))
	var st unix.Stat_t
	paths := 0
	for _, n := range names {
		if paths += len(where) + len(n.name) + 1; paths > MaxPathBytes {
			err = ErrTruncated
			break
		}
		if isUpload(n.name) || unix.Fstatat(fd, n.name, &st, unix.AT_SYMLINK_NOFOLLOW) != nil {
			continue // our own, or gone meanwhile
		}
		entries = append(entries, entryOf(path.Join(where, n.name), &st))
	}
	slices.SortFunc(entries, func(a, b Entry) int { return strings.Compare(a.Name, b.Name) })
	for i := range entries {
		entries[i].Name = strings.ToValidUTF8(entries[i].Name, "\uFFFD")
		entries[i].Path = strings.ToValidUTF8(entries[i].Path, "\uFFFD")
	}
	if err != nil {
		return entries, explain("list", folder, err)
	}
	return entries, nil
}

// Open opens a regular file for reading; the caller closes it. The file may grow while it is read: a caller that has
// announced the size of the entry must read no more than that.
func (d *Dir) Open(name string) (*os.File, Entry, error) {
	if err := checkPath(name); err != nil {
		return nil, Entry{}, explain("open", name, err)
	}
	var f *os.File
	var entry Entry
	err := d.use(func(root int) error {
		// O_NONBLOCK: neither a pipe without a writer nor a lease on the file makes us wait.
		fd, err := openBeneath(root, name, asFile, 0)
		if err != nil {
			return err
		}
		var st unix.Stat_t
		if err = unix.Fstat(fd, &st); err == nil && st.Mode&unix.S_IFMT != unix.S_IFREG {
			err = ErrNotAFile
		}
		if err != nil {
			unix.Close(fd)
			return err
		}
		entry = entryOf(name, &st)
		f = os.NewFile(uintptr(fd), name)
		return nil
	})
	if err != nil {
		return nil, Entry{}, explain("open", name, err)
	}
	return f, entry, nil
}

// Stat returns the entry at a path, of any kind except a link, which is [ErrOutside]. "" and "." mean the workspace
// itself.
func (d *Dir) Stat(name string) (Entry, error) {
	where, err := name, error(nil)
	if name == "" || name == "." {
		where = "."
	} else if err = checkPath(name); err != nil {
		return Entry{}, explain("stat", name, err)
	}
	var entry Entry
	err = d.use(func(root int) error {
		fd, err := openBeneath(root, where, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		var st unix.Stat_t
		if err := unix.Fstat(fd, &st); err != nil {
			return err
		}
		if entry = entryOf(where, &st); entry.Kind == Symlink {
			return ErrOutside
		}
		return nil
	})
	if err != nil {
		return Entry{}, explain("stat", name, err)
	}
	return entry, nil
}

func entryOf(where string, st *unix.Stat_t) Entry {
	return Entry{
		Name: path.Base(where), Path: where, Kind: kindOf(st.Mode), Size: st.Size, Space: st.Blocks * 512,
		ModTime: time.Unix(st.Mtim.Sec, st.Mtim.Nsec), Inode: st.Ino,
	}
}

func kindOf(mode uint32) Kind {
	switch mode & unix.S_IFMT {
	case unix.S_IFREG:
		return File
	case unix.S_IFDIR:
		return Directory
	case unix.S_IFLNK:
		return Symlink
	}
	return Other
}

func (e Entry) String() string { return fmt.Sprintf("%s %q (%d bytes)", e.Kind, e.Path, e.Size) }
