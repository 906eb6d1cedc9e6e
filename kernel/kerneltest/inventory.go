package kerneltest

import (
	"bufio"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// inventory is what this process has on the machine.
type inventory struct {
	mounts      map[string]bool // the mount points, except those in other tests' own directories
	descriptors int
}

func takeInventory(t *testing.T) inventory {
	t.Helper()
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	descriptors, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	now := inventory{mounts: make(map[string]bool), descriptors: len(descriptors)}
	for line := range strings.Lines(string(mounts)) {
		// "36 31 0:35 ROOT POINT …". Other packages' tests run at the same time, and may mount.
		point := strings.Fields(line)[4]
		if own, _ := filepath.Match(filepath.Join(os.TempDir(), "Test*"), firstFolders(point, os.TempDir())); !own {
			now.mounts[point] = true
		}
	}
	return now
}

// firstFolders returns the part of path that ends with the folder right below dir, or path if it is not below dir.
func firstFolders(path, dir string) string {
	rest, ok := strings.CutPrefix(path, dir+"/")
	if !ok {
		return path
	}
	name, _, _ := strings.Cut(rest, "/")
	return filepath.Join(dir, name)
}

// compare fails the test if there is more than before.
func (before inventory) compare(t *testing.T) {
	t.Helper()
	now := takeInventory(t)
	for point := range now.mounts {
		if !before.mounts[point] {
			t.Errorf("something is mounted at %s", point)
		}
	}
	// The runtime's poller and the like may have been added, but no descriptors of sandboxes.
	const incidental = 6
	if now.descriptors > before.descriptors+incidental {
		t.Errorf("%d descriptors are open, %d were before", now.descriptors, before.descriptors)
	}
}

// nothingLeft fails the test if a process or control group of a closed sandbox still exists.
func (r *rig) nothingLeft(t *testing.T) {
	t.Helper()
	for _, handle := range r.handles {
		if start, err := startTime(handle.PID); err == nil && start == handle.StartTime {
			t.Errorf("pid 1 of a sandbox is still process %d", handle.PID)
		}
		for _, dir := range handle.Cgroups {
			if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("control group %s: %v", dir, err)
			}
		}
	}
}

func startTime(pid int) (uint64, error) {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0, err
	}
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	return strconv.ParseUint(fields[19], 10, 64)
}

// lines reads lines as they arrive, and fails the test if the stream ends first.
type lines struct {
	t       *testing.T
	scanner *bufio.Scanner
}

func (l lines) next() string {
	l.t.Helper()
	if !l.scanner.Scan() {
		l.t.Fatalf("the output ended: %v", l.scanner.Err())
	}
	return l.scanner.Text()
}
