package link_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"talaria/kernel/command"
	"talaria/kernel/kerneltest"
	"talaria/kernel/link"
)

// shells is a fake whose terminals answer lines.
func shells() *kerneltest.Fake {
	fake := kerneltest.NewFake(kerneltest.Cells(cells))
	fake.Pipes, fake.Shell = true, kerneltest.Lines
	return fake
}

// shows reads a terminal from an offset until wanted has come, or to the end if wanted is "".
func shows(t *testing.T, c *link.Client, id string, after int64, wanted string) (all string, last command.TerminalOutput) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for !last.Ended && (wanted == "" || !strings.Contains(all, wanted)) {
		var err error
		if last, err = command.Ask(ctx, c, key("a"), command.ReadTerminal{ID: id, After: after}); err != nil {
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
	id, err := command.Ask(t.Context(), c, key("a"), command.OpenTerminal{Size: command.TerminalSize{Rows: 24, Cols: 80}})
	if err != nil {
		t.Fatal(err)
	}
	if n, err := command.Ask(t.Context(), c, key("a"), command.WriteTerminal{ID: id, Data: []byte("one\n")}); err != nil || n != 4 {
		t.Fatalf("typed %d: %v", n, err)
	}
	shows(t, c, id, 0, "[one]\r\n")
	waiting := make(chan error, 1)
	go func() {
		_, err := command.Ask(context.Background(), c, key("a"), command.ReadTerminal{ID: id, After: 1 << 40})
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
	if ids, err := command.Ask(t.Context(), c, key("a"), command.ListTerminals{}); err != nil || !slices.Equal(ids, []string{id}) {
		t.Errorf("terminals %v, %v", ids, err)
	}
	if err := command.Tell(t.Context(), c, key("a"), command.ResizeTerminal{ID: id, Size: command.TerminalSize{Rows: 1, Cols: 2}}); err != nil {
		t.Error(err)
	}
	if _, err := command.Ask(t.Context(), c, key("a"), command.WriteTerminal{ID: id, Data: []byte("exit 5\n")}); err != nil {
		t.Fatal(err)
	}
	if all, last := shows(t, c, id, 4, ""); last.Code != 5 || !strings.HasSuffix(all, "[one]\r\nexit 5\r\n") {
		t.Errorf("it ended with %d: %q", last.Code, all)
	}
	if err := command.Tell(t.Context(), c, key("a"), command.CloseTerminal{ID: id}); err != nil {
		t.Error(err)
	}
	if err := command.Tell(t.Context(), c, key("a"), command.CloseTerminal{ID: id}); !errors.Is(err, command.ErrNoTerminal) {
		t.Errorf("closed twice: %v", err)
	}
	for range command.MaxTerminals {
		if _, err := command.Ask(t.Context(), c, key("a"), command.OpenTerminal{Size: command.TerminalSize{}}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := command.Ask(t.Context(), c, key("a"), command.OpenTerminal{Size: command.TerminalSize{}}); !errors.Is(err, command.ErrTooManyTerminals) {
		t.Errorf("one more: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if _, err := command.Ask(ctx, c, key("a"), command.ReadTerminal{ID: "9", After: 0}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("nothing comes: %v", err)
	}
}

func TestAHostOfTheFirstProtocolHasNoTerminals(t *testing.T) {
	dir := t.TempDir()
	serveOn(t, dir, shells(), func(cfg *link.ServerConfig) { cfg.SpeakFrom(1, 1) })
	c := open(t, dir, noSpawn)
	begin(t, c, "a")
	ctx := t.Context()
	_, opened := command.Ask(ctx, c, key("a"), command.OpenTerminal{Size: command.TerminalSize{}})
	_, listed := command.Ask(ctx, c, key("a"), command.ListTerminals{})
	_, read := command.Ask(ctx, c, key("a"), command.ReadTerminal{ID: "1", After: 0})
	_, written := command.Ask(ctx, c, key("a"), command.WriteTerminal{ID: "1", Data: nil})
	resized := command.Tell(ctx, c, key("a"), command.ResizeTerminal{ID: "1", Size: command.TerminalSize{}})
	closed := command.Tell(ctx, c, key("a"), command.CloseTerminal{ID: "1"})
	for _, err := range []error{opened, listed, read, written, resized, closed} {
		if !errors.Is(err, command.ErrTooOld) {
			t.Errorf("an older host: %v", err)
		}
	}
	if _, err := command.Ask(ctx, c, key("other"), command.OpenTerminal{Size: command.TerminalSize{}}); !errors.Is(err, command.ErrNoKernel) {
		t.Errorf("a kernel that is not there: %v", err)
	}
}
