package server_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"talaria/api"
	"talaria/artifacts"
	"talaria/batch"
	"talaria/kernel"
	"talaria/kernel/host"
	"talaria/kernel/kerneltest"
	"talaria/session"
	"talaria/store"
)

// newSessions makes sessions with a real store and real files, whose kernels are scripted: the code of a cell is
// "hang" (until it is interrupted), "ask" (a question, whose answer it prints), "big N" (N times 64 KiB), "write PATH
// TEXT" (a file in the workspace), or anything else, which it prints.
func newSessions(t *testing.T, dir string, change ...func(*session.Config)) (*session.Manager, *batch.Manager) {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	db, err := store.Open(t.Context(), dir, log)
	if err != nil {
		t.Fatal(err)
	}
	blobs, err := artifacts.Open(filepath.Join(dir, "artifacts"))
	if err != nil {
		t.Fatal(err)
	}
	sessionsDir := filepath.Join(dir, "sessions")
	if err := os.MkdirAll(sessionsDir, 0o755); err != nil {
		t.Fatal(err)
	}
	fake := kerneltest.NewFake(kerneltest.Cells(runCell))
	fake.Shell = kerneltest.Lines
	host := host.NewHost(host.HostConfig{Backend: fake, Log: log})
	limits := session.DefaultLimits
	limits.OutputBytes = 64 << 20
	ceilings := session.DefaultCeilings
	cfg := session.Config{
		Store: db, Artifacts: blobs, Host: host, Log: log, Version: "test", SessionsDir: sessionsDir,
		Environments: []kernel.Environment{{Name: "default", Python: "/usr/bin/python3", Version: "3.11.2"}},
		Tier:         "fake", TZ: "UTC", BootID: "boot", Defaults: limits, Ceilings: ceilings,
		IdleTimeout: session.DefaultIdleTimeout, InlineBytes: session.DefaultInlineBytes,
		Checkpoints: api.CheckpointsManual, // so that logs have what a test does, and no more
	}
	for _, f := range change {
		f(&cfg)
	}
	m, err := session.Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	batches, err := batch.Open(t.Context(), batch.Config{Sessions: m, Store: db, Log: log, Slots: 2})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, close := range []func() error{
			batches.Close,
			func() error { return m.Close(context.Background()) },
			func() error { return host.Close(context.Background()) },
			db.Close,
		} {
			if err := close(); err != nil {
				t.Error(err)
			}
		}
	})
	return m, batches
}

func runCell(c *kerneltest.Cell) {
	word, rest, _ := strings.Cut(c.Code, " ")
	switch word {
	case "hang":
		c.Sleep()
	case "ask":
		if answer, ok := c.Input("? "); ok {
			c.Print(answer + "\n")
		} else {
			c.Raise("StdinNotImplementedError", "nobody is there")
		}
	case "big":
		var n int
		if _, err := fmt.Sscan(rest, &n); err != nil {
			c.Raise("ValueError", err.Error())
		}
		text := strings.Repeat("x", 64<<10)
		for range n {
			c.Print(text)
		}
	case "write":
		name, text, _ := strings.Cut(rest, " ")
		path := filepath.Join(fmt.Sprintf("/proc/self/fd/%d", c.Runner.Spec.Workspace.Fd()), name)
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			c.Raise("OSError", err.Error())
		}
	default:
		c.Print(c.Code + "\n")
	}
}
