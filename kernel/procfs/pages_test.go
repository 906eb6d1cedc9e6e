package procfs

import (
	"fmt"
	"os"
	"testing"
)

func TestPagesAreOwnOnceAForkedProcessWritesToThem(t *testing.T) {
	pid, out := startPython(t, `import ctypes, mmap, os, time
block = mmap.mmap(-1, 4 * mmap.PAGESIZE, mmap.MAP_PRIVATE)
block[:] = b"x" * len(block)
if os.fork() == 0: time.sleep(1000)
block[mmap.PAGESIZE] = block[2 * mmap.PAGESIZE] = 121
print(ctypes.addressof(ctypes.c_char.from_buffer(block)), flush=True)
time.sleep(1000)`)
	var block uint64
	if _, err := fmt.Fscan(out, &block); err != nil {
		t.Fatal(err)
	}
	own, err := OwnPages(pid)
	if err != nil {
		t.Fatal(err)
	}
	size := uint64(os.Getpagesize())
	var found []Pages
	for _, p := range own {
		if p.Address < block+4*size && block < p.Address+p.Length {
			found = append(found, p)
		}
	}
	if want := (Pages{block + size, 2 * size}); len(found) != 1 || found[0] != want {
		t.Errorf("of the block at %#x, %+v are its own, not %+v", block, found, want)
	}
	if _, err := OwnPages(1 << 30); err == nil {
		t.Error("a process that does not exist has pages")
	}
}
