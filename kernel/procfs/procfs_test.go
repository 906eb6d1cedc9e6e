package procfs

import (
	"os/exec"
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
