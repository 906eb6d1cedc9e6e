package kernel

import (
	"fmt"

	"talaria/kernel/workspace"
)

// DiskEnforcement is what holds a workspace to its bytes and inodes.
type DiskEnforcement string

// What holds a workspace.
const (
	DiskWatched DiskEnforcement = ""      // nothing: the server measures it
	DiskQuota   DiskEnforcement = "quota" // a project quota of the file system
	DiskImage   DiskEnforcement = "image" // it is a file system of its own
)

// DiskSlackBytes is how far a session may exceed a watched disk limit before it is killed.
const DiskSlackBytes = 64 << 20

// emptyImageInodes is the number of inodes that ext4 uses for itself; the workspace's own folder is one of them.
const emptyImageInodes = 10

// EnforcedUsage returns what files use of a workspace whose limit is enforced, by the figures of its file system.
func EnforcedUsage(hold DiskEnforcement, space workspace.Space) (bytes, inodes int64) {
	empty := int64(1)
	if hold == DiskImage {
		empty = emptyImageInodes
	}
	return space.Used, max(0, space.UsedInodes-empty)
}

// DiskLayer says in words for people what holds a workspace to its limit, and how many files an image has room for.
func DiskLayer(hold DiskEnforcement, limits Limits, imageFiles int64) string {
	size := fmt.Sprintf("%d MiB", limits.DiskBytes>>20)
	switch hold {
	case DiskQuota:
		return fmt.Sprintf("disk: project quota, %s and %d files; RLIMIT_FSIZE for each file", size, limits.Inodes())
	case DiskImage:
		return fmt.Sprintf("disk: loop image, %s and %d files; RLIMIT_FSIZE for each file", size, imageFiles)
	}
	return fmt.Sprintf("disk: watched, %s and %d files, may overshoot by %d MiB or by what is written in 1 s (4 s by code "+
		"that continues after its cell), files that are only mapped may be missed; RLIMIT_FSIZE for each file", size, limits.Inodes(), DiskSlackBytes>>20)
}
