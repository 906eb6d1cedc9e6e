package procfs

import (
	"os"
	"os/exec"
	"slices"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

func TestAProcessThatEndsIsToldFromOneThatRuns(t *testing.T) {
	cmd := exec.Command("cat")
	in, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	if p, err := Read(cmd.Process.Pid); err != nil || p.Ending {
		t.Errorf("while it runs: %+v %v", p, err)
	}
	in.Close()
	// It stays a zombie until it is waited for.
	if err := unix.Waitid(unix.P_PID, cmd.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil); err != nil {
		t.Fatal(err)
	}
	if p, err := Read(cmd.Process.Pid); err != nil || !p.Ending {
		t.Errorf("when it has ended: %+v %v", p, err)
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}

func TestSignalsThatWaitAreRead(t *testing.T) {
	for set, want := range map[string]bool{
		"0000000000000100": true, "0000000000000300": true, "0000000000000200": false, "0000000000000000": false, "": false,
	} {
		p := Process{Status: map[string]string{"SigPnd": set}}
		if got := p.pending("SigPnd", syscall.SIGKILL); got != want {
			t.Errorf("SIGKILL in %q: %v", set, got)
		}
	}
}

func TestProcessesOfAUserAreFoundByEachOfItsIDs(t *testing.T) {
	status := func(ids, state, threads string) []byte {
		return []byte("Name:\tx\nState:\t" + state + "\nUid:\t" + ids + "\nThreads:\t" + threads + "\n")
	}
	for ids, want := range map[string]bool{
		"7\t1\t1\t1": true, "1\t7\t1\t1": true, "1\t1\t7\t1": true, "1\t1\t1\t7": false, "77\t77\t77\t77": false, "": false,
	} {
		if got := runsAs(7, status(ids, "S (sleeping)", "1")); got != want {
			t.Errorf("user ids %q: %v", ids, got)
		}
	}
	if runsAs(7, status("7\t7\t7\t7", "Z (zombie)", "1")) {
		t.Error("a process that has ended is one of the user's")
	}
	if !runsAs(7, status("7\t7\t7\t7", "Z (zombie)", "2")) {
		t.Error("a process whose first thread has ended is not one of the user's")
	}
}

func TestProcessesOfThisUserIncludeThisOne(t *testing.T) {
	if pids, err := OfUser(os.Geteuid()); err != nil || !slices.Contains(pids, os.Getpid()) {
		t.Errorf("%v %v", pids, err)
	}
	if pids, err := OfUser(1<<32 - 7); err != nil || len(pids) > 0 {
		t.Errorf("of a user who runs nothing: %v %v", pids, err)
	}
}
