package link_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
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

// patience bounds every wait of a test; nothing waits that long unless something is wrong.
const patience = 2 * time.Minute

const build = "build-1"

// cells is the interpreter of all fakes here. It prints numbered lines.
func cells(c *kerneltest.Cell) {
	word, rest, _ := strings.Cut(c.Code, " ")
	switch word {
	case "echo":
		c.Print(rest)
	case "count":
		n, _ := strconv.Atoi(rest)
		for i := range n {
			c.Print(fmt.Sprintf("line %d\n", i))
		}
	case "forever":
		for i := 0; ; i++ {
			c.Print(fmt.Sprintf("line %d\n", i))
		}
	case "fill": // that many MiB
		n, _ := strconv.Atoi(rest)
		for range n {
			c.Print(strings.Repeat("x", 1<<20))
		}
	case "show": // a value of that many MiB
		n, _ := strconv.Atoi(rest)
		c.Display(map[string]any{"text/plain": strings.Repeat("x", n<<20)})
	case "ask":
		answer, ok := c.Input("?")
		c.Print(fmt.Sprintf("%s %v", answer, ok))
	case "sleep":
		c.Sleep()
	case "exit":
		c.Exit(7)
	}
}

// runHost runs a host in a process of its own.
func runHost(dir string) error {
	ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer cancel()
	script := kerneltest.Cells(cells)
	if os.Getenv("DIE_ON_START") != "" {
		script = func(r *kerneltest.Runner) {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			<-r.Context().Done()
		}
	}
	fake := kerneltest.NewFake(script)
	fake.Pipes = true // with one CPU, an interpreter in memory leaves no time for sockets
	folder, err := link.NewFolder(dir)
	if err != nil {
		return err
	}
	return link.Serve(ctx, link.ServerConfig{
		Folder: folder, Build: build, Version: "1",
		Host:  host.NewHost(host.HostConfig{Backend: fake, SpoolDir: folder.Spool()}),
		Ready: func() { fmt.Println(folder.ID) },
	})
}

// process is a host or a server in a process of its own.
type process struct {
	*exec.Cmd
	lines *bufio.Scanner
	wait  func() error
}

// startRole starts this test binary in that role. It is killed at the end of the test at the latest.
func startRole(t *testing.T, role string, args []string, env ...string) *process {
	t.Helper()
	p := &process{Cmd: exec.Command(os.Args[0], args...)}
	p.Env = append(append(os.Environ(), roleVariable+"="+role, "GORACE=atexit_sleep_ms=0"), env...)
	p.Stderr = os.Stderr
	out, err := p.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.lines = bufio.NewScanner(out)
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	p.wait = sync.OnceValue(p.Cmd.Wait)
	t.Cleanup(p.kill)
	return p
}

func (p *process) kill() {
	_ = p.Process.Kill()
	_ = p.wait()
}

// hostProcess starts a host in a process of its own and returns when it is ready.
func hostProcess(t *testing.T, dir string, env ...string) *process {
	t.Helper()
	p := startRole(t, "host", []string{dir}, env...)
	if !p.lines.Scan() {
		t.Fatalf("the host did not come up: %v", p.wait())
	}
	return p
}

// served is a host that the test's own process serves.
type served struct {
	folder *link.Folder
	host   *host.Host
	fake   *kerneltest.Fake
	end    context.CancelFunc
	ended  chan struct{} // closed when Serve has returned
}

// serve serves a host until the end of the test.
func serve(t *testing.T, dir string, settings ...func(*link.ServerConfig)) *served {
	t.Helper()
	fake := kerneltest.NewFake(kerneltest.Cells(cells))
	fake.Pipes = true
	return serveOn(t, dir, fake, settings...)
}

func serveOn(t *testing.T, dir string, fake *kerneltest.Fake, settings ...func(*link.ServerConfig)) *served {
	t.Helper()
	return start(t, dir, fake, fake, settings...)
}

func start(
	t *testing.T, dir string, backend kernel.Backend, fake *kerneltest.Fake, settings ...func(*link.ServerConfig),
) *served {
	t.Helper()
	folder, err := link.NewFolder(dir)
	if err != nil {
		t.Fatal(err)
	}
	s := &served{folder: folder, fake: fake, ended: make(chan struct{})}
	s.host = host.NewHost(host.HostConfig{Backend: backend, SpoolDir: folder.Spool(), Log: testLog(t)})
	ready := make(chan struct{})
	cfg := link.ServerConfig{
		Folder: folder, Host: s.host, Build: build, Version: "1", Log: testLog(t), Ready: func() { close(ready) },
	}
	cfg.Drain(100 * time.Millisecond)
	for _, set := range settings {
		set(&cfg)
	}
	ctx, cancel := context.WithCancel(context.Background())
	s.end = cancel
	go func() {
		defer close(s.ended)
		if err := link.Serve(ctx, cfg); err != nil {
			t.Errorf("serve: %v", err)
		}
	}()
	t.Cleanup(func() {
		cancel()
		<-s.ended
		if n := fake.Open(); n != 0 {
			t.Errorf("%d sandboxes are left", n)
		}
	})
	select {
	case <-ready:
	case <-s.ended:
		t.FailNow()
	}
	return s
}

func (s *served) wait(t *testing.T) {
	t.Helper()
	select {
	case <-s.ended:
	case <-time.After(patience):
		t.Fatal("the host goes on")
	}
}

func noSpawn(context.Context) error { return errors.New("no host was to be started") }

// open opens a client until the end of the test.
func open(t *testing.T, dir string, spawn func(context.Context) error, settings ...func(*link.ClientConfig)) *link.Client {
	t.Helper()
	cfg := link.ClientConfig{Dir: dir, Build: build, Version: "1", Spawn: spawn, Log: testLog(t)}
	for _, set := range settings {
		set(&cfg)
	}
	c, err := link.Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func key(session string) record.Key { return record.Key{Session: session, Generation: 1} }

// reader reads the records of a kernel and checks their numbers.
type reader struct {
	*testing.T
	client *link.Client
	key    record.Key
	after  uint64
	seen   []record.Record
}

func (r *reader) next() ([]record.Record, error) {
	r.Helper()
	ctx, cancel := context.WithTimeoutCause(context.Background(), patience, errors.New("nothing comes"))
	defer cancel()
	batch, err := r.client.Next(ctx, r.key, r.after)
	for _, rec := range batch {
		if r.after++; rec.KSeq != r.after || rec.Key != r.key {
			r.Fatalf("record %d of %v where %d of %v was due", rec.KSeq, rec.Key, r.after, r.key)
		}
	}
	r.seen = append(r.seen, batch...)
	return batch, err
}

// until reads and acknowledges until the last record of a batch satisfies last.
func (r *reader) until(last func(record.Record) bool) record.Record {
	r.Helper()
	return r.read(last, func(newest record.Record) { r.client.Ack(r.key, newest.KSeq) })
}

// unacknowledged reads until the last record of a batch satisfies last.
func (r *reader) unacknowledged(last func(record.Record) bool) record.Record {
	r.Helper()
	return r.read(last, func(record.Record) {})
}

func (r *reader) read(last func(record.Record) bool, each func(newest record.Record)) record.Record {
	r.Helper()
	for {
		batch, err := r.next()
		if err != nil {
			r.Fatalf("next after %d: %v", r.after, err)
		}
		newest := batch[len(batch)-1]
		each(newest)
		if last(newest) {
			return newest
		}
	}
}

func (r *reader) untilDied(reason string) {
	r.Helper()
	if got := r.until(is[record.Died]).Body.(record.Died); got.Reason != reason {
		r.Errorf("the kernel died of %q, want %q", got.Reason, reason)
	}
}

func is[T record.Body](rec record.Record) bool {
	_, ok := rec.Body.(T)
	return ok
}

func (r *reader) text() string {
	var b strings.Builder
	for _, rec := range r.seen {
		if s, ok := rec.Body.(record.Stream); ok {
			b.WriteString(s.Text)
		}
	}
	return b.String()
}

// checkLines checks that text is the first lines that a cell prints, and counts them. The last line may be cut off.
func checkLines(t *testing.T, text string) (n int) {
	t.Helper()
	for line := range strings.Lines(text) {
		want := fmt.Sprintf("line %d\n", n)
		if !strings.HasSuffix(line, "\n") && strings.HasPrefix(want, line) {
			break
		}
		if line != want {
			t.Fatalf("line %d is %q", n, line)
		}
		n++
	}
	return n
}

func begin(t *testing.T, c *link.Client, session string) *reader {
	t.Helper()
	if _, err := c.Start(t.Context(), key(session), kernel.Environment{}, kernel.Spec{}); err != nil {
		t.Fatal(err)
	}
	return &reader{T: t, client: c, key: key(session)}
}

func (r *reader) execute(id, code string) {
	r.Helper()
	if err := command.Tell(r.Context(), r.client, r.key, command.Execution{ID: id, Code: code, AllowStdin: true}); err != nil {
		r.Fatalf("execute %s: %v", code, err)
	}
}

// exists reports whether that file exists.
func exists(path ...string) bool {
	_, err := os.Stat(filepath.Join(path...))
	return err == nil
}

// testLog writes to the test's log.
func testLog(t *testing.T) *slog.Logger {
	w := &testWriter{t: t}
	t.Cleanup(w.end)
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

type testWriter struct {
	mu sync.Mutex // guards t
	t  *testing.T
}

func (w *testWriter) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.t != nil {
		w.t.Log(strings.TrimSpace(string(b)))
	}
	return len(b), nil
}

func (w *testWriter) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.t = nil
}
