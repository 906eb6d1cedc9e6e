package workspace

import (
	"errors"
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

// A workspace that takes long to measure would pass its limit meanwhile.
func TestUsageLooksAtFewNamesOfTheSameFiles(t *testing.T) {
	before := maxFurtherNames
	maxFurtherNames = 2
	defer func() { maxFurtherNames = before }()
	dir := t.TempDir()
	d, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	name := filepath.Join(dir, "a")
	if err := os.WriteFile(name, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		if err := os.Link(name, name+strconv.Itoa(i)); err != nil {
			t.Fatal(err)
		}
		_, inodes, err := d.Usage(t.Context())
		if inodes != 1 || errors.Is(err, ErrUnseen) != (i == 2) || err != nil && i < 2 {
			t.Errorf("with %d names: %d inodes, %v", i+2, inodes, err)
		}
	}
}
