package link_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"talaria/kernel"
	"talaria/kernel/kerneltest"
	"talaria/kernel/link"
)

// shells is a fake whose terminals answer lines.
func shells() *kerneltest.Fake {
	fake := kerneltest.NewFake(kerneltest.Cells(cells))
	fake.Pipes, fake.Shell = true, kerneltest.Lines
	return fake
}

// shows reads a terminal from an offset until wanted has come, or to the end where that is "".
func shows(t *testing.T, c *link.Client, id string, after int64, wanted string) (all string, last kernel.TerminalOutput) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for !last.Ended && (wanted == "" || !strings.Contains(all, wanted)) {
		var err error
		if last, err = kernel.Ask(ctx, c, key("a"), kernel.ReadTerminal{ID: id, After: after}); err != nil {
			t.Fatalf("after %q: %v", all, err)
		}
		all += string(last.Data)
		after = last.Offset + int64(len(last.Data))
	}
	return all, last
}

func TestTerminalsOverASocketSurviveTheirServer(t *testing.T) {
	dir := t.TempDir()
	serveOn(t, dir, shells())
	c := open(t, dir, noSpawn)
	begin(t, c, "a")
	id, err := kernel.Ask(t.Context(), c, key("a"), kernel.OpenTerminal{Size: kernel.TerminalSize{Rows: 24, Cols: 80}})
	if err != nil {
		t.Fatal(err)
	}
	if n, err := kernel.Ask(t.Context(), c, key("a"), kernel.WriteTerminal{ID: id, Data: []byte("one\n")}); err != nil || n != 4 {
		t.Fatalf("typed %d: %v", n, err)
	}
	shows(t, c, id, 0, "[one]\r\n")
	waiting := make(chan error, 1)
	go func() {
		_, err := kernel.Ask(context.Background(), c, key("a"), kernel.ReadTerminal{ID: id, After: 1 << 40})
		waiting <- err
	}()
	_ = c.Close()
	if err := <-waiting; err == nil {
		t.Error("a wait goes on without its client")
	}

	c = open(t, dir, noSpawn)
	if _, err := c.Attach(t.Context(), key("a")); err != nil {
		t.Fatal(err)
	}
	if ids, err := kernel.Ask(t.Context(), c, key("a"), kernel.ListTerminals{}); err != nil || !slices.Equal(ids, []string{id}) {
		t.Errorf("terminals %v, %v", ids, err)
	}
	if err := kernel.Tell(t.Context(), c, key("a"), kernel.ResizeTerminal{ID: id, Size: kernel.TerminalSize{Rows: 1, Cols: 2}}); err != nil {
		t.Error(err)
	}
	if _, err := kernel.Ask(t.Context(), c, key("a"), kernel.WriteTerminal{ID: id, Data: []byte("exit 5\n")}); err != nil {
		t.Fatal(err)
	}
	if all, last := shows(t, c, id, 4, ""); last.Code != 5 || !strings.HasSuffix(all, "[one]\r\nexit 5\r\n") {
		t.Errorf("it ended with %d: %q", last.Code, all)
	}
	if err := kernel.Tell(t.Context(), c, key("a"), kernel.CloseTerminal{ID: id}); err != nil {
		t.Error(err)
	}
	if err := kernel.Tell(t.Context(), c, key("a"), kernel.CloseTerminal{ID: id}); !errors.Is(err, kernel.ErrNoTerminal) {
		t.Errorf("closed twice: %v", err)
	}
	for range kernel.MaxTerminals {
		if _, err := kernel.Ask(t.Context(), c, key("a"), kernel.OpenTerminal{Size: kernel.TerminalSize{}}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := kernel.Ask(t.Context(), c, key("a"), kernel.OpenTerminal{Size: kernel.TerminalSize{}}); !errors.Is(err, kernel.ErrTooManyTerminals) {
		t.Errorf("one more: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if _, err := kernel.Ask(ctx, c, key("a"), kernel.ReadTerminal{ID: "9", After: 0}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("nothing comes: %v", err)
	}
}

func TestAHostOfTheFirstProtocolHasNoTerminals(t *testing.T) {
	dir := t.TempDir()
	serveOn(t, dir, shells(), func(cfg *link.ServerConfig) { cfg.SpeakFrom(1, 1) })
	c := open(t, dir, noSpawn)
	begin(t, c, "a")
	ctx := t.Context()
	_, opened := kernel.Ask(ctx, c, key("a"), kernel.OpenTerminal{Size: kernel.TerminalSize{}})
	_, listed := kernel.Ask(ctx, c, key("a"), kernel.ListTerminals{})
	_, read := kernel.Ask(ctx, c, key("a"), kernel.ReadTerminal{ID: "1", After: 0})
	_, written := kernel.Ask(ctx, c, key("a"), kernel.WriteTerminal{ID: "1", Data: nil})
	resized := kernel.Tell(ctx, c, key("a"), kernel.ResizeTerminal{ID: "1", Size: kernel.TerminalSize{}})
	closed := kernel.Tell(ctx, c, key("a"), kernel.CloseTerminal{ID: "1"})
	for _, err := range []error{opened, listed, read, written, resized, closed} {
		if !errors.Is(err, kernel.ErrTooOld) {
			t.Errorf("an older host: %v", err)
		}
	}
	if _, err := kernel.Ask(ctx, c, key("other"), kernel.OpenTerminal{Size: kernel.TerminalSize{}}); !errors.Is(err, kernel.ErrNoKernel) {
		t.Errorf("a kernel that is not there: %v", err)
	}
}
