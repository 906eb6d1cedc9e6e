package session_test

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"talaria/api"
	"talaria/session"
)

// listener is the output of a log. It says when a message comes.
type listener struct {
	io.Writer
	message string
	once    sync.Once
	came    chan struct{} // closed when it has come
}

func (l *listener) Write(line []byte) (int, error) {
	if bytes.Contains(line, []byte(l.message)) {
		l.once.Do(func() { close(l.came) })
	}
	return l.Writer.Write(line)
}

// changedBy returns which files the executions list as created or deleted, in order.
func changedBy(list ...api.Execution) (changes []string) {
	for _, e := range list {
		for _, a := range e.Artifacts {
			if a.Change == api.Modified { // another cell ended between its creation and its first byte
				continue
			}
			changes = append(changes, string(a.Change)+" "+a.Path)
		}
	}
	slices.Sort(changes)
	return changes
}

// heldUp is a session with another one beside it. Its cell, first, has ended, and the files that this changed are listed; but the end is
// not committed before goOn is called. second is a cell of the other one that ends meanwhile.
type heldUp struct {
	*rig
	main, beside  *session.Session
	first, second string
	goOn          func()
}

func holdUp(t *testing.T) heldUp {
	var h heldUp
	scripts := script(func() string {
		dirs, _ := filepath.Glob(filepath.Join(h.dir, "sessions", "*", "workspace"))
		return dirs[0]
	})
	mayEnd := make(chan struct{})
	log := &listener{Writer: t.Output(), message: "the log cannot be written; trying again", came: make(chan struct{})}
	h.rig = newRig(t, func(c *cell) {
		scripts(c)
		if strings.HasPrefix(c.Code, "remove one") {
			c.Raise("ValueError", strings.Repeat("x", 100<<10)) // so that the event of the end is a blob
			<-mayEnd
		}
	}, func(cfg *session.Config) { cfg.Log = slog.New(slog.NewTextHandler(log, nil)) })
	h.main = h.session(api.SessionRequest{ID: ptr("main")})
	h.beside = contextOf(t, h.main)
	execute(t, h.main, "write one 1\nwrite two 2")

	h.first = submit(t, h.main, "remove one")
	waitFor(t, h.main, h.first, "error")
	temporary := filepath.Join(h.dir, "artifacts", "tmp")
	if err := os.Rename(temporary, temporary+".away"); err != nil { // no blob can be made
		t.Fatal(err)
	}
	h.goOn = func() {
		if err := os.Rename(temporary+".away", temporary); err != nil {
			t.Fatal(err)
		}
	}
	close(mayEnd)
	<-log.came
	h.second = submit(t, h.beside, "remove two")
	ended := make(chan error, 1)
	var waiter sync.WaitGroup
	t.Cleanup(waiter.Wait)
	waiter.Go(func() {
		_, err := h.beside.Wait(t.Context(), h.second)
		ended <- err
	})
	if err, early := shortly(ended); early {
		t.Errorf("a cell ended before the files of another one were committed (%v)", err)
	}
	return h
}

func TestNoSessionBesideHidesChangedFilesFromTheNextServer(t *testing.T) {
	h := holdUp(t)
	h.kill()
	h.goOn()
	h.open()
	changes := changedBy(wait(t, get(t, h.rig, "main"), h.first), wait(t, get(t, h.rig, h.beside.ID()), h.second))
	if !slices.Equal(changes, []string{"deleted one", "deleted two"}) {
		t.Errorf("the cells list %q", changes)
	}
}

func TestAnInterruptOrADeleteEndsTheWaitForTheFilesOfAnotherSession(t *testing.T) {
	for name, end := range map[string]func(heldUp) error{
		"interrupt": func(h heldUp) error {
			err := h.beside.Interrupt(t.Context(), "")
			if e := wait(t, h.beside, h.second); err == nil && len(e.Artifacts) > 0 {
				t.Errorf("it lists %v", e.Artifacts)
			}
			return err
		},
		"delete": func(h heldUp) error { return h.Delete(t.Context(), "ann", h.beside.ID()) },
	} {
		t.Run(name, func(t *testing.T) {
			h := holdUp(t)
			if err := end(h); err != nil {
				t.Error(err)
			}
			h.goOn()
			if got := changedBy(wait(t, h.main, h.first), execute(t, h.main, "print 1")); !slices.Equal(got, []string{"deleted one", "deleted two"}) {
				t.Errorf("the cells list %q", got)
			}
		})
	}
}

func TestSessionsInOneSandboxEndCellsAtTheSameTime(t *testing.T) {
	r := scripted(t, nil)
	main := r.session(api.SessionRequest{})
	all := []*session.Session{main, contextOf(t, main), contextOf(t, main)}
	var mu sync.Mutex
	var ended []api.Execution
	var want []string
	var cells sync.WaitGroup
	for i, s := range all {
		for round := range 40 {
			want = append(want, fmt.Sprintf("created %d-%d", i, round))
		}
		cells.Go(func() {
			for round := range 40 {
				e := execute(t, s, fmt.Sprintf("write %d-%d x", i, round))
				mu.Lock()
				ended = append(ended, e)
				mu.Unlock()
			}
		})
	}
	cells.Wait()
	slices.Sort(want)
	if got := changedBy(ended...); !slices.Equal(got, want) {
		t.Errorf("the cells list %q, want %q", got, want)
	}
}
