package link_test

import (
	"errors"
	"testing"

	"talaria/kernel/command"
	"talaria/kernel/kerneltest"
	"talaria/kernel/link"
	"talaria/kernel/record"
)

// installers is a fake whose cells ask for a package and print the outcome.
func installers() *kerneltest.Fake {
	return kerneltest.NewFake(kerneltest.Cells(func(c *kerneltest.Cell) {
		output, failure, _ := c.Install("a")
		c.Print(output + failure)
	}))
}

func TestAnInstallationOverASocketSurvivesItsServer(t *testing.T) {
	dir := t.TempDir()
	serveOn(t, dir, installers())
	c := open(t, dir, noSpawn)
	begin(t, c, "a")
	r := &reader{T: t, client: c, key: key("a")}
	r.execute("e1", "")
	asked := r.until(is[record.Asked]).Body.(record.Asked)
	if err := command.Tell(t.Context(), c, r.key, command.InstallOutput{RequestID: asked.ID, Text: "one\n"}); err != nil {
		t.Fatal(err)
	}
	_ = c.Close()

	c = open(t, dir, noSpawn)
	a, err := c.Attach(t.Context(), r.key)
	if err != nil || len(a.Asks) != 1 || a.Asks[0] != (command.OpenAsk{Kind: record.AskInstall, ID: asked.ID}) {
		t.Fatalf("attached %+v, %v", a, err)
	}
	if err := command.Tell(t.Context(), c, r.key, command.AnswerInstall{RequestID: "other", Result: command.InstallResult{}}); !errors.Is(err, command.ErrNoInstallPending) {
		t.Errorf("an answer to another request: %v", err)
	}
	if err := command.Tell(t.Context(), c, r.key, command.InstallOutput{RequestID: asked.ID, Text: "two\n"}); err != nil {
		t.Error(err)
	}
	if err := command.Tell(t.Context(), c, r.key, command.AnswerInstall{RequestID: asked.ID, Result: command.InstallResult{Error: "no"}}); err != nil {
		t.Error(err)
	}
	r.client = c
	r.until(is[record.Finished])
	if got := r.text(); got != "one\ntwo\nno" {
		t.Errorf("text %q", got)
	}
	if err := command.Tell(t.Context(), c, r.key, command.InstallOutput{RequestID: asked.ID, Text: "late"}); !errors.Is(err, command.ErrNoInstallPending) {
		t.Errorf("output after the end: %v", err)
	}
}

func TestAServerOfAnEarlierProtocolIsAskedForNoCheckpoints(t *testing.T) {
	dir := t.TempDir()
	serveOn(t, dir, kerneltest.NewFake(kerneltest.Cells(func(c *kerneltest.Cell) {
		c.AskAfter(map[string]any{"action": "checkpoint"})
		c.Print(c.Answer().Error)
	})), func(cfg *link.ServerConfig) { cfg.SpeakFrom(1, 10) })
	c := open(t, dir, noSpawn)
	begin(t, c, "a")
	r := &reader{T: t, client: c, key: key("a")}
	r.execute("e1", "")
	r.until(is[record.Finished])
	if got := r.text(); got != "checkpoints can only be asked for from outside: the server is of an earlier version" {
		t.Errorf("text %q", got)
	}
	if err := command.Tell(t.Context(), c, r.key, command.AnswerAfter{RequestID: "1"}); !errors.Is(err, command.ErrTooOld) {
		t.Errorf("an older host: %v", err)
	}
}

func TestAServerOfAnEarlierProtocolIsAskedForNoPackages(t *testing.T) {
	dir := t.TempDir()
	serveOn(t, dir, installers(), func(cfg *link.ServerConfig) { cfg.SpeakFrom(1, 2) })
	c := open(t, dir, noSpawn)
	begin(t, c, "a")
	r := &reader{T: t, client: c, key: key("a")}
	r.execute("e1", "")
	r.until(is[record.Finished])
	if got := r.text(); got != "the server is of a version that cannot do that" {
		t.Errorf("text %q", got)
	}
	for _, err := range []error{command.Tell(t.Context(), c, r.key, command.InstallOutput{RequestID: "1", Text: ""}), command.Tell(t.Context(), c, r.key, command.AnswerInstall{RequestID: "1", Result: command.InstallResult{}})} {
		if !errors.Is(err, command.ErrTooOld) {
			t.Errorf("an older host: %v", err)
		}
	}
}
