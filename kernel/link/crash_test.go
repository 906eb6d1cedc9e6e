package link_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"talaria/kernel"
	"talaria/kernel/command"
	"talaria/kernel/host"
	"talaria/kernel/kerneltest"
	"talaria/kernel/link"
	"talaria/kernel/record"
	"talaria/kernel/spool"
)

// runServer is a server in a process of its own. It writes each record of the kernel "a" to a journal before it
// acknowledges it, continues where the journal ends, and returns at the end of an execution.
func runServer(dir, journal string) error {
	ctx := context.Background()
	c, err := link.Open(ctx, link.ClientConfig{Dir: dir, Build: build, Spawn: noSpawn})
	if err != nil {
		return err
	}
	defer c.Close()
	f, after, finished, err := openJournal(journal)
	if err != nil || finished {
		return err
	}
	defer f.Close()
	if _, err := c.Attach(ctx, key("a")); err != nil {
		return err
	}
	for {
		batch, err := c.Next(ctx, key("a"), after)
		if err != nil {
			return err
		}
		var lines bytes.Buffer
		for _, r := range batch {
			text := ""
			switch b := r.Body.(type) {
			case record.Stream:
				text = b.Text
			case record.Finished:
				text, finished = theEnd, true
			}
			fmt.Fprintf(&lines, "%d %q\n", r.KSeq, text)
			after = r.KSeq
		}
		if _, err := f.Write(lines.Bytes()); err != nil {
			return err
		}
		fmt.Println(after)
		c.Ack(key("a"), after)
		if finished {
			return nil
		}
	}
}

const theEnd = "finished"

// openJournal drops a line that a crash cut off.
func openJournal(path string) (f *os.File, after uint64, finished bool, err error) {
	if f, err = os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600); err != nil {
		return nil, 0, false, err
	}
	b, err := io.ReadAll(f)
	if err != nil {
		return nil, 0, false, err
	}
	whole := bytes.LastIndexByte(b, '\n') + 1
	if err := f.Truncate(int64(whole)); err != nil {
		return nil, 0, false, err
	}
	if _, err := f.Seek(int64(whole), io.SeekStart); err != nil {
		return nil, 0, false, err
	}
	last := bytes.LastIndexByte(b[:max(whole-1, 0)], '\n') + 1
	if digits, text, ok := strings.Cut(string(b[last:whole]), " "); ok {
		finished = text == strconv.Quote(theEnd)+"\n"
		after, err = strconv.ParseUint(digits, 10, 64)
	}
	return f, after, finished, err
}

func TestServersThatAreKilledLoseNothing(t *testing.T) {
	const kills = 50
	dir, journal := t.TempDir(), filepath.Join(t.TempDir(), "journal")
	enough := make(chan struct{})
	lines := 0
	fake := kerneltest.NewFake(kerneltest.Cells(func(c *kerneltest.Cell) {
		for {
			select {
			case <-enough:
				return
			default:
				c.Print(fmt.Sprintf("line %d\n", lines))
				lines++
			}
		}
	}))
	fake.Pipes = true
	serveOn(t, dir, fake, func(cfg *link.ServerConfig) { // each line is a record
		cfg.Host = host.NewHost(host.HostConfig{Backend: fake, SpoolDir: cfg.Folder.Spool(), JoinWindow: -1})
	})
	starter := open(t, dir, noSpawn)
	begin(t, starter, "a").execute("e1", "until it is enough")
	if err := starter.Close(); err != nil {
		t.Fatal(err)
	}
	killed := 0
	for ended := false; !ended; {
		p := startRole(t, "server", []string{dir, journal})
		batches := 0
		if killed < kills {
			batches = 1 + rand.IntN(6)
		} else if killed == kills {
			close(enough)
			killed++
		}
		for i := 0; batches == 0 || i < batches; i++ {
			if ended = !p.lines.Scan(); ended {
				break
			}
		}
		if !ended {
			_ = p.Process.Kill()
			killed++
		}
		if err := p.wait(); ended && err != nil {
			t.Fatalf("server: %v", err)
		}
	}
	b, err := os.ReadFile(journal)
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	n := 0
	for line := range strings.Lines(string(b)) {
		digits, quoted, _ := strings.Cut(strings.TrimSpace(line), " ")
		if n++; digits != strconv.Itoa(n) {
			t.Fatalf("record %s where %d was due", digits, n)
		}
		one, err := strconv.Unquote(quoted)
		if err != nil {
			t.Fatal(err)
		}
		text.WriteString(strings.TrimSuffix(one, theEnd))
	}
	if got := checkLines(t, text.String()); got != lines {
		t.Errorf("%d lines, want %d", got, lines)
	}
	t.Logf("%d records", n)
}

func TestAHostThatIsKilledLosesNothing(t *testing.T) {
	const kills = 12
	dir := t.TempDir()
	var host *process
	c := open(t, dir, func(context.Context) error {
		host = hostProcess(t, dir)
		return nil
	})
	var noticed []time.Duration
	for i := range kills {
		r := begin(t, c, fmt.Sprintf("s%d", i))
		other := begin(t, c, fmt.Sprintf("idle%d", i))
		r.execute("e1", "forever")
		for range rand.IntN(15) {
			if _, err := r.next(); err != nil {
				t.Fatal(err)
			}
			if rand.IntN(3) == 0 {
				r.client.Ack(r.key, r.after)
			}
		}
		killed := time.Now()
		_ = host.Process.Kill()
		other.untilDied(link.ReasonHostCrash)
		noticed = append(noticed, time.Since(killed))
		if err := command.Tell(t.Context(), c, r.key, command.Execution{ID: "e2"}); !errors.Is(err, command.ErrNoKernel) {
			t.Errorf("execute after the crash: %v", err)
		}
		if last := r.until(is[record.Died]); last.Body.(record.Died).Reason != link.ReasonHostCrash || last.ExecutionID != "e1" {
			t.Errorf("last record %+v", last)
		}
		if _, err := r.next(); err != command.ErrNoKernel {
			t.Errorf("after the end: %v", err)
		}
		checkLines(t, r.text())
		_ = host.wait()
	}
	t.Logf("deaths were seen after %v", noticed)
	begin(t, c, "last")
	if hosts, err := link.List(dir); err != nil || len(hosts) != 1 || !hosts[0].Alive {
		t.Errorf("hosts %+v, %v", hosts, err)
	}
}

func TestADeadHostIsReadByTheNextServer(t *testing.T) {
	dir := t.TempDir()
	host := hostProcess(t, dir)
	c := open(t, dir, noSpawn)
	r := begin(t, c, "a")
	ended := begin(t, c, "ended")
	r.execute("e1", "echo before")
	r.until(is[record.Finished])
	r.execute("e2", "forever")
	ended.execute("e1", "exit")
	ended.unacknowledged(is[record.Died])
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	host.kill()
	id := filepath.Base(onlyHost(t, dir).Path)

	swept := make(chan string, 1)
	r.client = open(t, dir, func(context.Context) error {
		serve(t, dir, func(cfg *link.ServerConfig) {
			cfg.SweepDead = func(_ context.Context, instance string, _ []kernel.Handle) error {
				swept <- instance
				return nil
			}
		})
		return nil
	})
	if got := <-swept; got != id {
		t.Errorf("swept %q, want %q", got, id)
	}
	if keys, err := r.client.Kernels(t.Context()); err != nil || len(keys) != 2 {
		t.Errorf("kernels %v, %v", keys, err)
	}
	a, err := r.client.Attach(t.Context(), r.key)
	if err != nil || a.Given != "e2" || a.Last < r.after {
		t.Fatalf("attachment %+v, %v", a, err)
	}
	if err := command.Tell(t.Context(), r.client, r.key, command.Execution{ID: "e3"}); !errors.Is(err, command.ErrNoKernel) {
		t.Errorf("execute: %v", err)
	}
	r.untilDied(link.ReasonHostCrash)
	if r.after <= a.Last {
		t.Errorf("the last record is number %d, and %d were there before", r.after, a.Last)
	}
	text, ok := strings.CutPrefix(r.text(), "before")
	if !ok {
		t.Errorf("text begins with %.20q", r.text())
	}
	checkLines(t, text)

	if !exists(dir, id) {
		t.Error("the folder is gone before all is read")
	}
	again := &reader{T: t, client: r.client, key: ended.key}
	if a, err := again.client.Attach(t.Context(), again.key); err != nil || a.Last != ended.after {
		t.Fatalf("attachment %+v, %v", a, err)
	}
	again.untilDied("exit:7")
	if exists(dir, id) {
		t.Error("the folder is there though all is read")
	}
	if keys, err := r.client.Kernels(t.Context()); err != nil || len(keys) != 0 {
		t.Errorf("kernels %v, %v", keys, err)
	}
}

func TestWhatAHostLeavesOfAKernelThatIsOverIsRemoved(t *testing.T) {
	dir := t.TempDir()
	child := hostProcess(t, dir)
	c := open(t, dir, func(context.Context) error { serve(t, dir); return nil })
	r := begin(t, c, "a")
	r.execute("e1", "exit")
	r.unacknowledged(is[record.Died])
	kerneltest.StopProcess(t, child.Process.Pid)
	c.Ack(r.key, r.after)
	child.kill() // before it has read that
	begin(t, c, "b")
	untilOneHostLives(t, dir)
}

func onlyHost(t *testing.T, dir string) link.HostInfo {
	t.Helper()
	hosts := hostsIn(t, dir)
	if len(hosts) != 1 {
		t.Fatalf("hosts %+v", hosts)
	}
	return hosts[0]
}

// untilOneHostLives waits until nothing is left of other hosts than one that lives.
func untilOneHostLives(t *testing.T, dir string) {
	t.Helper()
	for end := time.Now().Add(patience); len(hostsIn(t, dir)) > 1 && time.Now().Before(end); {
		time.Sleep(10 * time.Millisecond)
	}
	if host := onlyHost(t, dir); !host.Alive {
		t.Errorf("%+v", host)
	}
}

func hostsIn(t *testing.T, dir string) []link.HostInfo {
	t.Helper()
	hosts, err := link.List(dir)
	if err != nil {
		t.Fatal(err)
	}
	return hosts
}

func TestADeadKernelThatNobodyWantsCanBeDropped(t *testing.T) {
	dir := t.TempDir()
	host := hostProcess(t, dir)
	c := open(t, dir, noSpawn)
	begin(t, c, "a").execute("e1", "echo lost")
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	host.kill()
	dead := onlyHost(t, dir)
	c = open(t, dir, func(context.Context) error { serve(t, dir); return nil })
	for _, session := range []string{"a", "never"} {
		if err := c.Stop(t.Context(), key(session), "no_session"); err != nil {
			t.Error(err)
		}
		c.Ack(key(session), 1<<64-1)
	}
	if exists(dead.Path) {
		t.Error("the folder is there though nothing in it is wanted")
	}
}

func TestALivingKernelThatNobodyWantsCanBeDropped(t *testing.T) {
	dir := t.TempDir()
	s := serve(t, dir)
	c := open(t, dir, noSpawn)
	begin(t, c, "a").execute("e1", "echo lost")
	_ = c.Close()
	c = open(t, dir, noSpawn)
	if err := c.Stop(t.Context(), key("a"), "no_session"); err != nil {
		t.Fatal(err)
	}
	c.Ack(key("a"), 1<<64-1)
	if _, err := c.Attach(t.Context(), key("a")); !errors.Is(err, command.ErrNoKernel) {
		t.Errorf("attach: %v", err)
	}
	if keys, err := spool.Keys(s.folder.Spool()); err != nil || len(keys) > 0 {
		t.Errorf("spools %v, %v", keys, err)
	}
}

func TestAStartMovesToAnotherHost(t *testing.T) {
	dir := t.TempDir()
	spawned := 0
	c := open(t, dir, func(context.Context) error {
		if spawned++; spawned == 1 {
			hostProcess(t, dir, "DIE_ON_START=1")
		} else {
			hostProcess(t, dir)
		}
		return nil
	})
	r := begin(t, c, "a")
	r.execute("e1", "echo here")
	r.until(is[record.Finished])
	if spawned != 2 || r.text() != "here" {
		t.Errorf("%d hosts, text %q", spawned, r.text())
	}
	if host := onlyHost(t, dir); !host.Alive {
		t.Error("the dead host's folder is there")
	}
}

func TestAStrangerIsNeitherKilledNorAttachedTo(t *testing.T) {
	dir := t.TempDir()
	host := hostProcess(t, dir)
	c := open(t, dir, noSpawn)
	begin(t, c, "a")
	_ = c.Close()
	host.kill() // its socket file stays
	dead := onlyHost(t, dir)
	if dead.Alive || !exists(dead.Path, "socket") {
		t.Fatalf("%+v", dead)
	}
	stranger := exec.Command("sleep", "60")
	if err := stranger.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = stranger.Process.Kill()
		_ = stranger.Wait()
	}()
	path := filepath.Join(dead.Path, "host.json")
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	b = bytes.Replace(b, fmt.Appendf(nil, `"pid": %d`, dead.PID), fmt.Appendf(nil, `"pid": %d`, stranger.Process.Pid), 1)
	b = bytes.Replace(b, []byte(dead.BootID), []byte("00000000-0000-4000-8000-000000000000"), 1)
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	if got := onlyHost(t, dir); got.PID != stranger.Process.Pid || got.Alive {
		t.Fatalf("%+v", got)
	}
	if err := link.StopHosts(t.Context(), dir); err != nil {
		t.Errorf("stop hosts: %v", err)
	}
	c = open(t, dir, func(context.Context) error { serve(t, dir); return nil })
	if _, err := c.Attach(t.Context(), key("a")); err != nil {
		t.Fatal(err)
	}
	(&reader{T: t, client: c, key: key("a")}).untilDied(link.ReasonHostCrash)
	if err := stranger.Process.Signal(syscall.Signal(0)); err != nil {
		t.Errorf("the stranger: %v", err)
	}
}
