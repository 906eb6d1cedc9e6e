package session_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"talaria/api"
	"talaria/artifacts"
	"talaria/kernel"
	"talaria/kernel/host"
	"talaria/kernel/kerneltest"
	"talaria/session"
	"talaria/store"
	"talaria/store/storetest"
)

// rig is a manager over a real database and a fake kernel.
type rig struct {
	*session.Manager
	t     testing.TB
	dir   string
	db    *store.Store
	host  *host.Host
	fake  *kerneltest.Fake
	tweak func(*session.Config)
	boot  string
}

func newRig(t testing.TB, cell func(*kerneltest.Cell), tweak func(*session.Config)) *rig {
	t.Helper()
	r := &rig{t: t, dir: t.TempDir(), fake: kerneltest.NewFake(kerneltest.Cells(cell)), tweak: tweak, boot: "boot"}
	r.fake.Pipes = true
	if err := os.Mkdir(filepath.Join(r.dir, "sessions"), 0o755); err != nil {
		t.Fatal(err)
	}
	r.open()
	t.Cleanup(func() { r.close() })
	return r
}

func (r *rig) open() {
	r.t.Helper()
	log := slog.New(slog.NewTextHandler(r.t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))
	db, err := store.Open(r.t.Context(), r.dir, log)
	if err != nil {
		r.t.Fatal(err)
	}
	blobs, err := artifacts.Open(filepath.Join(r.dir, "artifacts"))
	if err != nil {
		r.t.Fatal(err)
	}
	r.db = db
	if r.host == nil {
		r.host = host.NewHost(host.HostConfig{Backend: r.fake, InterruptGrace: 500 * time.Millisecond, JoinWindow: -1})
	}
	cfg := session.Config{
		Store: db, Artifacts: blobs, Host: r.host, Log: log, Version: "test",
		SessionsDir:  filepath.Join(r.dir, "sessions"),
		Environments: []kernel.Environment{{Name: "default", Version: "3.11.2"}, {Name: "other", Version: "3.13.0"}},
		Tier:         "fake", BootID: r.boot, Defaults: session.DefaultLimits, Ceilings: session.DefaultCeilings,
		IdleTimeout: session.DefaultIdleTimeout, OnIdle: api.OnIdleDrop, InlineBytes: session.DefaultInlineBytes,
		Checkpoints: api.CheckpointsManual,
	}
	if r.tweak != nil {
		r.tweak(&cfg)
	}
	if r.Manager, err = session.Open(r.t.Context(), cfg); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) close() {
	if err := errors.Join(r.Manager.Shutdown(context.Background()), r.host.Close(context.Background()), r.db.Close()); err != nil {
		r.t.Error(err)
	}
	r.host = nil
}

// crash ends the server and its host as kill -9 would: nothing more is written, and the kernels end.
func (r *rig) crash() {
	r.kill()
	r.host.Close(context.Background())
	r.host = nil
}

// kill ends the server as kill -9 would: nothing more is written, and the kernels continue.
func (r *rig) kill() {
	r.db.Close()
	r.Manager.Close(context.Background())
}

// leave ends the server cleanly; the kernels continue.
func (r *rig) leave() {
	if err := errors.Join(r.Manager.Close(context.Background()), r.db.Close()); err != nil {
		r.t.Error(err)
	}
}

// sql changes the database beside the server.
func (r *rig) sql(query string) {
	r.t.Helper()
	storetest.Exec(r.t, r.dir, query)
}

func (r *rig) session(req api.SessionRequest) *session.Session {
	r.t.Helper()
	s, err := r.Create(r.t.Context(), "ann", req)
	if err != nil {
		r.t.Fatal(err)
	}
	return s
}

func submit(t *testing.T, s *session.Session, code string, more ...func(*api.ExecutionRequest)) string {
	t.Helper()
	req := api.ExecutionRequest{Code: &code}
	for _, f := range more {
		f(&req)
	}
	id, err := s.Submit(t.Context(), req, true)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func wait(t *testing.T, s *session.Session, id string) api.Execution {
	t.Helper()
	e, err := s.Wait(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func execute(t *testing.T, s *session.Session, code string, more ...func(*api.ExecutionRequest)) api.Execution {
	t.Helper()
	return wait(t, s, submit(t, s, code, more...))
}

// until reads events after a position until one of that type arrives, and returns all of them.
func until(t *testing.T, s *session.Session, after int64, typ string) []api.Event {
	t.Helper()
	var list []api.Event
	for raw, err := range s.Journal().Events(t.Context(), after) {
		if err != nil {
			t.Fatal(err)
		}
		e, err := raw.Decoded()
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, e)
		if e.Body.EventType() == typ {
			return list
		}
	}
	t.Fatalf("no %s after %d", typ, after)
	return nil
}

// waitFor waits for the execution's event of that type, whether or not it is in the log already.
func waitFor(t *testing.T, s *session.Session, id, typ string) {
	t.Helper()
	for e, err := range s.Journal().ExecutionEvents(t.Context(), id, 0) {
		if err != nil {
			t.Fatal(err)
		}
		if e.Body.EventType() == typ {
			return
		}
	}
	t.Fatalf("execution %s has no %s", id, typ)
}

// now reads the log to its current end.
func now(t *testing.T, s *session.Session) []api.Event {
	t.Helper()
	var list []api.Event
	for last := s.Journal().LastSeq(); int64(len(list)) < last; {
		for raw, err := range s.Journal().Events(t.Context(), int64(len(list))) {
			if err != nil {
				t.Fatal(err)
			}
			e, err := raw.Decoded()
			if err != nil {
				t.Fatal(err)
			}
			if e.Seq != int64(len(list)+1) {
				t.Fatalf("event %d stands at %d", e.Seq, len(list)+1)
			}
			list = append(list, e)
			if e.Seq >= last {
				break
			}
		}
	}
	return list
}

// shape returns the log in short: one type each, with the word that matters.
func shape(events []api.Event) string {
	var words []string
	for _, e := range events {
		w := e.Body.EventType()
		switch b := e.Body.(type) {
		case api.SessionStateEvent:
			w = "state:" + string(b.State)
			if b.Reason != "" {
				w += ":" + b.Reason
			}
		case api.Stream:
			w = b.Name + ":" + strings.TrimSpace(b.Text)
		case api.ExecutionFinished:
			w = fmt.Sprintf("finished:%s:%s", b.Execution.Status, b.Execution.State)
			if b.Execution.Reason != "" {
				w += ":" + b.Execution.Reason
			}
		case api.KernelReset:
			w = fmt.Sprintf("reset:%s:%d", b.Reason, b.Generation)
		case api.KernelDied:
			w = fmt.Sprintf("died:%s:%d", b.Reason, b.Generation)
		case api.ArtifactEvent:
			w = string(b.Change) + ":" + b.Path
		}
		words = append(words, w)
	}
	return strings.Join(words, " ")
}

func wantShape(t *testing.T, s *session.Session, want string) {
	t.Helper()
	if got := shape(now(t, s)); got != want {
		t.Errorf("the log is\n%s\nwant\n%s", got, want)
	}
}

// script runs the small language of these tests: print TEXT, err TEXT, result TEXT, fail, sleep, hang, exit N, ask,
// write FILE TEXT, remove FILE, as ID TEXT, display N, flood N, megabytes N, shows N SIZE, clears N, files N, folders
// N, sparse FILE SIZE, noise FILE SIZE, one per line.
func script(dir func() string) func(*kerneltest.Cell) {
	return func(c *kerneltest.Cell) {
		for line := range strings.Lines(c.Code) {
			word, rest, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
			switch word {
			case "print":
				c.Print(rest + "\n")
			case "err":
				c.PrintErr(rest + "\n")
			case "flood":
				var n int
				fmt.Sscan(rest, &n)
				for i := range n {
					c.Print(fmt.Sprintf("%09d\n", i))
				}
			case "result":
				c.Result(rest)
			case "megabytes":
				var n int
				fmt.Sscan(rest, &n)
				piece := strings.Repeat("0123456789abcde\n", 4096)
				for range 16 * n {
					c.Print(piece)
				}
			case "display":
				var n int
				fmt.Sscan(rest, &n)
				c.Display(map[string]any{"text/plain": strings.Repeat("d", n)})
			case "fail":
				c.Raise("ValueError", rest)
				return
			case "sleep":
				c.Sleep()
				return
			case "hang":
				c.Stuck()
			case "exit":
				var n int
				fmt.Sscan(rest, &n)
				c.Exit(n)
			case "ask":
				if answer, ok := c.Input(rest); ok {
					c.Print("got " + answer + "\n")
				} else {
					c.Raise("StdinNotImplementedError", "nobody")
					return
				}
			case "write":
				name, text, _ := strings.Cut(rest, " ")
				if err := os.WriteFile(filepath.Join(dir(), name), []byte(text), 0o644); err != nil {
					c.Raise("OSError", err.Error())
				}
			case "shows": // each with a text of eight bytes
				var n, size int
				fmt.Sscan(rest, &n, &size)
				for i := range n {
					c.Display(map[string]any{"text/plain": fmt.Sprintf("show%04d", i), "text/html": strings.Repeat("h", size)})
				}
			case "clears":
				var n int
				fmt.Sscan(rest, &n)
				for range n {
					c.Clear(true)
				}
			case "files":
				var n int
				fmt.Sscan(rest, &n)
				for i := range n {
					os.WriteFile(filepath.Join(dir(), fmt.Sprintf("file%05d", i)), nil, 0o644)
				}
			case "folders": // with a file in each
				var n int
				fmt.Sscan(rest, &n)
				for i := range n {
					folder := filepath.Join(dir(), fmt.Sprintf("folder%05d", i))
					os.Mkdir(folder, 0o755)
					os.WriteFile(filepath.Join(folder, "file"), nil, 0o644)
				}
			case "sparse":
				var name string
				var size int64
				fmt.Sscan(rest, &name, &size)
				if f, err := os.Create(filepath.Join(dir(), name)); err == nil {
					f.Truncate(size)
					f.Close()
				}
			case "noise":
				var name string
				var size int
				fmt.Sscan(rest, &name, &size)
				noise := make([]byte, size)
				rand.Read(noise)
				os.WriteFile(filepath.Join(dir(), name), noise, 0o644)
			case "remove":
				os.Remove(filepath.Join(dir(), rest))
			case "comm": // of that execution or message, some messages of that size
				var id string
				var n, size int
				fmt.Sscan(rest, &id, &n, &size)
				if id == "cell" {
					id = c.ID
				}
				for range n {
					c.Runner.Send(map[string]any{"type": "comm", "id": id, "action": "msg", "comm": "w", "target": "", "data": strings.Repeat("d", size),
						"metadata": map[string]any{}, "buffers": []string{"AAE="}})
				}
			case "handled":
				c.Runner.Send(map[string]any{"type": "comm_end", "id": rest})
			case "as": // another execution, whose thread still prints
				id, text, _ := strings.Cut(rest, " ")
				c.Runner.Stream(id, "stdout", text+"\n", 0)
			}
		}
	}
}

// scripted returns a rig whose cells are scripts that see the workspace of its only session.
func scripted(t testing.TB, tweak func(*session.Config)) *rig {
	var r *rig
	r = newRig(t, script(func() string {
		dirs, err := filepath.Glob(filepath.Join(r.dir, "sessions", "*", "workspace"))
		if err != nil || len(dirs) == 0 {
			return "/nonexistent"
		}
		return dirs[0]
	}), tweak)
	return r
}

func read(t *testing.T, f *os.File, err error) string {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	b, err := io.ReadAll(f)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func code(err error) api.Code {
	var e *api.Error
	if errors.As(err, &e) {
		return e.Code
	}
	return ""
}

type cell = kerneltest.Cell

func ptr[T any](v T) *T { return &v }

// executions returns the session's executions, newest first.
func executions(t *testing.T, s *session.Session) (list []api.Execution) {
	t.Helper()
	for q := (api.PageQuery{Limit: 1000}); ; {
		next, err := s.Executions().List(t.Context(), q, func(e api.Execution) (bool, error) {
			list = append(list, e)
			return true, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if next == "" {
			return list
		}
		q.Cursor = next
	}
}

// exported returns the session's notebook file.
func exported(t *testing.T, s *session.Session) ([]byte, error) {
	var out bytes.Buffer
	err := s.Notebook().Export(t.Context(), &out)
	return out.Bytes(), err
}

// textAfterLoss returns the text of a kernel's first cell without the line on how the last kernel ended. It returns
// the text unchanged if that line is missing or names another cause.
func textAfterLoss(e api.Execution, cause string) string {
	notice, text, _ := strings.Cut(e.Text, "\n")
	if !strings.HasPrefix(notice, "[Variables from before ") || !strings.HasSuffix(notice, " are gone: "+cause+"; files are kept]") {
		return e.Text + " (without the notice of a loss)"
	}
	return text
}
