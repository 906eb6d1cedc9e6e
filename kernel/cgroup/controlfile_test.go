package cgroup

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

func TestAControlFileStaysOpen(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "cpu.stat")
	put := func(text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	put("usage_usec 17\nuser_usec 9\n")
	c := &controls{dir: dir}
	if got, err := c.keyed("cpu.stat"); err != nil || got["usage_usec"] != 17 || got["user_usec"] != 9 {
		t.Fatalf("%v, %v", got, err)
	}
	put("usage_usec 23\n")
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if got, err := c.keyed("cpu.stat"); err != nil || got["usage_usec"] != 23 { // from the file that is open
		t.Errorf("%v, %v", got, err)
	}
	if _, err := c.number("memory.peak"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file that does not exist: %v", err)
	}
	put("42\n")
	c.close()
	if _, err := c.number("cpu.stat"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("after close: %v", err)
	}
}

// The kernel resets the peak for one open file, so the file that is written to must be the one that is read.
func TestTheUnifiedPeakIsResetInTheFileThatIsRead(t *testing.T) {
	dir := t.TempDir()
	c := &controls{dir: dir}
	defer c.close()
	if err := (unified{}).resetPeak(c); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("without memory.peak: %v", err)
	}
	if peak, err := (unified{}).peak(c); peak != 0 || err != nil {
		t.Errorf("without memory.peak: %d, %v", peak, err)
	}
	path := filepath.Join(dir, "memory.peak")
	if err := os.WriteFile(path, []byte("4096\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if peak, err := (unified{}).peak(c); peak != 4096 || err != nil {
		t.Errorf("%d, %v", peak, err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := (unified{}).resetPeak(c); err != nil { // the open file, as the path is gone
		t.Error(err)
	}
}
