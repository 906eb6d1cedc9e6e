package link_test

import (
	"context"
	"errors"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"talaria/kernel"
	"talaria/kernel/command"
	"talaria/kernel/host"
	"talaria/kernel/kerneltest"
	"talaria/kernel/link"
	"talaria/kernel/record"
)

func TestAHostWithoutAServerEnds(t *testing.T) {
	const ttl = 2 * time.Second
	dir := t.TempDir()
	s := serve(t, dir, func(cfg *link.ServerConfig) { cfg.OrphanTTL = ttl })
	c := open(t, dir, noSpawn)
	r := begin(t, c, "a")
	for begun, i := time.Now(), 0; time.Since(begun) < 2*ttl; i++ {
		r.execute("e"+string(rune('a'+i%26))+time.Now().String(), "echo x")
		r.until(is[record.Finished])
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	s.wait(t)
	if host := onlyHost(t, dir); host.Alive || !host.Ended || len(host.Kernels) != 1 {
		t.Errorf("%+v", host)
	}
	r.client = open(t, dir, func(context.Context) error { serve(t, dir); return nil })
	if _, err := r.client.Attach(t.Context(), r.key); err != nil {
		t.Fatal(err)
	}
	r.untilDied(host.ReasonShutdown)
	if host := onlyHost(t, dir); !host.Alive {
		t.Errorf("%+v", host)
	}
}

func TestANewBuildTakesNewKernels(t *testing.T) {
	dir := t.TempDir()
	old := serve(t, dir)
	c := open(t, dir, noSpawn)
	r := begin(t, c, "old")
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	var newer *served
	c = open(t, dir, func(context.Context) error {
		newer = serve(t, dir, func(cfg *link.ServerConfig) { cfg.Build = "build-2" })
		return nil
	}, func(cfg *link.ClientConfig) { cfg.Build = "build-2" })
	r.client = c
	if _, err := c.Attach(t.Context(), r.key); err != nil {
		t.Fatal(err)
	}
	begin(t, c, "new")
	if old, now := len(old.host.Running()), len(newer.host.Running()); old != 1 || now != 1 {
		t.Errorf("%d kernels on the old host, %d on the new one", old, now)
	}
	if keys, err := c.Kernels(t.Context()); err != nil || len(keys) != 2 {
		t.Errorf("kernels %v, %v", keys, err)
	}
	stats, err := c.Stats(t.Context())
	if err != nil || len(stats) != 2 || stats[0].Build != "build-2" || stats[0].Retired || !stats[1].Retired {
		t.Errorf("stats %+v, %v", stats, err)
	}
	r.execute("e1", "echo old")
	r.until(is[record.Finished])
	if err := c.Stop(t.Context(), r.key, "deleted"); err != nil {
		t.Fatal(err)
	}
	r.untilDied("deleted")
	old.wait(t)
	if host := onlyHost(t, dir); host.ID != newer.folder.ID {
		t.Errorf("%+v", host)
	}
}

func TestARetiredHostWithoutKernelsEnds(t *testing.T) {
	dir := t.TempDir()
	older := serve(t, dir)
	newer := serve(t, dir)
	open(t, dir, noSpawn)
	older.wait(t)
	if host := onlyHost(t, dir); host.ID != newer.folder.ID {
		t.Errorf("%+v", host)
	}
}

func TestAHostThatSpeaksAnotherProtocolIsLeftAlone(t *testing.T) {
	dir := t.TempDir()
	old := serve(t, dir, func(cfg *link.ServerConfig) { cfg.Version = "0.9"; cfg.SpeakFrom(100, 101) })
	if _, err := old.host.Start(t.Context(), key("a"), kernel.Environment{}, kernel.Spec{}); err != nil {
		t.Fatal(err)
	}
	c := open(t, dir, func(context.Context) error { serve(t, dir); return nil })
	_, err := c.Attach(t.Context(), key("a"))
	for _, word := range []string{old.folder.ID, "version 0.9", "100 to 101", "1 to 15", "talaria host stop"} {
		if err == nil || !strings.Contains(err.Error(), word) {
			t.Errorf("error %v, want it to say %q", err, word)
		}
	}
	if keys, err := c.Kernels(t.Context()); err != nil || len(keys) != 0 {
		t.Errorf("kernels %v, %v", keys, err)
	}
	begin(t, c, "b")
	if n := len(old.host.Running()); n != 1 {
		t.Errorf("%d kernels run on the other host", n)
	}
	if err := link.StopHosts(t.Context(), dir); err != nil { // all versions understand it
		t.Fatal(err)
	}
	old.wait(t)
}

func TestAHostOfTheFirstProtocolRunsKernelsButIsNotAskedAboutNames(t *testing.T) {
	for highest, want := range map[int]error{1: command.ErrTooOld, 2: nil} {
		dir := t.TempDir()
		serve(t, dir, func(cfg *link.ServerConfig) { cfg.SpeakFrom(1, highest) })
		c := open(t, dir, noSpawn)
		r := begin(t, c, "a")
		r.execute("e1", "print")
		r.until(is[record.Finished])
		answer, err := ask(t, c, key("a"))
		if !errors.Is(err, want) || want == nil && answer.Completion.Matches[0] != "name" {
			t.Errorf("version %d: %+v, %v", highest, answer, err)
		}
		if _, err := ask(t, c, key("other")); !errors.Is(err, command.ErrNoKernel) {
			t.Errorf("version %d, a kernel that is not there: %v", highest, err)
		}
	}
}

func TestTheUsageOfManyKernelsIsReadAtOnceWhateverTheHostsSpeak(t *testing.T) {
	for _, highest := range []int{5, 6} {
		dir := t.TempDir()
		fake := kerneltest.NewFake(kerneltest.Cells(cells))
		fake.Usage = func() (kernel.Usage, error) {
			return kernel.Usage{MemoryBytes: 7, Processes: []kernel.ProcessInfo{{PID: 2, Name: "python3"}}}, nil
		}
		serveOn(t, dir, fake, func(cfg *link.ServerConfig) { cfg.SpeakFrom(1, highest) })
		c := open(t, dir, noSpawn)
		begin(t, c, "a")
		begin(t, c, "b")
		usages, err := c.Usages(t.Context(), []record.Key{key("a"), key("gone"), key("b")})
		if err != nil {
			t.Fatal(err)
		}
		found := map[record.Key]int64{}
		for _, u := range usages {
			found[u.Key] += u.Usage.MemoryBytes * int64(len(u.Usage.Processes))
		}
		if want := map[record.Key]int64{key("a"): 7, key("b"): 7}; !maps.Equal(found, want) {
			t.Errorf("version %d: %v", highest, found)
		}
	}
}

// ask asks until the kernel finds the time to answer.
func ask(t *testing.T, c *link.Client, key record.Key) (command.Answer, error) {
	for {
		answer, err := command.Ask(t.Context(), c, key, command.Query{Kind: command.QueryComplete, Code: "name", Cursor: 4})
		if !errors.Is(err, command.ErrKernelBusy) || t.Context().Err() != nil {
			return answer, err
		}
	}
}

func TestHostsEndWhenTheyAreTold(t *testing.T) {
	dir := t.TempDir()
	released := false
	s := serve(t, dir, func(cfg *link.ServerConfig) {
		cfg.Release = func() error {
			if n := len(cfg.Host.Running()); n != 0 {
				t.Errorf("released with %d kernels", n)
			}
			released = true
			return nil
		}
	})
	child := hostProcess(t, dir) // it is newer
	c := open(t, dir, noSpawn)
	r := begin(t, c, "a")
	read := make(chan struct{})
	go func() {
		defer close(read)
		r.untilDied(host.ReasonShutdown)
	}()
	if err := c.StopHosts(t.Context()); err != nil {
		t.Fatal(err)
	}
	<-read
	s.wait(t)
	if err := child.wait(); err != nil {
		t.Errorf("the host's process: %v", err)
	}
	if hosts, err := link.List(dir); err != nil || len(hosts) != 0 || !released {
		t.Errorf("hosts %+v, %v; released %v", hosts, err, released)
	}
}

func TestAHostEndsWithSIGTERMAndKeepsWhatNobodyRead(t *testing.T) {
	dir := t.TempDir()
	child := hostProcess(t, dir)
	c := open(t, dir, func(context.Context) error { serve(t, dir); return nil })
	r := begin(t, c, "a")
	r.execute("e1", "echo unread")
	r.unacknowledged(is[record.Finished])
	_ = child.Process.Signal(syscall.SIGTERM)
	if err := child.wait(); err != nil { // after the time that servers have to acknowledge
		t.Errorf("the host's process: %v", err)
	}
	r.untilDied(host.ReasonShutdown)
	begin(t, c, "b")
	// What the ended host left is removed once its last record is acknowledged, which nothing here waits for.
	untilOneHostLives(t, dir)
}

func TestLongPathsWork(t *testing.T) {
	dir := filepath.Join(t.TempDir(), strings.Repeat("long", 50), "hosts")
	serve(t, dir)
	r := begin(t, open(t, dir, noSpawn), "a")
	r.execute("e1", "echo x")
	r.until(is[record.Finished])
	if err := link.StopHosts(t.Context(), dir); err != nil {
		t.Error(err)
	}
}

func TestAnotherProcessOnTheSocketIsRefused(t *testing.T) {
	dir := t.TempDir()
	s := serve(t, dir)
	path := filepath.Join(s.folder.Path, "socket")
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	// Another host answers on this one's socket.
	other := serve(t, t.TempDir())
	if err := os.Symlink(filepath.Join(other.folder.Path, "socket"), path); err != nil {
		t.Fatal(err)
	}
	var mine *served
	c := open(t, dir, func(context.Context) error { mine = serve(t, dir); return nil })
	begin(t, c, "a")
	if n := len(mine.host.Running()); n != 1 {
		t.Errorf("%d kernels on the new host", n)
	}
	if err := link.StopHosts(t.Context(), dir); err == nil || !strings.Contains(err.Error(), "another process answers") {
		t.Errorf("stop hosts: %v", err)
	}
}

func TestAnotherUserIsRefused(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can run a process as another user")
	}
	dir := t.TempDir()
	s := serve(t, dir)
	for _, path := range []string{filepath.Dir(dir), dir, s.folder.Path} {
		if err := os.Chmod(path, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	socket := filepath.Join(s.folder.Path, "socket")
	if err := os.Chmod(socket, 0o777); err != nil {
		t.Fatal(err)
	}
	const connect = `
import socket, sys
s = socket.socket(socket.AF_UNIX)
s.connect(sys.argv[1])
sys.stdout.write("connected:%d" % len(s.recv(1)))`
	cmd := exec.Command("/usr/bin/python3", "-c", connect, socket)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	if out, err := cmd.CombinedOutput(); err != nil || string(out) != "connected:0" {
		t.Errorf("the other user's connection: %s, %v", out, err)
	}
}

func TestAHostHoldsAgainstNonsense(t *testing.T) {
	dir := t.TempDir()
	s := serve(t, dir)
	for name, bytes := range map[string]string{
		"nothing":          "",
		"half a head":      "\x01\x00",
		"a frame too long": "\xff\xff\xff\xff\x01",
		"half a frame":     "\x00\x00\x00\x04\x01{",
		"no JSON":          "\x03\x00\x00\x00\x01abc",
		"a reply":          "\x02\x00\x00\x00\x02{}",
		"an unknown start": "\x10\x00\x00\x00\x01" + `{"op":"explode"}`,
		"no hello":         "\x10\x00\x00\x00\x01" + `{"op":"kernels"}`,
		"an empty start":   "\x0e\x00\x00\x00\x01" + `{"op":"start"}`,
	} {
		t.Run(name, func(t *testing.T) {
			u, err := net.DialUnix("unix", nil, &net.UnixAddr{Net: "unix", Name: filepath.Join(s.folder.Path, "socket")})
			if err != nil {
				t.Fatal(err)
			}
			defer u.Close()
			if _, err := u.Write([]byte(bytes)); err != nil {
				t.Fatal(err)
			}
			if err := u.CloseWrite(); err != nil {
				t.Fatal(err)
			}
			_ = u.SetReadDeadline(time.Now().Add(patience))
			for b := make([]byte, 512); err == nil; {
				_, err = u.Read(b)
			}
			if os.IsTimeout(err) {
				t.Error("the host keeps the connection")
			}
		})
	}
	begin(t, open(t, dir, noSpawn), "a")
}

func TestDescriptorsBeyondTheTwoAreRefused(t *testing.T) {
	dir := t.TempDir()
	s := serve(t, dir)
	u, err := net.DialUnix("unix", nil, &net.UnixAddr{Net: "unix", Name: filepath.Join(s.folder.Path, "socket")})
	if err != nil {
		t.Fatal(err)
	}
	defer u.Close()
	f, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	fd := int(f.Fd())
	before := descriptors(t)
	if _, _, err := u.WriteMsgUnix([]byte("\x0e\x00\x00\x00\x01"), syscall.UnixRights(fd, fd, fd), nil); err != nil {
		t.Fatal(err)
	}
	_ = u.SetReadDeadline(time.Now().Add(patience))
	if n, err := u.Read(make([]byte, 1)); n != 0 || os.IsTimeout(err) {
		t.Errorf("read %d, %v", n, err)
	}
	if after := descriptors(t); after > before {
		t.Errorf("%d descriptors, %d before", after, before)
	}
}

func descriptors(t *testing.T) int {
	t.Helper()
	all, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(all)
}

func TestStopWaitsForTheSandboxToCloseThoughTheDeathIsToldBefore(t *testing.T) {
	dir := t.TempDir()
	fake := kerneltest.NewFake(kerneltest.Cells(cells))
	var closed atomic.Bool
	release := make(chan struct{})
	fake.OnClose = func() {
		<-release
		closed.Store(true)
	}
	serveOn(t, dir, fake)
	c := open(t, dir, noSpawn)
	r := begin(t, c, "a")
	stopped := make(chan bool, 1)
	go func() {
		if err := c.Stop(t.Context(), r.key, "reset"); err != nil {
			t.Error(err)
		}
		stopped <- closed.Load()
	}()
	r.untilDied("reset")
	if _, err := c.Kernels(t.Context()); err != nil {
		t.Error(err)
	}
	close(release)
	if !<-stopped {
		t.Error("Stop returned while the sandbox was still open")
	}
}

// onEnding sets what a client does when a host ends.
func onEnding(do func(context.Context, []record.Key)) func(*link.ClientConfig) {
	return func(cfg *link.ClientConfig) { cfg.Ending = do }
}

func TestAHostThatEndsWaitsForItsServerAndTakesNoKernels(t *testing.T) {
	dir := t.TempDir()
	old := serve(t, dir, func(cfg *link.ServerConfig) { cfg.EndingTime(patience) })
	var c *link.Client
	var newer *served
	told, opened := make(chan []record.Key, 1), make(chan struct{})
	c = open(t, dir, func(context.Context) error { newer = serve(t, dir); return nil }, onEnding(func(ctx context.Context, keys []record.Key) {
		if keys[0] != key("a") {
			return // the end of the test
		}
		<-opened
		begin(t, c, "b")
		if err := c.Stop(ctx, key("a"), "hibernated"); err != nil {
			t.Error(err)
		}
		told <- keys
	}))
	close(opened)
	r := begin(t, c, "a")
	old.end()
	r.untilDied("hibernated")
	old.wait(t)
	if keys := <-told; len(keys) != 1 || keys[0] != key("a") {
		t.Errorf("told of %v", keys)
	}
	if n := len(newer.host.Running()); n != 1 {
		t.Errorf("%d kernels on the new host", n)
	}
}

func TestAHostThatEndsDoesNotWaitForever(t *testing.T) {
	dir := t.TempDir()
	s := serve(t, dir, func(cfg *link.ServerConfig) { cfg.EndingTime(5 * time.Second) }) // the client is told within that
	ended := make(chan struct{})
	r := begin(t, open(t, dir, noSpawn, onEnding(func(ctx context.Context, _ []record.Key) { <-ctx.Done(); close(ended) })), "a")
	s.end()
	r.untilDied(host.ReasonShutdown)
	s.wait(t)
	<-ended
}

func TestAHostThatEndsDoesNotWaitForAServerThatHasLeft(t *testing.T) {
	dir := t.TempDir()
	s := serve(t, dir, func(cfg *link.ServerConfig) { cfg.EndingTime(10 * patience) })
	told := make(chan struct{})
	c := open(t, dir, noSpawn, onEnding(func(ctx context.Context, _ []record.Key) { close(told); <-ctx.Done() }))
	begin(t, c, "a")
	s.end()
	<-told
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	s.wait(t)
}

func TestAHostThatEndsDoesNotWaitForAServerThatNeverAsked(t *testing.T) {
	dir := t.TempDir()
	s := serve(t, dir, func(cfg *link.ServerConfig) { cfg.EndingTime(10 * patience) })
	r := begin(t, open(t, dir, noSpawn), "a")
	s.end()
	r.untilDied(host.ReasonShutdown)
	s.wait(t)
}
