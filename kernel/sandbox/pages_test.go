package sandbox_test

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"talaria/kernel/procfs"
	"talaria/kernel/sandbox"
)

// pagesOf returns the addresses of the pages that only this process has.
func pagesOf(t *testing.T, pid int) map[uint64]bool {
	t.Helper()
	own, err := procfs.OwnPages(pid)
	if err != nil {
		t.Fatal(err)
	}
	found := make(map[uint64]bool)
	for _, p := range own {
		for at := p.Address; at < p.Address+p.Length; at += uint64(unix.Getpagesize()) {
			found[at] = true
		}
	}
	return found
}

func TestParkedSandboxesCopyMemoryThatTheyWillWriteTo(t *testing.T) {
	page, err := unix.Mmap(-1, 0, unix.Getpagesize(), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Munmap(page) }()
	if err := unix.Madvise(page, unix.MADV_POPULATE_WRITE); err != nil {
		t.Skipf("this kernel cannot copy pages ahead: %v", err)
	}
	dir := stateDir(t)
	events := newEvents()
	b, env := warm(t, dir, events.into)
	events.await(t, "learned which memory sandboxes write to")
	// How long they take depends on what else the machine does.
	for parked := 100 * time.Millisecond; ; parked *= 2 {
		s := create(t, b, env, true)
		time.Sleep(parked)
		pids, err := sandbox.PIDs(s)
		if err != nil || len(pids) != 2 {
			t.Fatalf("processes %v: %v", pids, err)
		}
		before := [2]map[uint64]bool{pagesOf(t, pids[0]), pagesOf(t, pids[1])}
		interpret(t, s, newSpec(t, dir)).run("1 + 1")
		var late [2]int
		for i, pid := range pids {
			for at := range pagesOf(t, pid) {
				if !before[i][at] {
					late[i]++
				}
			}
		}
		t.Logf("parked for %v: pid 1 wrote to %d further pages and the interpreter to %d", parked, late[0], late[1])
		// Without copying it is 300 and 800 with Debian 12's Python 3.11.
		if late[0] < 60 && late[1] < 120 {
			return
		}
		if parked > 10*time.Second {
			t.Fatal("these are as many as ever")
		}
	}
}
