package disk

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"
)

const loopControl = "/dev/loop-control"

// maxLoopTries bounds how often another process may take a loop device before we get one.
const maxLoopTries = 100

var errLoopsTaken = errors.New("each loop device that was free was taken by another at once")

// configuring keeps this process from competing with itself for loop devices.
var configuring sync.Mutex

// attach returns the loop device of an image, open: the existing one, or a new one. The device goes away with its last
// user.
//
// Two file systems at work in one image would ruin it. So the open file that a device works on holds a lock on the
// image, which only the end of the device releases.
func attach(path string) (*os.File, error) {
	file, err := os.OpenFile(path, os.O_RDWR|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer file.Close() // the device keeps it open
	err = lock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if err == nil {
		return newLoop(file)
	}
	if !errors.Is(err, unix.EWOULDBLOCK) {
		return nil, os.NewSyscallError("flock", err)
	}
	if device, err := findLoop(file); device != nil || err != nil {
		return device, err
	}
	// Its device is being attached or detached at this moment.
	if err := lock(int(file.Fd()), unix.LOCK_EX); err != nil {
		return nil, os.NewSyscallError("flock", err)
	}
	return newLoop(file)
}

// newLoop makes a block device of a locked file.
func newLoop(file *os.File) (*os.File, error) {
	control, err := os.OpenFile(loopControl, os.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer control.Close()
	configuring.Lock()
	defer configuring.Unlock()
	for range maxLoopTries {
		number, err := unix.IoctlRetInt(int(control.Fd()), unix.LOOP_CTL_GET_FREE)
		if err != nil {
			return nil, fmt.Errorf("find a free loop device: %w", err)
		}
		device, err := os.OpenFile(fmt.Sprintf("/dev/loop%d", number), os.O_RDWR|unix.O_CLOEXEC, 0)
		if err != nil {
			return nil, err
		}
		// The device writes past the page cache of the image; otherwise every page would be in memory twice.
		config := unix.LoopConfig{Fd: uint32(file.Fd()), Size: blockBytes}
		config.Info.Flags = unix.LO_FLAGS_AUTOCLEAR | unix.LO_FLAGS_DIRECT_IO
		err = unix.IoctlLoopConfigure(int(device.Fd()), &config)
		if err == nil {
			return device, nil
		}
		device.Close()
		if !errors.Is(err, unix.EBUSY) {
			return nil, fmt.Errorf("set up %s: %w", device.Name(), err)
		}
	}
	return nil, errLoopsTaken
}

// findLoop returns the device of an image, or nil.
func findLoop(file *os.File) (*os.File, error) {
	var st unix.Stat_t
	if err := unix.Fstat(int(file.Fd()), &st); err != nil {
		return nil, os.NewSyscallError("fstat", err)
	}
	bound, err := filepath.Glob("/sys/block/loop*/loop")
	if err != nil {
		return nil, err
	}
	for _, dir := range bound {
		path := "/dev/" + filepath.Base(filepath.Dir(dir))
		device, err := os.OpenFile(path, os.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			continue // it is going away at this moment, or we may not open it
		}
		if info, err := unix.IoctlLoopGetStatus64(int(device.Fd())); err == nil && info.Device == st.Dev && info.Inode == st.Ino {
			return device, nil
		}
		device.Close()
	}
	return nil, nil
}
