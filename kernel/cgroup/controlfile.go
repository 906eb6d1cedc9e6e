package cgroup

import (
	"bytes"
	"errors"
	"os"
	"strconv"
	"sync"

	"golang.org/x/sys/unix"

	"talaria/kernel/procfs"
)

// Control files are read and written with plain system calls: package os takes three times as long.

// controls are the control files of one directory that are read and written for each cell. A file stays open from its first
// use, since opening it takes longer than reading it. The methods are safe for concurrent use; after close they fail with
// [fs.ErrNotExist].
type controls struct {
	dir string

	mu     sync.Mutex     // held for each system call, so that no descriptor is closed under it
	open   map[string]int // descriptors by the name of the file
	closed bool
}

// with calls f with the descriptor of a file, which can be written to if the caller's user may do that.
func (c *controls) with(file string, f func(fd int) (int, error)) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	path := c.dir + "/" + file
	if c.closed {
		return 0, &os.PathError{Op: "open", Path: path, Err: unix.ENOENT}
	}
	fd, ok := c.open[file]
	if !ok {
		var err error
		if fd, err = openControl(path, unix.O_RDWR); errors.Is(err, unix.EACCES) {
			fd, err = openControl(path, unix.O_RDONLY)
		}
		if err != nil {
			return 0, err
		}
		if c.open == nil {
			c.open = make(map[string]int)
		}
		c.open[file] = fd
	}
	for {
		n, err := f(fd)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return 0, &os.PathError{Op: "use", Path: path, Err: err}
		}
		return n, nil
	}
}

// read returns the contents of a file that fits into buffer.
func (c *controls) read(file string, buffer []byte) ([]byte, error) {
	n, err := c.with(file, func(fd int) (int, error) { return unix.Pread(fd, buffer, 0) })
	return buffer[:n], err
}

func (c *controls) write(file, value string) error {
	_, err := c.with(file, func(fd int) (int, error) { return unix.Pwrite(fd, []byte(value), 0) })
	return err
}

func (c *controls) number(file string) (int64, error) {
	var buffer [64]byte
	text, err := c.read(file, buffer[:])
	if err != nil {
		return 0, err
	}
	return parseNumber(text)
}

func (c *controls) keyed(file string) (map[string]int64, error) {
	var buffer [4096]byte
	text, err := c.read(file, buffer[:])
	if err != nil {
		return nil, err
	}
	return parseKeyed(text), nil
}

// value returns the number of one key of a file whose lines have the form "key number"; 0 if the file does not have the key.
func (c *controls) value(file, key string) (int64, error) {
	var buffer [8192]byte
	text, err := c.read(file, buffer[:])
	if err != nil {
		return 0, err
	}
	for line := range bytes.Lines(text) {
		if name, number, _ := bytes.Cut(line, []byte(" ")); string(name) == key {
			return parseNumber(number)
		}
	}
	return 0, nil
}

func (c *controls) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	for _, fd := range c.open {
		unix.Close(fd)
	}
	c.open = nil
}

// readControl reads a file, into buffer if that is large enough.
func readControl(dir, file string, buffer []byte) ([]byte, error) {
	return procfs.ReadFile(dir+"/"+file, buffer)
}

func writeControl(dir, file, value string) error {
	path := dir + "/" + file
	fd, err := openControl(path, unix.O_WRONLY)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	for {
		_, err := unix.Write(fd, []byte(value))
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return &os.PathError{Op: "write", Path: path, Err: err}
		default:
			return nil
		}
	}
}

func openControl(path string, flags int) (int, error) {
	for {
		fd, err := unix.Open(path, flags|unix.O_CLOEXEC, 0)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return -1, &os.PathError{Op: "open", Path: path, Err: err}
		default:
			return fd, nil
		}
	}
}

func readNumber(dir, file string) (int64, error) {
	var buffer [64]byte
	text, err := readControl(dir, file, buffer[:])
	if err != nil {
		return 0, err
	}
	return parseNumber(text)
}

func parseNumber(text []byte) (int64, error) {
	return strconv.ParseInt(string(bytes.TrimSpace(text)), 10, 64)
}

// ReadKeyed reads a file whose lines have the form "key number".
func ReadKeyed(dir, file string) (map[string]int64, error) {
	text, err := readControl(dir, file, nil)
	if err != nil {
		return nil, err
	}
	return parseKeyed(text), nil
}

func parseKeyed(text []byte) map[string]int64 {
	values := make(map[string]int64)
	for line := range bytes.Lines(text) {
		key, value, _ := bytes.Cut(bytes.TrimSpace(line), []byte(" "))
		values[string(key)], _ = strconv.ParseInt(string(value), 10, 64)
	}
	return values
}
