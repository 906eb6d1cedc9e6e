package link_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"talaria/api"
	"talaria/kernel"
	"talaria/kernel/command"
	"talaria/kernel/kerneltest"
	"talaria/kernel/link"
	"talaria/kernel/record"
)

func quickly(cfg *link.ClientConfig) { cfg.Beat(10*time.Millisecond, 5*time.Second) }

// untilReady waits until the host for new kernels responds, or until it does not.
func untilReady(t *testing.T, c *link.Client, ready bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); (c.Ready(t.Context()) == nil) != ready; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("ready is %v", c.Ready(t.Context()))
		}
	}
}

func TestAHostThatIsStoppedIsNoticedAndGoesOn(t *testing.T) {
	dir := t.TempDir()
	child := hostProcess(t, dir)
	c := open(t, dir, noSpawn, quickly)
	r := begin(t, c, "a")
	r.execute("e1", "echo 1 ")
	r.until(is[record.Finished])
	kerneltest.StopProcess(t, child.Process.Pid)
	large := "skip " + strings.Repeat(" ", 16<<20) // more than the socket holds
	given := make(chan error, 1)
	go func() { given <- command.Tell(t.Context(), c, r.key, command.Execution{ID: "e2", Code: large}) }()
	var err error
	for err == nil { // until the host is stopped: the last one has been sent
		_, err = command.Ask(t.Context(), c, r.key, command.ReadUsage{})
	}
	var told *api.Error
	if !errors.Is(err, command.ErrUnresponsive) || !errors.As(err, &told) || told.Status != 503 {
		t.Errorf("a question: %v", err)
	}
	untilReady(t, c, false)
	_, err = c.Start(t.Context(), key("b"), kernel.Environment{}, kernel.Spec{})
	if !errors.Is(err, command.ErrUnresponsive) {
		t.Errorf("a start: %v", err)
	}
	for what, err := range map[string]error{
		"an interrupt": command.Tell(t.Context(), c, r.key, command.Interrupt{ExecutionID: "e1"}),
		"a stop":       c.Stop(t.Context(), r.key, "deleted"),
	} {
		if !errors.Is(err, command.ErrUnresponsive) {
			t.Errorf("%s: %v", what, err)
		}
	}
	c.Ack(r.key, r.after)
	select {
	case err := <-given:
		t.Errorf("a cell did not wait: %v", err)
	default:
	}
	if err := child.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	if err := <-given; err != nil {
		t.Errorf("the cell: %v", err)
	}
	r.until(is[record.Finished])
	r.execute("e3", "echo 2")
	r.until(is[record.Finished])
	if got := r.text(); got != "1 2" {
		t.Errorf("the cells printed %q", got)
	}
	untilReady(t, c, true)
	begin(t, c, "c").execute("e1", "echo x")
}

// A host that responds may still take too long for a command, as on an overloaded machine.
func TestACommandThatTakesTooLongSaysSo(t *testing.T) {
	dir := t.TempDir()
	hostProcess(t, dir)
	c := open(t, dir, noSpawn, func(cfg *link.ClientConfig) { cfg.Reply(time.Nanosecond) })
	r := begin(t, c, "a")
	_, err := command.Ask(t.Context(), c, r.key, command.ReadUsage{})
	var told *api.Error
	if !errors.As(err, &told) || told.Code != api.CodeKernelBusy {
		t.Errorf("%v, want %s", err, api.CodeKernelBusy)
	}
}

// A host that does not answer while a server starts, as on a machine without memory, keeps its kernels: the server waits for it.
func TestANewServerWaitsForAHostThatIsStopped(t *testing.T) {
	dir := t.TempDir()
	child := hostProcess(t, dir)
	c := open(t, dir, noSpawn)
	r := begin(t, c, "a")
	r.execute("e1", "echo 1")
	r.until(is[record.Finished])
	_ = c.Close()
	kerneltest.StopProcess(t, child.Process.Pid)
	goOn := time.AfterFunc(time.Second, func() { _ = child.Process.Signal(syscall.SIGCONT) })
	defer goOn.Stop()
	c = open(t, dir, noSpawn, func(cfg *link.ClientConfig) { cfg.Wait(500*time.Millisecond, patience) })
	if _, err := c.Attach(t.Context(), r.key); err != nil {
		t.Errorf("attach: %v", err)
	}
}

// A server does not wait for a stopped host without end, and not twice.
func TestANewServerDoesNotWaitForeverForAHost(t *testing.T) {
	dir := t.TempDir()
	child := hostProcess(t, dir)
	c := open(t, dir, noSpawn)
	r := begin(t, c, "a")
	_ = c.Close()
	kerneltest.StopProcess(t, child.Process.Pid)
	defer child.kill()
	c = open(t, dir, func(context.Context) error { serve(t, dir); return nil },
		func(cfg *link.ClientConfig) { cfg.Wait(2*time.Second, 200*time.Millisecond) })
	if _, err := c.Attach(t.Context(), r.key); err == nil || errors.Is(err, command.ErrNoKernel) || !strings.Contains(err.Error(), "cannot be reached") {
		t.Errorf("attach: %v", err)
	}
	begin(t, c, "b").execute("e1", "echo x")
}

func TestAServerWithoutAHostIsNotReadyUntilOneStarts(t *testing.T) {
	dir := t.TempDir()
	first := hostProcess(t, dir)
	refused := errors.New("no memory")
	var starts atomic.Int32
	var works atomic.Bool
	c := open(t, dir, func(context.Context) error {
		starts.Add(1)
		if !works.Load() {
			return refused
		}
		serve(t, dir)
		return nil
	})
	r := begin(t, c, "a")
	first.kill()
	r.untilDied(link.ReasonHostCrash)
	for range 10 {
		if err := c.Ready(t.Context()); !errors.Is(err, refused) {
			t.Errorf("ready: %v", err)
		}
	}
	if got := starts.Load(); got == 0 || got > 2 { // two where this took longer than the time between two starts
		t.Errorf("%d starts were tried", got)
	}
	works.Store(true)
	untilReady(t, c, true)
}
