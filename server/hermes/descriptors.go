package hermes

import (
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
)

// oPath is O_PATH, which package syscall lacks: such a descriptor only names a file.
const oPath = 0x200000

// nullDevice is the device number of /dev/null.
const nullDevice = 1<<8 | 3

// maxRunner bounds the source of a runner, and maxTools that of the module that it loads.
const (
	maxRunner = 4 << 20
	maxTools  = 4 << 20
)

// descriptors are those that came with a request, in their order. They belong to the value until they are taken; -1 is one that was.
type descriptors []int

// close closes all that were not taken.
func (d descriptors) close() {
	for i, fd := range d {
		if fd >= 0 {
			_ = syscall.Close(fd)
		}
		d[i] = -1
	}
}

// take returns a descriptor, which then belongs to the caller.
func (d descriptors) take(index int) (fd int, ok bool) {
	if index < 0 || index >= len(d) || d[index] < 0 {
		return -1, false
	}
	fd, d[index] = d[index], -1
	return fd, true
}

// left counts those that were not taken.
func (d descriptors) left() (n int) {
	for _, fd := range d {
		if fd >= 0 {
			n++
		}
	}
	return n
}

// access returns how a descriptor may be used: O_RDONLY, O_WRONLY or O_RDWR.
func access(fd int) (int, error) {
	flags, _, errno := syscall.Syscall(syscall.SYS_FCNTL, uintptr(fd), syscall.F_GETFL, 0)
	if errno != 0 {
		return 0, errno
	}
	if flags&oPath != 0 {
		return 0, errors.New("it only names a file")
	}
	return int(flags) & syscall.O_ACCMODE, nil
}

// stream takes a standard stream: a pipe, whose reads and writes can then be called off; a file; or /dev/null. Others, such as a
// terminal, could block the server or change under its feet. wrong is the access that it must not have alone.
func (d descriptors) stream(field string, index, wrong int) (*os.File, error) {
	fd, ok := d.take(index)
	if !ok {
		return nil, refused(codeBadRequest, "%s names descriptor %d, which was not received, or which is used twice", field, index)
	}
	file, err := asStream(fd, field, wrong)
	if err != nil {
		_ = syscall.Close(fd)
		return nil, refused(codeBadRequest, "%s must be a pipe, a file or /dev/null, open for its use: %v", field, err)
	}
	return file, nil
}

func asStream(fd int, name string, wrong int) (*os.File, error) {
	var stat syscall.Stat_t
	if err := syscall.Fstat(fd, &stat); err != nil {
		return nil, err
	}
	mode, err := access(fd)
	if err != nil {
		return nil, err
	}
	if mode == wrong {
		return nil, errors.New("it is open for the other direction only")
	}
	switch kind := stat.Mode & syscall.S_IFMT; {
	case kind == syscall.S_IFIFO:
		if err := syscall.SetNonblock(fd, true); err != nil {
			return nil, err
		}
	case kind == syscall.S_IFREG, kind == syscall.S_IFCHR && stat.Rdev == nullDevice:
	default:
		return nil, fmt.Errorf("it is of another kind (mode %#o)", stat.Mode)
	}
	return os.NewFile(uintptr(fd), name), nil
}

// runner reads the source of the runner, whose descriptor is the first.
func (d descriptors) runner() ([]byte, error) {
	fd, ok := d.take(0)
	if !ok {
		return nil, refused(codeNoRunner, "the descriptor of the runner was not received")
	}
	file := os.NewFile(uintptr(fd), "runner")
	defer file.Close()
	if err := regular(file, -1); err != nil {
		return nil, refused(codeNotRegular, "the runner: %v", err)
	}
	if mode, err := access(fd); err != nil || mode != syscall.O_RDONLY {
		return nil, refused(codeUnreadable, "the descriptor of the runner must be open for reading only")
	}
	return source(file, "the runner", maxRunner)
}

// regular refuses a file that is not a regular one, or not of that user; -1 stands for any.
func regular(file *os.File, uid int) error {
	info, err := file.Stat()
	if err != nil {
		return err
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	switch {
	case !ok || !info.Mode().IsRegular():
		return errors.New("it is not a regular file")
	case uid >= 0 && int(stat.Uid) != uid:
		return fmt.Errorf("it belongs to user %d, not to the client's, %d", stat.Uid, uid)
	}
	return nil
}

// source reads a file from its beginning, wherever its cursor is, which the client shares.
func source(file *os.File, what string, limit int64) ([]byte, error) {
	text, err := io.ReadAll(io.NewSectionReader(file, 0, limit+1))
	switch {
	case err != nil:
		return nil, refused(codeFailed, "%s cannot be read: %v", what, errors.Unwrap(err))
	case int64(len(text)) > limit:
		return nil, refused(codeTooLarge, "%s has more than %d bytes", what, limit)
	case len(text) == 0:
		return nil, refused(codeBadRequest, "%s is empty", what)
	}
	return text, nil
}

// openOwned opens a regular file that the client names, if it belongs to the client. The server may be able to open files that the
// client cannot, and opening a device or pipe can do something by itself, so it looks first.
func openOwned(path, what string, uid int) (*os.File, error) {
	named, err := os.OpenFile(path, oPath|syscall.O_NOFOLLOW, 0)
	if err == nil {
		defer named.Close()
		if err = regular(named, uid); err == nil {
			var file *os.File
			if file, err = os.Open(fmt.Sprintf("/proc/self/fd/%d", named.Fd())); err == nil {
				return file, nil
			}
		}
	}
	var at *os.PathError
	if errors.As(err, &at) {
		err = at.Err
	}
	return nil, refused(codeBadRequest, "%s %.200q cannot be used: %v", what, path, err)
}
