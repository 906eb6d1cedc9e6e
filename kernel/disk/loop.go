package disk

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

const loopControl = "/dev/loop-control"

// maxLoopTries bounds how often another process may take a loop device before we get one.
const maxLoopTries = 100

var errLoopsTaken = errors.New("each free loop device was taken by another process at once")

// configuring keeps this process from competing with itself for loop devices.
var configuring sync.Mutex

// attach returns the loop device of an image, open: the existing one, or a new one. The device goes away with its last
// user.
//
// Two file systems at work in one image would ruin it. So the open file that a device works on holds a lock on the
// image, which only the end of the device releases.
func attach(path string) (*os.File, error) {
	image, err := os.OpenFile(path, os.O_RDWR|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer image.Close() // the device keeps it open
	err = lock(int(image.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if err == nil {
		return newLoop(image)
	}
	if !errors.Is(err, unix.EWOULDBLOCK) {
		return nil, os.NewSyscallError("flock", err)
	}
	if device, err := findLoop(image); device != nil || err != nil {
		return device, err
	}
	// Its device is being attached or detached at this moment.
	if err := lock(int(image.Fd()), unix.LOCK_EX); err != nil {
		return nil, os.NewSyscallError("flock", err)
	}
	return newLoop(image)
}

// newLoop makes a block device of a locked image.
func newLoop(image *os.File) (*os.File, error) {
	id, err := identify(image)
	if err != nil {
		return nil, err
	}
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
		device, err := os.OpenFile(loopPath(number), os.O_RDWR|unix.O_CLOEXEC, 0)
		if err != nil {
			return nil, err
		}
		// The device writes past the page cache of the image; otherwise every page would be in memory twice.
		config := unix.LoopConfig{Fd: uint32(image.Fd()), Size: blockBytes}
		config.Info.Flags = unix.LO_FLAGS_AUTOCLEAR | unix.LO_FLAGS_DIRECT_IO
		err = unix.IoctlLoopConfigure(int(device.Fd()), &config)
		if err == nil {
			attached.Lock()
			attached.images[number] = id
			attached.Unlock()
			return device, nil
		}
		device.Close()
		if !errors.Is(err, unix.EBUSY) {
			return nil, fmt.Errorf("set up %s: %w", device.Name(), err)
		}
	}
	return nil, errLoopsTaken
}

// fileID identifies an image on this machine.
type fileID struct{ device, inode uint64 }

// attached maps the number of a loop device to the image that it was last seen to work on, so that an image's device is
// found without a look at each device of the machine.
var attached = struct {
	sync.Mutex
	images map[int]fileID
}{images: map[int]fileID{}}

// findLoop returns the device of an image, or nil.
func findLoop(image *os.File) (*os.File, error) {
	wanted, err := identify(image)
	if err != nil {
		return nil, err
	}
	if device := remembered(wanted); device != nil {
		return device, nil
	}
	if err := readAttached(); err != nil {
		return nil, err
	}
	return remembered(wanted), nil
}

func identify(image *os.File) (fileID, error) {
	var st unix.Stat_t
	if err := unix.Fstat(int(image.Fd()), &st); err != nil {
		return fileID{}, os.NewSyscallError("fstat", err)
	}
	return fileID{st.Dev, st.Ino}, nil
}

// remembered returns the device that attached names for an image, or nil if there is none or it has another image now.
func remembered(wanted fileID) *os.File {
	attached.Lock()
	defer attached.Unlock()
	for number, image := range attached.images {
		if image != wanted {
			continue
		}
		device, now := openLoop(number)
		if now == wanted {
			return device
		}
		if device != nil {
			device.Close()
		}
		delete(attached.images, number)
	}
	return nil
}

// readAttached looks at each loop device of the machine.
func readAttached() error {
	bound, err := filepath.Glob("/sys/block/loop*/loop")
	if err != nil {
		return err
	}
	images := make(map[int]fileID, len(bound))
	for _, dir := range bound {
		number, err := strconv.Atoi(strings.TrimPrefix(filepath.Base(filepath.Dir(dir)), "loop"))
		if err != nil {
			continue
		}
		if device, image := openLoop(number); device != nil {
			images[number] = image
			device.Close()
		}
	}
	attached.Lock()
	defer attached.Unlock()
	attached.images = images
	return nil
}

// openLoop opens a device and returns the image that it works on. Both are zero if the device is going away at this
// moment or we may not open it.
func openLoop(number int) (*os.File, fileID) {
	device, err := os.OpenFile(loopPath(number), os.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fileID{}
	}
	info, err := unix.IoctlLoopGetStatus64(int(device.Fd()))
	if err != nil {
		device.Close()
		return nil, fileID{}
	}
	return device, fileID{info.Device, info.Inode}
}

func loopPath(number int) string { return "/dev/loop" + strconv.Itoa(number) }
