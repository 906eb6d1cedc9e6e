package disk

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"

	"talaria/kernel"
)

// From linux/fs.h, linux/quota.h and linux/dqblk_xfs.h.
const (
	fsGetXattr       = 0x801c581f
	fsSetXattr       = 0x401c5820
	inheritProject   = 0x200
	projectQuota     = 2
	getQuota         = 0x800007<<8 | projectQuota
	setQuota         = 0x800008<<8 | projectQuota
	getState         = ('X'<<8+5)<<8 | projectQuota
	projectEnforced  = 1 << 5
	bothLimits       = 5
	quotaBlock       = 1024
	firstProject     = 1 << 30 // our numbers are in a range that nobody assigns by hand
	maxProjectTries  = 16
	stateBufferBytes = 256
)

type fsxattr struct {
	flags, extent, extents, project, cowExtent uint32
	_                                          [8]byte
}

type quotaBlockInfo struct {
	hardBlocks, softBlocks, space  uint64
	hardInodes, softInodes, inodes uint64
	blockTime, inodeTime           uint64
	valid                          uint32
	_                              uint32
}

var (
	errNoQuota       = errors.New("the file system has no project quota, or it is not enabled")
	errNotEnforced   = errors.New("the file system counts projects, but does not enforce their quotas")
	errProjectsTaken = errors.New("each project id that was tried is in use")
)

// project is the number under which a file system counts the contents of a workspace.
type project struct {
	path string // of the workspace
	id   uint32
}

// newProject makes an empty folder, and everything that will be in it, a project of its own.
func newProject(path string, bytes int64) (*project, error) {
	for range maxProjectTries {
		var random [4]byte
		rand.Read(random[:])
		p := &project{path: path, id: firstProject | binary.NativeEndian.Uint32(random[:])>>2}
		switch used, err := p.used(); {
		case err != nil:
			return nil, err
		case used:
			continue
		}
		if err := p.setLimit(bytes); err != nil {
			return nil, err
		}
		if err := p.assign(); err != nil {
			return nil, errors.Join(err, p.setLimit(0))
		}
		return p, nil
	}
	return nil, errProjectsTaken
}

// projectOf returns the project of a workspace, or nil if the project is not ours or the file system has no quotas.
func projectOf(path string) (*project, error) {
	var attr fsxattr
	err := onFolder(path, func(fd int) error {
		if err := ioctl(fd, fsGetXattr, &attr); err != nil {
			return err
		}
		return enforced(fd)
	})
	if err != nil || attr.project < firstProject || attr.flags&inheritProject == 0 {
		return nil, err
	}
	return &project{path, attr.project}, nil
}

func (p *project) assign() error {
	err := onFolder(p.path, func(fd int) error {
		var attr fsxattr
		if err := ioctl(fd, fsGetXattr, &attr); err != nil {
			return err
		}
		attr.project, attr.flags = p.id, attr.flags|inheritProject
		return ioctl(fd, fsSetXattr, &attr)
	})
	if err != nil {
		return fmt.Errorf("set the project of a workspace: %w", err)
	}
	return nil
}

// used reports whether anything counts for the project, or it has a limit.
func (p *project) used() (bool, error) {
	var q quotaBlockInfo
	err := p.quotactl(getQuota, &q)
	if errors.Is(err, unix.ENOENT) {
		return false, nil
	}
	return q != quotaBlockInfo{valid: q.valid, blockTime: q.blockTime, inodeTime: q.inodeTime}, err
}

// setLimit sets the limits of the project for that many bytes; 0 means none. The workspace's own folder does not
// count.
func (p *project) setLimit(bytes int64) error {
	q := quotaBlockInfo{valid: bothLimits}
	if bytes > 0 {
		var st unix.Stat_t
		if err := unix.Lstat(p.path, &st); err != nil {
			return &os.PathError{Op: "stat", Path: p.path, Err: err}
		}
		q.hardBlocks = uint64(bytes+st.Blocks*512) / quotaBlock
		q.hardInodes = uint64(kernel.Limits{DiskBytes: bytes}.Inodes() + 1)
	}
	if err := p.quotactl(setQuota, &q); err != nil {
		return fmt.Errorf("set the quota of a workspace: %w", err)
	}
	return nil
}

func (p *project) quotactl(command int, q *quotaBlockInfo) error {
	return onFolder(p.path, func(fd int) error { return quotactl(fd, command, p.id, unsafe.Pointer(q)) })
}

// enforced returns an error if projects are not held to their quotas where fd is.
func enforced(fd int) error {
	var state [stateBufferBytes]byte
	if err := quotactl(fd, getState, 0, unsafe.Pointer(&state)); err != nil {
		return err
	}
	if binary.NativeEndian.Uint16(state[2:])&projectEnforced == 0 {
		return errNotEnforced
	}
	return nil
}

func quotactl(fd, command int, id uint32, data unsafe.Pointer) error {
	_, _, errno := unix.Syscall6(unix.SYS_QUOTACTL_FD, uintptr(fd), uintptr(command), uintptr(id), uintptr(data), 0, 0)
	switch errno {
	case 0:
		return nil
	case unix.ESRCH, unix.ENOSYS, unix.EOPNOTSUPP, unix.ENOTBLK:
		return fmt.Errorf("%w (%w)", errNoQuota, errno)
	}
	return os.NewSyscallError("quotactl_fd", errno)
}

func ioctl(fd, request int, attr *fsxattr) error {
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), uintptr(request), uintptr(unsafe.Pointer(attr)))
	if errno == unix.ENOTTY || errno == unix.EOPNOTSUPP {
		return fmt.Errorf("%w (%w)", errNoQuota, errno)
	}
	if errno != 0 {
		return os.NewSyscallError("ioctl", errno)
	}
	return nil
}

// onFolder opens a folder whose path user code cannot change.
func onFolder(path string, do func(fd int) error) error {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return &os.PathError{Op: "open", Path: path, Err: err}
	}
	defer unix.Close(fd)
	return do(fd)
}
