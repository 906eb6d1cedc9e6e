package workspace

import (
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// A file may have any number of names, which count as one file.
func TestAWalkHoldsFewOfTheNamesInAFolder(t *testing.T) {
	const names = 20_000
	dir := t.TempDir()
	name := filepath.Join(dir, strings.Repeat("n", 200))
	if err := os.WriteFile(name, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for i := range names - 1 {
		if err := os.Link(name, name+strconv.Itoa(i)); err != nil {
			t.Fatal(err)
		}
	}
	root, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	heap := func() int64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	before, held, seen := heap(), int64(0), 0
	err = walk(t.Context(), int(root.Fd()), func(int, string, *unix.Stat_t) error {
		if seen++; seen == names/2 {
			held = heap() - before
		}
		return nil
	})
	if err != nil || seen != names {
		t.Errorf("%d names of %d, %v", seen, names, err)
	}
	if held > names*200/4 {
		t.Errorf("%d bytes are held for %d names", held, names)
	}
}
