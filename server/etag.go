package server

import (
	"fmt"
	"os"
	"syscall"
)

// fileTag is a strong ETag of an open file: another one as soon as its bytes may be others.
func fileTag(info os.FileInfo) string {
	var inode uint64
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		inode = stat.Ino
	}
	return fmt.Sprintf(`"%x-%x-%x"`, info.Size(), info.ModTime().UnixNano(), inode)
}
