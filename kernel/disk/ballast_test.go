package disk_test

import (
	"os"
	"syscall"
	"testing"

	"talaria/kernel/disk"
)

// Otherwise the server would take the disk to have more room than there is, and notice too late that it fills up.
func TestABallastThatCannotBeMadeAgainIsNotCounted(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can mount a small file system")
	}
	dir := t.TempDir()
	if err := syscall.Mount("none", dir, "tmpfs", 0, "size=8m"); err != nil {
		t.Skip("this machine mounts no small file system: ", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(dir, syscall.MNT_DETACH) })
	s := open(t, disk.Config{Root: dir, Mode: disk.Watched, MaxBallast: 1 << 30})
	if err := s.SetBallast(4 * mib); err != nil {
		t.Fatal(err)
	}
	if err := s.SetBallast(16 * mib); err == nil {
		t.Fatal("the disk takes more than it has")
	}
	if free, size, err := s.Room(); err != nil || free > size {
		t.Errorf("%d of %d bytes are free, %v", free, size, err)
	}
}
