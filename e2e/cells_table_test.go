package e2e

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"talaria/api"
	"talaria/client"
)

// engines are the engines that execute cells in the runner.
var engines = []string{"stdlib", "ipython"}

// libraries maps the words that a row may need to the modules that they stand for. "stdlib" and "ipython" stand for
// the engine.
var libraries = map[string]string{
	"numpy": "numpy", "pandas": "pandas", "matplotlib": "matplotlib", "tqdm": "tqdm", "rich": "rich", "sympy": "sympy",
	"pillow": "PIL",
}

// cellPatience is how long one cell of a table may take, late output included. None needs more than a few seconds.
const cellPatience = 60 * time.Second

// TestCells runs the rows of cells/ in each engine, over the native protocol.
func TestCells(t *testing.T) {
	t.Parallel()
	paths, err := filepath.Glob("cells/*.txt")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no tables: %v", err)
	}
	tables := map[string][]row{}
	names := map[string]string{}
	for _, path := range paths {
		rows, err := readTable(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range rows {
			if names[r.name] != "" {
				t.Errorf("%s: %s is in %s as well", r.where, r.name, names[r.name])
			}
			names[r.name] = r.where
		}
		tables[strings.TrimSuffix(filepath.Base(path), ".txt")] = rows
	}
	for _, engine := range engines {
		t.Run(engine, func(t *testing.T) { runTables(t, engine, tables) })
	}
}

func runTables(t *testing.T, engine string, tables map[string][]row) {
	s := start(t, options{args: []string{"--engine", engine}})
	missing := missingLibraries(t, s.Client())
	var mu sync.Mutex
	var ran int
	var notRun []string
	t.Run("tables", func(t *testing.T) {
		for name, rows := range tables {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				table := newTable(t, s, engine)
				for _, r := range rows {
					if why := r.lacks(t, engine, missing); why != "" {
						mu.Lock()
						notRun = append(notRun, r.name+" ("+why+")")
						mu.Unlock()
						continue
					}
					t.Run(r.name, func(t *testing.T) { table.run(t, r) })
					mu.Lock()
					ran++
					mu.Unlock()
				}
				table.compareWithLog(t)
			})
		}
	})
	slices.Sort(notRun)
	t.Logf("%d rows ran in engine %s; not run: %s", ran, engine, strings.Join(notRun, ", "))
}

// missingLibraries asks the Python that kernels run.
func missingLibraries(t *testing.T, c *client.Client) map[string]bool {
	t.Helper()
	var code strings.Builder
	code.WriteString("from importlib.machinery import PathFinder\n")
	for word, module := range libraries {
		fmt.Fprintf(&code, "if not PathFinder.find_spec(%q): print(%q)\n", module, word)
	}
	missing := map[string]bool{}
	for word := range strings.FieldsSeq(runOK(t, c, session(t, c, api.SessionRequest{}), code.String())) {
		missing[word] = true
	}
	return missing
}

// lacks returns what the row needs and does not have here; "" means nothing.
func (r row) lacks(t *testing.T, engine string, missing map[string]bool) string {
	t.Helper()
	for _, word := range r.needs {
		switch {
		case slices.Contains(engines, word):
			if word != engine {
				return "engine " + word
			}
		case libraries[word] == "":
			t.Fatalf("%s: %s needs %q, which stands for nothing", r.where, r.name, word)
		case missing[word]:
			return "no " + word
		}
	}
	return ""
}

// table is a session and the socket over which its rows run.
type table struct {
	server  *Server
	client  *client.Client
	engine  string
	session string
	socket  *client.Socket
	seen    []api.Event
	hangs   bool // a cell hangs, so the next row needs a kernel of its own
}

func newTable(t *testing.T, s *Server, engine string) *table {
	t.Helper()
	c := s.Client()
	tb := &table{server: s, client: c, engine: engine, session: session(t, c, api.SessionRequest{})}
	socket, err := c.Attach(within(t), tb.session, client.AttachOptions{After: new(int64(0))})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = socket.Close() })
	tb.socket = socket
	return tb
}

func (tb *table) run(t *testing.T, r row) {
	if r.fresh || tb.hangs {
		if _, err := tb.client.ResetSession(within(t), tb.session, api.ResetRequest{}); err != nil {
			t.Fatalf("%s: reset: %v", r.where, err)
		}
		tb.hangs = false
	}
	for i, s := range r.steps {
		h := tb.step(t, r, s)
		if !slices.ContainsFunc(s.expect, expectation.isStatus) {
			t.Errorf("%s: cell %d says nothing of its status", r.where, i+1)
		}
		for _, e := range s.expect {
			if e.only != "" && e.only != tb.engine {
				continue
			}
			if wrong := e.check(h); wrong != "" {
				t.Errorf("%s: cell %d, %s: %s\n%.2000s", r.where, i+1, e.line, wrong, h.end.Text)
			}
		}
		if text := shownInternals(h); text != "" && !slices.ContainsFunc(s.expect, expectation.allowsInternals) {
			t.Errorf("%s: cell %d shows what is ours: %s", r.where, i+1, text)
		}
	}
}

// shownInternals returns the parts of the runner that a person would see, and must not.
func shownInternals(h happened) string {
	for _, e := range append(h.events, h.late...) {
		var text string
		switch b := e.Body.(type) {
		case api.Stream:
			text = b.Text
		case api.ErrorEvent:
			text = strings.Join(b.Traceback, "\n")
		}
		if strings.Contains(text, "talaria_runner") {
			return text
		}
	}
	return ""
}

// step runs one cell to its end, and to the late output that it expects.
func (tb *table) step(t *testing.T, r row, s step) happened {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), cellPatience)
	defer cancel()
	req := api.ExecutionRequest{ID: new(client.NewID()), Code: &s.code, Silent: &s.silent, AllowStdin: new(!s.withoutIn)}
	if _, err := tb.socket.Execute(ctx, req); err != nil {
		t.Fatalf("%s: execute: %v", r.where, err)
	}
	h := happened{}
	answers, begun := s.answers, time.Now()
	did := func(what string) { // the progress of the cell, which may be what an interrupt waits for
		if s.interruptOn != what {
			return
		}
		begun = time.Now()
		if err := tb.client.Interrupt(ctx, tb.session, *req.ID); err != nil {
			t.Errorf("%s: interrupt: %v", r.where, err)
		}
		s.interruptOn = ""
	}
	for {
		e := tb.next(t, ctx, r, *req.ID, &h)
		switch b := e.Body.(type) {
		case api.ExecutionStarted:
			begun = time.Now()
			did("started")
		case api.Stream:
			did("stream")
		case api.InputRequested:
			did("input")
			if len(answers) > 0 {
				tb.answer(t, ctx, b.RequestID, answers[0])
				answers = answers[1:]
			}
		case api.ExecutionFinished:
			h.end, h.took = b.Execution, time.Since(begun)
			if len(answers) > 0 {
				t.Errorf("%s: nobody asked for %q", r.where, answers)
			}
			for lateWanted(s, h) {
				tb.next(t, ctx, r, *req.ID, &h)
			}
			return h
		}
	}
}

// next reads events of the session up to one of that execution, which it adds to h.
func (tb *table) next(t *testing.T, ctx context.Context, r row, id string, h *happened) api.Event {
	t.Helper()
	for {
		e, err := tb.socket.Next(ctx)
		if errors.Is(err, context.DeadlineExceeded) {
			tb.hangs = true
			t.Fatalf("%s: it hangs after %v and %.2000q", r.where, h.kinds(), strings.Join(h.streams(), ""))
		}
		if err != nil {
			t.Fatalf("%s: %v", r.where, err)
		}
		tb.seen = append(tb.seen, e)
		if e.ExecutionID != id {
			continue
		}
		if h.end.ID != "" {
			h.late = append(h.late, e)
		} else {
			h.events = append(h.events, e)
		}
		return e
	}
}

func (tb *table) answer(t *testing.T, ctx context.Context, request, value string) {
	t.Helper()
	frame := map[string]string{"request_id": request, "value": value}
	if _, err := tb.socket.Do(ctx, "input_reply", frame); err != nil {
		t.Errorf("answer %q: %v", value, err)
	}
}

// lateWanted reports whether output is expected after the end of the cell and has not come.
func lateWanted(s step, h happened) bool {
	return slices.ContainsFunc(s.expect, func(e expectation) bool { return e.words[0] == "late" && e.check(h) != "" })
}

// compareWithLog checks that the log repeats what came live.
func (tb *table) compareWithLog(t *testing.T) {
	t.Helper()
	log := past(t, tb.client, tb.session)
	for i, e := range tb.seen {
		if i >= len(log) || !reflect.DeepEqual(e, log[i]) {
			t.Fatalf("event %d of %d came live as %+v, the log of %d has another", i+1, len(tb.seen), e, len(log))
		}
	}
}
