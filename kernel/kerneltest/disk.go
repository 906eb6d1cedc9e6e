package kerneltest

import (
	"fmt"
	"os"
	"syscall"
	"testing"
)

// SmallDisk mounts a file system of that many bytes at dir until the end of the test. It skips the test unless root runs it.
func SmallDisk(t testing.TB, dir string, bytes int64) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("only root can mount a small file system")
	}
	if err := syscall.Mount("small", dir, "tmpfs", 0, fmt.Sprintf("size=%d", bytes)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Errorf("unmount: %v", err)
		}
	})
}
