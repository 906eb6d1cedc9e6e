package procfs

import (
	"io"
	"os"
	"os/exec"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

func TestThreadsHaveTheSameMemoryAndChildrenDoNot(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if !SameMemory(os.Getpid(), unix.Gettid()) {
		t.Skip("this kernel does not compare address spaces")
	}
	child := exec.Command("/bin/sleep", "1000")
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = child.Process.Kill(); _ = child.Wait() }()
	if SameMemory(os.Getpid(), child.Process.Pid) {
		t.Error("a child that runs another program has the same memory")
	}
	if SameMemory(os.Getpid(), 1<<30) {
		t.Error("a process that does not exist has the same memory")
	}
}

// startPython runs code that does not end, and returns its pid and what it prints. It ends with the test, with all that it forked.
func startPython(t *testing.T, code string) (pid int, out io.Reader) {
	t.Helper()
	child := exec.Command("python3", "-c", code)
	child.SysProcAttr = &unix.SysProcAttr{Setpgid: true}
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Kill(-child.Process.Pid, unix.SIGKILL); _ = child.Wait() })
	return child.Process.Pid, out
}

func TestAForkSharesItsPrivateMemory(t *testing.T) {
	pid, out := startPython(t, `import os, time
block = bytearray(64 << 20)
if os.fork() == 0: time.sleep(1000)
print("up", flush=True)
time.sleep(1000)`)
	if _, err := out.Read(make([]byte, 3)); err != nil {
		t.Fatal(err)
	}
	share, err := PrivateShare(pid)
	if err != nil {
		t.Fatal(err)
	}
	p, err := Read(pid)
	if err != nil {
		t.Fatal(err)
	}
	if p.Private < 64<<20 || share < 32<<20 || share > 60<<20 {
		t.Errorf("of %d bytes of private memory %d are its share, want about half", p.Private, share)
	}
}
