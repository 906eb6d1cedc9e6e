package workspace

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// Space is what the file system says of itself. Where a quota or a file system of its own holds the workspace, that is
// what the workspace takes and what it may still take.
type Space struct {
	Used, Free             int64 // bytes
	UsedInodes, FreeInodes int64
}

// Space asks the file system, which takes microseconds. Only where something holds the workspace is it the workspace's
// own; the workspace's folder is counted.
func (d *Dir) Space() (Space, error) {
	var st unix.Statfs_t
	if err := d.use(func(fd int) error { return unix.Fstatfs(fd, &st) }); err != nil {
		return Space{}, fmt.Errorf("ask the file system of the workspace: %w", err)
	}
	return Space{
		Used: int64(st.Blocks-st.Bfree) * st.Bsize, Free: int64(st.Bavail) * st.Bsize,
		UsedInodes: int64(st.Files - st.Ffree), FreeInodes: int64(st.Ffree),
	}, nil
}
