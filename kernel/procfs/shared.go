package procfs

import (
	"bytes"
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// compareVM is KCMP_VM of Linux's include/uapi/linux/kcmp.h.
const compareVM = 1

// PrivateShare returns the process's share of its private memory, in bytes: a page that it shares with others since a fork counts
// as a part of a page for each. The kernel walks all pages for that, so it takes some milliseconds for each GiB.
func PrivateShare(pid int) (int64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
	if err != nil {
		return 0, Gone(err)
	}
	_, rest, ok := bytes.Cut(text, []byte("\nPss_Anon:"))
	fields := bytes.Fields(rest)
	if !ok || len(fields) < 2 || string(fields[1]) != "kB" {
		return 0, fmt.Errorf("/proc/%d/smaps_rollup has no Pss_Anon", pid)
	}
	kib, err := strconv.ParseInt(string(fields[0]), 10, 64)
	return kib << 10, err
}

// SameMemory reports whether two processes run in one address space, as a process and its child after vfork do until the child
// executes a program. It is false where the kernel does not tell.
func SameMemory(a, b int) bool {
	order, _, errno := unix.Syscall6(unix.SYS_KCMP, uintptr(a), uintptr(b), compareVM, 0, 0, 0)
	return errno == 0 && order == 0
}
