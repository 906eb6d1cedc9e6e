package cgroup

import (
	"bytes"
	"errors"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// Files of control groups are read and written at the beginning and end of each cell, by plain system calls: package os
// takes three times as long.

// readControl reads a file. It uses buffer where that is long enough.
func readControl(dir, file string, buffer []byte) ([]byte, error) {
	path := dir + "/" + file
	fd, err := openControl(path, unix.O_RDONLY)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	if len(buffer) == 0 {
		buffer = make([]byte, 4096)
	}
	length := 0
	for {
		n, err := unix.Read(fd, buffer[length:])
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return nil, &os.PathError{Op: "read", Path: path, Err: err}
		case n == 0:
			return buffer[:length], nil
		}
		if length += n; length == len(buffer) {
			buffer = append(buffer, make([]byte, len(buffer))...)
		}
	}
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
	return strconv.ParseInt(string(bytes.TrimSpace(text)), 10, 64)
}

// ReadKeyed reads a file of lines "key number".
func ReadKeyed(dir, file string) (map[string]int64, error) {
	text, err := readControl(dir, file, nil)
	if err != nil {
		return nil, err
	}
	values := make(map[string]int64)
	for line := range bytes.Lines(text) {
		key, value, _ := bytes.Cut(bytes.TrimSpace(line), []byte(" "))
		values[string(key)], _ = strconv.ParseInt(string(value), 10, 64)
	}
	return values, nil
}
