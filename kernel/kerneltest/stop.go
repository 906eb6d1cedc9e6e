package kerneltest

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// StopProcess stops a process, and returns when each of its threads has stopped: on a busy machine all of them continue
// until the one that takes the signal is scheduled.
func StopProcess(t testing.TB, pid int) {
	t.Helper()
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	runs := func(path string) bool {
		status, err := os.ReadFile(path)
		return err == nil && !strings.Contains(string(status), "\nState:\tT") // a thread that ended does not run
	}
	for ends := time.Now().Add(time.Minute); time.Now().Before(ends); time.Sleep(time.Millisecond) {
		threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", pid))
		if err != nil || len(threads) == 0 {
			t.Fatalf("the threads of process %d: %v", pid, err)
		}
		if !slices.ContainsFunc(threads, runs) {
			return
		}
	}
	t.Fatalf("process %d did not stop", pid)
}
