package workspace

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"golang.org/x/sys/unix"
)

// maxFurtherNames bounds how many names measuring the usage looks at that belong to files that it has counted already.
// Nothing else bounds them: they take next to no space. Tests lower it.
var maxFurtherNames = 1 << 19

// Usage returns what the workspace uses on the disk: the bytes of allocated blocks, so that holes are free, and the
// inodes of files, folders and links of any kind, each counted once however many names it has. The workspace's own
// folder is not counted. With [ErrTruncated] a folder is more than [MaxDepth] deep; with [ErrUnseen] a folder is so
// deep, or cannot be read, or files have so many names, that both results are lower bounds. ctx bounds the work.
func (d *Dir) Usage(ctx context.Context) (bytes, inodes int64, err error) {
	linked := map[uint64]bool{}
	further := 0
	err = d.walk(ctx, func(_ int, _ string, st *unix.Stat_t) error {
		if st.Nlink > 1 && kindOf(st.Mode) != Directory {
			if linked[st.Ino] {
				if further++; further > maxFurtherNames {
					return ErrUnseen
				}
				return nil
			}
			linked[st.Ino] = true
		}
		bytes += st.Blocks * 512
		inodes++
		return nil
	})
	if err != nil {
		return bytes, inodes, fmt.Errorf("measure the workspace: %w", translate(err))
	}
	return bytes, inodes, nil
}

// walk calls visit for each entry below the root, of any kind, and for a folder before its contents. It follows no
// links, skips entries that disappear meanwhile, and continues past folders that it cannot enter; it returns ErrUnseen
// in the end if there were any.
func (d *Dir) walk(ctx context.Context, visit func(at int, name string, st *unix.Stat_t) error) error {
	return d.use(func(root int) error { return walk(ctx, root, visit) })
}

func walk(ctx context.Context, root int, visit func(at int, name string, st *unix.Stat_t) error) error {
	deep, unseen := false, false
	var folder func(at int, name string, depth int) error
	folder = func(at int, name string, depth int) error {
		fd, err := openBeneath(at, name, asFolder, 0)
		switch {
		case errors.Is(err, fs.ErrPermission), errors.Is(err, unix.EMFILE), errors.Is(err, unix.ENFILE):
			unseen = true
			return nil
		case gone(err):
			return nil
		case err != nil:
			return err
		}
		defer unix.Close(fd)
		var st unix.Stat_t
		for n, err := range eachName(fd) {
			if gone(err) {
				return nil
			}
			if err != nil {
				return err
			}
			if err := context.Cause(ctx); err != nil {
				return err
			}
			err := unix.Fstatat(fd, n.name, &st, unix.AT_SYMLINK_NOFOLLOW)
			if errors.Is(err, fs.ErrPermission) {
				unseen = true
				continue
			}
			if gone(err) {
				continue
			}
			if err != nil {
				return err
			}
			isFolder := kindOf(st.Mode) == Directory
			if err := visit(fd, n.name, &st); err != nil {
				return err
			}
			if !isFolder {
				continue
			}
			deep = deep || depth >= MaxDepth
			if depth == maxUsageDepth {
				unseen = true
			} else {
				if err := folder(fd, n.name, depth+1); err != nil {
					return err
				}
			}
		}
		return nil
	}
	err := folder(root, ".", 0)
	switch {
	case err == nil && unseen:
		return ErrUnseen
	case err == nil && deep:
		return ErrTruncated
	}
	return err
}

// gone reports whether the error means that something disappeared, or was replaced by something of another kind, since
// its name was read.
func gone(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, ErrNotAFolder) || errors.Is(err, ErrOutside)
}
