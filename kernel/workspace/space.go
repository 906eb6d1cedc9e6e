package workspace

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// Space is what the file system reports about itself. If a quota, or a file system of its own, holds the workspace to
// its limit, that is what the workspace uses and may still use.
type Space struct {
	Used, Free             int64 // bytes
	UsedInodes, FreeInodes int64
}

// Space asks the file system, which takes microseconds. The result is the workspace's own only if its limit is
// enforced. The bytes of the workspace's own folder are left out; its inode is counted.
func (d *Dir) Space() (Space, error) {
	var st unix.Statfs_t
	var folder unix.Stat_t
	err := d.use(func(fd int) error { return errors.Join(unix.Fstatfs(fd, &st), unix.Fstat(fd, &folder)) })
	if err != nil {
		return Space{}, fmt.Errorf("ask the file system of the workspace: %w", err)
	}
	return Space{
		Used: max(0, int64(st.Blocks-st.Bfree)*st.Bsize-folder.Blocks*512), Free: int64(st.Bavail) * st.Bsize,
		UsedInodes: int64(st.Files - st.Ffree), FreeInodes: int64(st.Ffree),
	}, nil
}
