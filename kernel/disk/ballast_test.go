package disk_test

import (
	"testing"

	"talaria/kernel/disk"
	"talaria/kernel/kerneltest"
)

// Otherwise the server would take the disk to have more room than there is, and notice too late that it fills up.
func TestABallastThatCannotBeMadeAgainIsNotCounted(t *testing.T) {
	dir := t.TempDir()
	kerneltest.SmallDisk(t, dir, 8*mib)
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
