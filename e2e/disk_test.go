package e2e

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"talaria/api"
	"talaria/client"
)

// content returns a file of a session, as the server serves it.
func content(t *testing.T, c *client.Client, session, name string) string {
	t.Helper()
	d, err := c.GetFile(within(t), session, name)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	b, err := io.ReadAll(d)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// awaitDeath returns when the session's log has the death of a kernel.
func awaitDeath(t *testing.T, c *client.Client, session string) {
	t.Helper()
	for e, err := range c.Events(within(t), session, client.EventsQuery{}) {
		if err != nil {
			t.Fatal(err)
		}
		if _, ok := e.Body.(api.KernelDied); ok {
			return
		}
	}
	t.Fatal("the log ends without a death")
}

func TestFilesSurviveServerAndHostWhateverHoldsThem(t *testing.T) {
	t.Parallel()
	everyIdentity(t, func(t *testing.T, who identity) {
		t.Parallel()
		s := start(t, options{as: who})
		id := session(t, s.Client(), api.SessionRequest{Limits: &api.LimitsRequest{DiskBytes: new(int64(16 << 20))}})
		isHeld(t, s.Client(), id, who)
		runOK(t, s.Client(), id, "f = open('kept', 'w'); _ = f.write('one'); f.flush()")

		s.Kill9() // the kernel continues with its open file, and the next server sees the same
		s.Restart(t)
		runOK(t, s.Client(), id, "_ = f.write(' two'); f.flush()")
		if got := content(t, s.Client(), id, "kept"); got != "one two" {
			t.Errorf("after a crash of the server the file says %q", got)
		}
		if _, _, err := s.Client().PutFile(within(t), id, "up", strings.NewReader("up")); err != nil {
			t.Fatal(err)
		}
		if got := runOK(t, s.Client(), id, "print(open('up').read())"); got != "up\n" {
			t.Errorf("the kernel reads %q", got)
		}

		if err := syscall.Kill(s.host(t).pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		awaitDeath(t, s.Client(), id)
		if got := content(t, s.Client(), id, "kept"); got != "one two" {
			t.Errorf("after a crash of the host the file says %q", got)
		}
		if got := runOK(t, s.Client(), id, "print(open('kept').read())"); got != "one two\n" {
			t.Errorf("the next kernel reads %q", got)
		}

		s.Terminate(t)
		s.stopHosts(t)
		releasedImages(t, s.StateDir) // as after a reboot
		s.Restart(t)
		if got := content(t, s.Client(), id, "kept"); got != "one two" {
			t.Errorf("after a restart of both the file says %q", got)
		}
		limited(t, s.Client(), id, `with open("big", "wb", buffering=0) as f:
    for _ in range(5000): f.write(bytes(4096))`, "disk_bytes", "OSError", "DiskLimit")
		if err := s.Client().DeleteSession(within(t), id); err != nil {
			t.Fatal(err)
		}
		if left, err := filepath.Glob(filepath.Join(s.StateDir, "sessions", "[^.]*")); err != nil || len(left) > 0 {
			t.Errorf("a deleted session left %v (%v)", left, err)
		}
	})
}

func TestTheLimitOfTheDiskCanBeRaisedToTheCeiling(t *testing.T) {
	t.Parallel()
	everyIdentity(t, func(t *testing.T, who identity) {
		s := start(t, options{as: who})
		c := s.Client()
		for _, disk := range []*int64{nil, new(int64(100 << 20))} {
			id := session(t, c, api.SessionRequest{Limits: &api.LimitsRequest{DiskBytes: disk}})
			isHeld(t, c, id, who)
			ceiling := int64(64 << 30)
			if _, err := c.UpdateSession(within(t), id, api.SessionPatch{Limits: &api.LimitsRequest{DiskBytes: &ceiling}}); err != nil {
				t.Error(err)
			}
			ceiling++
			_, err := c.UpdateSession(within(t), id, api.SessionPatch{Limits: &api.LimitsRequest{DiskBytes: &ceiling}})
			wantCodeAndWords(t, err, api.CodeLimitExceeded, "disk_bytes")
		}
	})
}

func TestUploadsCountAgainstTheDisk(t *testing.T) {
	t.Parallel()
	everyIdentity(t, func(t *testing.T, who identity) {
		t.Parallel()
		s := start(t, options{as: who})
		c := s.Client()
		id := session(t, c, api.SessionRequest{Limits: &api.LimitsRequest{DiskBytes: new(int64(8 << 20))}})
		put := func(name string, size int) error {
			_, _, err := c.PutFile(within(t), id, name, bytes.NewReader(make([]byte, size)))
			return err
		}
		if err := put("a", 5<<20); err != nil {
			t.Fatal(err)
		}
		wantCode(t, put("b", 5<<20), api.CodeDiskLimit)
		runOK(t, c, id, "open('c', 'wb').write(bytes(2 << 20))")
		wantCode(t, put("d", 2<<20), api.CodeDiskLimit)
		info, err := c.Session(within(t), id)
		if err != nil || info.Usage.DiskBytes < 7<<20 || info.Usage.DiskBytes > 8<<20 {
			t.Errorf("the usage is %d bytes (%v)", info.Usage.DiskBytes, err)
		}
		if err := c.DeleteFile(within(t), id, "a"); err != nil {
			t.Fatal(err)
		}
		if err := put("d", 5<<20); err != nil {
			t.Errorf("with room again: %v", err)
		}
	})
}

func TestTheOperatorChoosesWhatHoldsWorkspaces(t *testing.T) {
	t.Parallel()
	everyIdentity(t, func(t *testing.T, who identity) {
		t.Parallel()
		s := start(t, options{as: who, config: "disk: watched\n"})
		id := session(t, s.Client(), api.SessionRequest{})
		runOK(t, s.Client(), id, "1")
		info, err := s.Client().Session(within(t), id)
		if layers := strings.Join(info.Isolation.Layers, "\n"); err != nil || !strings.Contains(layers, "disk: watched, ") {
			t.Errorf("the layers are %q (%v)", layers, err)
		}
		// A workspace made as a directory stays one.
		runOK(t, s.Client(), id, "open('old', 'w').write('old')")
		s.Terminate(t)
		s.stopHosts(t)
		if err := os.Remove(filepath.Join(s.StateDir, "talaria.yaml")); err != nil {
			t.Fatal(err)
		}
		s.Restart(t)
		if got := runOK(t, s.Client(), id, "print(open('old').read())"); got != "old\n" {
			t.Errorf("a workspace of before has %q", got)
		}
		isHeld(t, s.Client(), session(t, s.Client(), api.SessionRequest{}), who)
	})
}

func TestADiskThatCannotBeHadIsRefused(t *testing.T) {
	t.Parallel()
	for mode, want := range map[string]string{"image": "requires root", "tape": "auto, quota, image or watched"} {
		s := prepare(t, options{as: asUser})
		out, err := s.command(within(t), "serve", "--state-dir", s.StateDir, "--addr", "127.0.0.1:0", "--disk", mode).CombinedOutput()
		if err == nil || !strings.Contains(string(out), want) {
			t.Errorf("disk: %s ends with %v: %s", mode, err, out)
		}
		s.stopHosts(t)
	}
}

// free returns what the disk of a directory has left for everybody.
func free(t *testing.T, dir string) int64 {
	t.Helper()
	var st syscall.Statfs_t
	if err := syscall.Statfs(dir, &st); err != nil {
		t.Fatal(err)
	}
	return int64(st.Bavail) * st.Bsize
}

// awaitCode repeats ask until the answer has the code, "" meaning none: the server looks at its disk periodically.
func awaitCode(t *testing.T, code api.Code, ask func() error) {
	t.Helper()
	for ctx := within(t); ; {
		err := ask()
		var refused *api.Error
		if code == "" && err == nil || errors.As(err, &refused) && refused.Code == code {
			return
		}
		if ctx.Err() != nil {
			t.Fatalf("still %v, not %q", err, code)
		}
	}
}

func TestAServerWhoseDiskIsNearlyFullTakesNoNewWorkAndRecovers(t *testing.T) {
	everyIdentity(t, func(t *testing.T, who identity) {
		const margin = 2 << 30
		s := start(t, options{as: who, args: []string{"--disk-reserve", fmt.Sprint(free(t, t.TempDir()) - margin)}})
		c := s.Client()
		id := session(t, c, api.SessionRequest{Limits: &api.LimitsRequest{DiskBytes: new(int64(64 << 20))}})
		runOK(t, c, id, "_ = open('kept', 'w').write('kept')")
		freezes := map[identity]string{asRoot: "FREEZES = True", asUser: "FREEZES = False"}[who]
		_, err := c.ExecuteWait(within(t), id, api.ExecutionRequest{ID: new("waits"), Code: new(freezes + `
import os, time
try: time.sleep(100)
except KeyboardInterrupt: pass
while FREEZES and os.statvfs(".").f_bavail: # which follows the refusals
    time.sleep(0.01)
try:
    with open("large", "wb") as f:
        f.write(bytes(8 << 20)); f.flush(); os.fsync(f.fileno())
    print("written")
except OSError as e: print("errno", e.errno)
`)}, 0)
		if err != nil {
			t.Fatal(err)
		}
		idle := session(t, c, api.SessionRequest{})
		runOK(t, c, idle, "x = 42")
		filler, err := os.Create(filepath.Join(s.StateDir, "filler"))
		if err != nil {
			t.Fatal(err)
		}
		defer filler.Close()
		if err := syscall.Fallocate(int(filler.Fd()), 0, 0, margin+(1<<30)); err != nil {
			t.Skipf("SKIP: the disk takes no file of 3 GiB: %v", err)
		}
		awaitCode(t, api.CodeDiskFull, func() error { _, _, err := c.PutFile(within(t), id, "up", strings.NewReader("x")); return err })
		awaitCode(t, api.CodeDiskFull, func() error { _, err := c.CreateSession(within(t), api.SessionRequest{}); return err })
		awaitCode(t, api.CodeDiskFull, func() error {
			_, err := c.Execute(within(t), id, api.ExecutionRequest{Code: new("1")})
			return err
		})
		if _, err := c.UpdateSession(within(t), idle, api.SessionPatch{IdleTimeoutS: new(0.01)}); err != nil {
			t.Fatal(err)
		}
		if got := content(t, c, id, "kept"); got != "kept" {
			t.Errorf("a file that was there says %q", got)
		}
		if err := c.Interrupt(within(t), id, "waits"); err != nil {
			t.Fatal(err)
		}
		textAtEnd(t, c, id, "waits")
		e, err := c.Execution(within(t), id, "waits")
		if err != nil {
			t.Fatal(err)
		}
		if want := map[identity]string{asRoot: "errno 28\n", asUser: "written\n"}[who]; !strings.HasPrefix(e.Text, want) {
			t.Errorf("a cell that wrote meanwhile says %q", e.Text)
		}
		for _, a := range e.Artifacts {
			if !a.Omitted {
				t.Errorf("%s was kept as an artifact", a.Path)
			}
		}
		if err := os.Remove(filler.Name()); err != nil {
			t.Fatal(err)
		}
		filler.Close()
		awaitCode(t, "", func() error { _, _, err := c.PutFile(within(t), id, "go", strings.NewReader("x")); return err })
		awaitHibernation(t, c, idle)
		if got := runOK(t, c, idle, "print(x)"); got != "42\n" {
			t.Errorf("the variable of an idle kernel is %q", got)
		}
		runOK(t, c, id, "_ = open('more', 'wb').write(bytes(8 << 20)); f = open('more', 'rb'); assert len(f.read()) == 8 << 20")
	})
}

// awaitHibernation returns when the session's log says that it hibernates.
func awaitHibernation(t *testing.T, c *client.Client, session string) {
	t.Helper()
	for e, err := range c.Events(within(t), session, client.EventsQuery{}) {
		if err != nil {
			t.Fatal(err)
		}
		if state, ok := e.Body.(api.SessionStateEvent); ok && state.State == api.StateHibernated {
			return
		}
	}
	t.Fatal("the log ends without a hibernation")
}

// A program that takes the last byte before the server looks does no damage.
func TestADiskThatIsFullToItsLastByteDamagesNothingAndRecovers(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("SKIP: mounting a small disk takes root")
	}
	everyIdentity(t, func(t *testing.T, who identity) {
		s := prepare(t, options{as: who})
		smallDisk(t, s, 640<<20)
		s.launch(t)
		t.Cleanup(func() { s.stop(t) })
		c := s.Client()
		id := session(t, c, api.SessionRequest{Limits: &api.LimitsRequest{DiskBytes: new(int64(64 << 20))}})
		isHeld(t, c, id, who)
		other := session(t, c, api.SessionRequest{})
		_, err := c.ExecuteWait(within(t), id, api.ExecutionRequest{ID: new("writes"), Code: new(`
import os, time
f = open("kept", "wb")
f.write(bytes(range(256)) * 32768); f.flush() # an image gets it later
print("written", flush=True)
try: time.sleep(100)
except KeyboardInterrupt: os.fsync(f.fileno())
print("synced")
`)}, 0)
		if err != nil {
			t.Fatal(err)
		}
		awaitOutput(t, c, id, "writes")
		filler := fill(t, filepath.Dir(s.StateDir))
		awaitCode(t, api.CodeDiskFull, func() error { _, _, err := c.PutFile(within(t), id, "up", strings.NewReader("x")); return err })
		awaitCode(t, api.CodeDiskFull, func() error { _, err := c.CreateSession(within(t), api.SessionRequest{}); return err })
		for ctx := within(t); free(t, s.StateDir) < 8<<20; { // the server makes room
			if ctx.Err() != nil {
				t.Fatal("the disk is still full")
			}
		}
		if err := c.Interrupt(within(t), id, "writes"); err != nil {
			t.Fatalf("interrupt a cell: %v", err)
		}
		if got := textAtEnd(t, c, id, "writes"); !strings.HasPrefix(got, "written\nsynced\n") {
			t.Errorf("a cell that wrote before says %q", got)
		}
		if err := c.DeleteSession(within(t), other); err != nil {
			t.Errorf("delete a session: %v", err)
		}

		s.Terminate(t)
		s.Restart(t)
		c = s.Client()
		awaitCode(t, api.CodeDiskFull, func() error { _, err := c.CreateSession(within(t), api.SessionRequest{}); return err })
		if got := textAtEnd(t, c, id, "writes"); !strings.HasPrefix(got, "written\nsynced\n") {
			t.Errorf("the next server says that the cell said %q", got)
		}

		if err := os.Remove(filler); err != nil {
			t.Fatal(err)
		}
		awaitCode(t, "", func() error { _, _, err := c.PutFile(within(t), id, "go", strings.NewReader("x")); return err })
		runOK(t, c, id, "assert open('kept', 'rb').read() == bytes(range(256)) * 32768; _ = open('more', 'wb').write(bytes(8 << 20))")
		isHeld(t, c, session(t, c, api.SessionRequest{}), who)
	})
}

// awaitOutput returns when the cell has printed something.
func awaitOutput(t *testing.T, c *client.Client, session, execution string) {
	t.Helper()
	for e, err := range c.ExecutionEvents(within(t), session, execution, 0) {
		if err != nil {
			t.Fatal(err)
		}
		if _, ok := e.Body.(api.Stream); ok {
			return
		}
	}
	t.Fatal("the cell ended and printed nothing")
}

// textAtEnd waits for the end of an execution and returns its text.
func textAtEnd(t *testing.T, c *client.Client, session, execution string) string {
	t.Helper()
	collect(t, c.ExecutionEvents(within(t), session, execution, 0))
	e, err := c.Execution(within(t), session, execution)
	if err != nil {
		t.Fatal(err)
	}
	return e.Text
}

// smallDisk puts the server's state directory on a file system of that size.
func smallDisk(t *testing.T, s *Server, bytes int64) {
	t.Helper()
	mount := s.StateDir
	if err := syscall.Mount("talaria-e2e", mount, "tmpfs", 0, fmt.Sprintf("size=%d,mode=755", bytes)); err != nil {
		t.Skipf("SKIP: this machine mounts nothing: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(mount, 0); err != nil {
			t.Error(err)
		}
	})
	s.StateDir = filepath.Join(mount, "state")
	if err := os.Mkdir(s.StateDir, 0o700); err != nil {
		t.Fatal(err)
	}
	s.give(t, s.StateDir)
	watchInstance(s.StateDir)
}

// fill uses up the disk that a folder is on, to the last byte.
func fill(t *testing.T, folder string) (path string) {
	t.Helper()
	f, err := os.Create(filepath.Join(folder, "filler"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	at, step := int64(0), int64(64<<20)
	for step >= 4096 {
		if err := syscall.Fallocate(int(f.Fd()), 0, at, step); err == nil {
			at += step
		} else if errors.Is(err, syscall.ENOSPC) {
			step /= 2
		} else {
			t.Fatal(err)
		}
	}
	return f.Name()
}
