package workspace

import (
	"bytes"
	"encoding/binary"
	"iter"
	"sync"

	"golang.org/x/sys/unix"
)

// dirent is one entry of a folder as getdents64 returns it; kind is a DT_ constant.
type dirent struct {
	name string
	kind byte
}

// The layout of struct linux_dirent64: inode, offset, length of the record, kind, name.
const (
	direntLen  = 16
	direntKind = 18
	direntName = 19
)

var direntBuffers = sync.Pool{New: func() any { return new([64 << 10]byte) }}

// readFolder reads the names in an open folder, in the file system's order, without "." and "..". If there are more
// than limit, it returns that many and ErrTruncated.
func readFolder(fd, limit int) ([]dirent, error) {
	names := []dirent{}
	for {
		more, err := readNames(fd)
		if err != nil {
			return nil, err
		}
		if len(more) == 0 {
			return names, nil
		}
		if room := limit - len(names); len(more) > room {
			return append(names, more[:room]...), ErrTruncated
		}
		names = append(names, more...)
	}
}

// eachName reads the names in an open folder as readFolder does, but holds only some of them at a time: user code can give
// one file any number of names.
func eachName(fd int) iter.Seq2[dirent, error] {
	return func(yield func(dirent, error) bool) {
		for {
			names, err := readNames(fd)
			if err != nil {
				yield(dirent{}, err)
				return
			}
			if len(names) == 0 {
				return
			}
			for _, n := range names {
				if !yield(n, nil) {
					return
				}
			}
		}
	}
}

// readNames reads the next names in an open folder, some thousands at most; none at its end.
func readNames(fd int) ([]dirent, error) {
	buf := direntBuffers.Get().(*[64 << 10]byte)
	defer direntBuffers.Put(buf)
	var names []dirent
	for len(names) == 0 {
		n, err := retry(func() (int, error) { return unix.Getdents(fd, buf[:]) })
		if err != nil {
			return nil, err
		}
		if n == 0 {
			break
		}
		for rest := buf[:n]; len(rest) > direntName; {
			length := int(binary.NativeEndian.Uint16(rest[direntLen:]))
			record := rest[:length]
			rest = rest[length:]
			text := record[direntName:]
			text = text[:bytes.IndexByte(text, 0)]
			if string(text) == "." || string(text) == ".." {
				continue
			}
			names = append(names, dirent{string(text), record[direntKind]})
		}
	}
	return names, nil
}
