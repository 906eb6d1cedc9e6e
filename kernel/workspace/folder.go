package workspace

import (
	"bytes"
	"encoding/binary"
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
// than limit, it returns those read so far and ErrTruncated; a negative limit means none.
func readFolder(fd, limit int) ([]dirent, error) {
	buf := direntBuffers.Get().(*[64 << 10]byte)
	defer direntBuffers.Put(buf)
	names := []dirent{}
	for {
		n, err := retry(func() (int, error) { return unix.Getdents(fd, buf[:]) })
		if err != nil {
			return nil, err
		}
		if n == 0 {
			return names, nil
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
			if len(names) == limit {
				return names, ErrTruncated
			}
			names = append(names, dirent{string(text), record[direntKind]})
		}
	}
}
