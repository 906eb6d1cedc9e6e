package server

import (
	"fmt"
	"os"
	"syscall"
)

// fileTag returns a strong ETag of an open file: it changes as soon as the bytes may have changed.
func fileTag(info os.FileInfo) string {
	var inode uint64
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		inode = stat.Ino
	}
	return fmt.Sprintf(`"%x-%x-%x"`, info.Size(), info.ModTime().UnixNano(), inode)
}
