package disk

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

const (
	loopMajor = 7
	// extShutdown is EXT4_IOC_SHUTDOWN, and extNoFlush makes it write nothing: fs/ext4/ext4.h.
	extShutdown = 0x8004587d
	extNoFlush  = 2
)

// mount makes a detached mount of the ext4 file system on a device. All mounts of a device share one file system. The
// file is the root of the mount, open with O_PATH; the mount ends when it is closed, except for processes that hold
// something open in it.
func mount(device string) (*os.File, error) {
	fs, err := unix.Fsopen("ext4", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("fsopen", err)
	}
	defer unix.Close(fs)
	// Freed space goes back to the disk. Tables are not zeroed, since a block that was never written reads as zeros.
	err = errors.Join(
		unix.FsconfigSetString(fs, "source", device),
		unix.FsconfigSetFlag(fs, "discard"),
		unix.FsconfigSetFlag(fs, "noinit_itable"),
		unix.FsconfigSetString(fs, "errors", "remount-ro"),
	)
	if err == nil {
		err = unix.FsconfigCreate(fs)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w%s", device, os.NewSyscallError("fsconfig", err), complaints(fs))
	}
	attributes := unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV | unix.MOUNT_ATTR_NOATIME
	fd, err := unix.Fsmount(fs, unix.FSMOUNT_CLOEXEC, attributes)
	if err != nil {
		return nil, os.NewSyscallError("fsmount", err)
	}
	return os.NewFile(uintptr(fd), device), nil
}

// complaints returns what the kernel says about a mount that failed.
func complaints(fs int) string {
	text := ""
	var line [256]byte
	for range 8 {
		n, err := unix.Read(fs, line[:])
		if err != nil || n <= 0 {
			break
		}
		text += ": " + string(line[:n])
	}
	return text
}

// Clone makes another mount of an image's file system, for a sandbox. workspace is a mount of it that belongs to the
// caller; it may have come from another process.
func Clone(workspace *os.File) (*os.File, error) {
	device, err := deviceOf(workspace)
	if err != nil {
		return nil, err
	}
	f, err := mount("/dev/" + device)
	if err != nil {
		return nil, fmt.Errorf("mount the workspace: %w", err)
	}
	var had, has unix.Stat_t
	err = errors.Join(unix.Fstat(int(workspace.Fd()), &had), unix.Fstat(int(f.Fd()), &has))
	if err == nil && (had.Dev != has.Dev || had.Ino != has.Ino) {
		err = errors.New("mount the workspace: its device has a different file system")
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// deviceOf returns the name of the loop device that a file is on.
func deviceOf(f *os.File) (string, error) {
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return "", os.NewSyscallError("fstat", err)
	}
	if unix.Major(st.Dev) != loopMajor {
		return "", fmt.Errorf("the workspace is not in an image: its device is %d:%d", unix.Major(st.Dev), unix.Minor(st.Dev))
	}
	// Partitions of the device would shift its number; then no such file exists.
	return "loop" + strconv.Itoa(int(unix.Minor(st.Dev))), nil
}

// setAvailable limits the file system whose root is f to so many bytes in all, for everybody: it keeps the rest back,
// with the mechanism that normally reserves space for its own needs.
func setAvailable(f *os.File, bytes int64) error {
	capacity, err := capacityOf(f)
	if err != nil {
		return err
	}
	device, err := deviceOf(f)
	if err != nil {
		return err
	}
	kept := max(0, capacity-bytes) / blockBytes
	path := filepath.Join("/sys/fs/ext4", device, "reserved_clusters")
	if err := os.WriteFile(path, strconv.AppendInt(nil, kept, 10), 0); err != nil {
		return fmt.Errorf("limit an image: %w", err)
	}
	return nil
}

// capacityOf returns what files could use if nothing was kept back.
func capacityOf(f *os.File) (int64, error) {
	var st unix.Statfs_t
	if err := unix.Fstatfs(int(f.Fd()), &st); err != nil {
		return 0, os.NewSyscallError("fstatfs", err)
	}
	return int64(st.Blocks-1) * st.Bsize, nil // without the root folder's first block
}

// own gives the root of a file system to a user.
func own(f *os.File, uid int) error {
	var st unix.Stat_t
	err := unix.Fstat(int(f.Fd()), &st)
	if err == nil && int(st.Uid) != uid {
		err = unix.Fchownat(int(f.Fd()), "", uid, uid, unix.AT_EMPTY_PATH)
	}
	if err != nil {
		return fmt.Errorf("give the workspace to user %d: %w", uid, err)
	}
	return nil
}

// reopen opens a folder for reading that is open with O_PATH.
func reopen(f *os.File) (*os.File, error) {
	fd, err := unix.Openat(int(f.Fd()), ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open the workspace: %w", err)
	}
	return os.NewFile(uintptr(fd), f.Name()), nil
}

func shutDown(f *os.File) error {
	root, err := reopen(f)
	if err != nil {
		return err
	}
	defer root.Close()
	if err := unix.IoctlSetPointerInt(int(root.Fd()), extShutdown, extNoFlush); err != nil {
		return os.NewSyscallError("ioctl EXT4_IOC_SHUTDOWN", err)
	}
	return nil
}
