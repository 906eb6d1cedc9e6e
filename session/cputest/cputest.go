// Package cputest measures the work of tests.
package cputest

import (
	"syscall"
	"testing"
	"time"
	"unsafe"
)

// ThreadTime returns the CPU time of the calling thread, which does not depend on what else the machine does. The caller has locked its
// goroutine to the thread.
func ThreadTime(t testing.TB) time.Duration {
	t.Helper()
	const clock = 3 // CLOCK_THREAD_CPUTIME_ID
	var now syscall.Timespec
	if _, _, errno := syscall.Syscall(syscall.SYS_CLOCK_GETTIME, clock, uintptr(unsafe.Pointer(&now)), 0); errno != 0 {
		t.Fatal(errno)
	}
	return time.Duration(now.Nano())
}
