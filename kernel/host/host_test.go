package host_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"talaria/kernel"
	"talaria/kernel/command"
	"talaria/kernel/host"
	"talaria/kernel/kerneltest"
	"talaria/kernel/record"
)

func TestACellGoesFromStartedToFinished(t *testing.T) {
	r := newRig(t, kerneltest.Cells(func(c *kerneltest.Cell) {
		c.Print("hello\n")
		c.Display(map[string]any{"text/plain": "shown"})
		c.Clear(true)
		c.Result(c.Code)
	}))
	r.execute(command.Execution{ID: "e1", Code: "42", Count: 1})
	r.expect(r.untilFinished(),
		"e1: started", `e1: stdout "hello\n"`, `e1: display map[text/plain:"shown"]  false`, "e1: clear true",
		`e1: result "42"`, "e1: finished ok")
	r.execute(command.Execution{ID: "e2", Code: "43", Count: 2, Silent: true})
	r.expect(r.untilFinished(),
		"e2: started", `e2: stdout "hello\n"`, `e2: display map[text/plain:"shown"]  false`, "e2: clear true",
		"e2: finished ok")
}

func TestExecuteRefusesWhatItCannotRun(t *testing.T) {
	r := newRig(t, kerneltest.Cells((*kerneltest.Cell).Sleep))
	r.execute(command.Execution{ID: "e1"})
	for _, c := range []struct {
		key  record.Key
		id   string
		want error
	}{
		{r.key, "e1", command.ErrRepeated},
		{r.key, "e2", command.ErrKernelBusy},
		{record.Key{Session: "other"}, "e2", command.ErrNoKernel},
	} {
		if err := command.Tell(t.Context(), r.host, c.key, command.Execution{ID: c.id}); !errors.Is(err, c.want) {
			t.Errorf("execute %s in %v: %v, want %v", c.id, c.key, err, c.want)
		}
	}
	if err := command.Tell(t.Context(), r.host, r.key, command.Interrupt{ExecutionID: "e1"}); err != nil {
		t.Fatal(err)
	}
	r.untilFinished()
	if err := command.Tell(t.Context(), r.host, r.key, command.Execution{ID: "e1"}); !errors.Is(err, command.ErrRepeated) {
		t.Errorf("a repeat after the end: %v", err)
	}
}

func TestUsageIsMeasuredAroundTheCell(t *testing.T) {
	calls := 0
	r := newRig(t, kerneltest.Cells(func(*kerneltest.Cell) {}), func(_ *host.HostConfig, f *kerneltest.Fake) {
		f.Usage = func() (kernel.Usage, error) {
			calls++
			return kernel.Usage{CPU: time.Duration(calls) * time.Second, PeakMemoryBytes: 5 << 20}, nil
		}
	})
	r.execute(command.Execution{ID: "e1"})
	records := r.untilFinished()
	usage := records[len(records)-1].Body.(record.Finished).Usage
	if usage.CPU != time.Second || usage.PeakMemory != 5<<20 || usage.Duration <= 0 {
		t.Errorf("usage %+v", usage)
	}
}

func TestInterruptStatuses(t *testing.T) {
	cases := []struct {
		name string
		run  func(*kerneltest.Cell)
		want string
	}{
		{"KeyboardInterrupt", (*kerneltest.Cell).Sleep, "e1: finished interrupted KeyboardInterrupt"},
		{"caught", (*kerneltest.Cell).Interrupted, "e1: finished ok"},
		{"other exception", func(c *kerneltest.Cell) { c.Interrupted(); c.Raise("ValueError", "") }, "e1: finished error ValueError"},
		{"twice", func(c *kerneltest.Cell) { c.Interrupted(); c.Sleep() }, "e1: finished interrupted KeyboardInterrupt"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, kerneltest.Cells(c.run))
			r.execute(command.Execution{ID: "e1"})
			for _, id := range []string{"e0", "e1", "e1"} {
				if err := command.Tell(t.Context(), r.host, r.key, command.Interrupt{ExecutionID: id}); err != nil {
					t.Fatal(err)
				}
			}
			records := r.untilFinished()
			r.expect(records[len(records)-1:], c.want)
		})
	}
}

func TestAnInterruptWhileTheCellIsHandedOverIsNotLost(t *testing.T) {
	var r *rig
	var before sync.Once // the first measurement is the one before the cell
	r = newRig(t, kerneltest.Cells((*kerneltest.Cell).Sleep), func(_ *host.HostConfig, f *kerneltest.Fake) {
		f.Usage = func() (kernel.Usage, error) {
			before.Do(func() { _ = command.Tell(t.Context(), r.host, r.key, command.Interrupt{ExecutionID: "e1"}) })
			return kernel.Usage{}, nil
		}
	})
	r.execute(command.Execution{ID: "e1"})
	r.expect(r.untilFinished(), "e1: started", "e1: raised KeyboardInterrupt ", "e1: finished interrupted KeyboardInterrupt")
}

func TestAKeyboardInterruptOfTheCellItselfIsAnError(t *testing.T) {
	r := newRig(t, func(run *kerneltest.Runner) {
		run.Ready()
		f, _ := run.Read()
		run.Send(map[string]any{
			"type": "error", "id": f.ID, "ename": "KeyboardInterrupt", "evalue": "", "traceback": []string{},
		})
		run.Done(f.ID, "error", true) // forged: nobody interrupted
		run.Read()
	})
	r.execute(command.Execution{ID: "e1"})
	r.expect(r.untilFinished(), "e1: started", "e1: raised KeyboardInterrupt ", "e1: finished error KeyboardInterrupt")
}

func TestTimeOut(t *testing.T) {
	cases := []struct {
		name string
		run  func(*kerneltest.Cell)
		want string
		took time.Duration
	}{
		{"raises", (*kerneltest.Cell).Sleep, "e1: finished timeout KeyboardInterrupt", 10 * time.Second},
		{"catches it and ends", (*kerneltest.Cell).Interrupted, "e1: finished ok", 10 * time.Second},
		{"ignores it", (*kerneltest.Cell).Stuck, "e1: died timeout timed out", 13 * time.Second},
		{"ends in the grace", func(c *kerneltest.Cell) {
			c.Interrupted()
			time.Sleep(2 * time.Second)
			c.Raise("SystemExit", "")
		}, "e1: finished timeout SystemExit", 12 * time.Second},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, kerneltest.Cells(c.run), func(cfg *host.HostConfig, _ *kerneltest.Fake) {
					cfg.InterruptGrace = 3 * time.Second
				})
				began := time.Now()
				r.execute(command.Execution{ID: "e1", Timeout: 10 * time.Second})
				records := r.until(func(rec record.Record) bool { return is[record.Finished](rec) || is[record.Died](rec) })
				r.expect(records[len(records)-1:], c.want)
				if took := time.Since(began); took != c.took {
					t.Errorf("took %v, want %v", took, c.took)
				}
				var usage record.ExecutionUsage
				switch b := records[len(records)-1].Body.(type) {
				case record.Finished:
					usage = b.Usage
				case record.Died:
					usage = b.Usage
				}
				if usage.Duration != c.took {
					t.Errorf("duration %v, want %v", usage.Duration, c.took)
				}
			})
		})
	}
}

func TestTheClockStandsStillWhileACellAsks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, kerneltest.Cells(func(c *kerneltest.Cell) {
			time.Sleep(4 * time.Second)
			c.Input("one? ")
			time.Sleep(4 * time.Second)
			c.Input("two? ")
			c.Sleep()
		}))
		began := time.Now()
		r.execute(command.Execution{ID: "e1", Timeout: 10 * time.Second, AllowStdin: true})
		r.until(is[record.Asked])
		time.Sleep(time.Hour)
		if err := command.Tell(t.Context(), r.host, r.key, command.AnswerInput{RequestID: "q1", Value: "yes"}); err != nil {
			t.Fatal(err)
		}
		r.until(is[record.Asked])
		time.Sleep(time.Hour)
		if err := command.Tell(t.Context(), r.host, r.key, command.RefuseInput{RequestID: "q2"}); err != nil {
			t.Fatal(err)
		}
		r.expect(r.untilFinished(), "e1: raised KeyboardInterrupt the cell exceeded its timeout of 10 s; the variables are kept", "e1: finished timeout KeyboardInterrupt")
		if took, want := time.Since(began), 2*time.Hour+10*time.Second; took != want {
			t.Errorf("took %v, want %v", took, want)
		}
	})
}

func TestInput(t *testing.T) {
	ask := func(c *kerneltest.Cell) {
		if answer, ok := c.Input("name? "); ok {
			c.Print(answer)
			return
		}
		c.Raise("RuntimeError", "refused")
	}
	asked := []string{"e1: started", `e1: input q1 "name? " false`}
	cases := []struct {
		name string
		do   func(r *rig) error
		want []string
	}{
		{"answered", func(r *rig) error {
			return command.Tell(t.Context(), r.host, r.key, command.AnswerInput{RequestID: "q1", Value: "Ada"})
		},
			[]string{"e1: input q1 answered", `e1: stdout "Ada"`, "e1: finished ok"}},
		{"refused", func(r *rig) error {
			return command.Tell(t.Context(), r.host, r.key, command.RefuseInput{RequestID: "q1"})
		},
			[]string{"e1: raised RuntimeError refused", "e1: finished error RuntimeError"}},
		{"interrupted", func(r *rig) error {
			return command.Tell(t.Context(), r.host, r.key, command.Interrupt{ExecutionID: "e1"})
		},
			[]string{"e1: input q1 interrupted", "e1: raised RuntimeError refused", "e1: finished error RuntimeError"}},
		{"stopped", func(r *rig) error { return r.host.Stop(context.Background(), r.key, "reset") },
			[]string{"e1: input q1 interrupted", "e1: died reset"}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, kerneltest.Cells(ask))
			r.execute(command.Execution{ID: "e1", AllowStdin: true})
			r.expect(r.until(is[record.Asked]), asked...)
			if err := command.Tell(t.Context(), r.host, r.key, command.AnswerInput{RequestID: "q0", Value: "x"}); !errors.Is(err, command.ErrNoInputPending) {
				t.Errorf("an answer to another question: %v", err)
			}
			if err := c.do(r); err != nil {
				t.Fatal(err)
			}
			r.expect(r.until(func(rec record.Record) bool { return is[record.Finished](rec) || is[record.Died](rec) }), c.want...)
			err := command.Tell(t.Context(), r.host, r.key, command.AnswerInput{RequestID: "q1", Value: "x"})
			if !errors.Is(err, command.ErrNoInputPending) && !errors.Is(err, command.ErrNoKernel) {
				t.Errorf("an answer after the end: %v", err)
			}
		})
	}
}

func TestInputIsRefusedWhereItIsNotAllowed(t *testing.T) {
	r := newRig(t, kerneltest.Cells(func(c *kerneltest.Cell) {
		if _, ok := c.Input("? "); ok {
			c.Print("answered")
		}
	}))
	r.execute(command.Execution{ID: "e1"})
	r.expect(r.untilFinished(), "e1: started", "e1: finished ok")
}

func TestAQuestionThatIsOpenAtTheEndIsClosed(t *testing.T) {
	r := newRig(t, func(run *kerneltest.Runner) {
		run.Ready()
		f, _ := run.Read()
		run.Send(map[string]any{"type": "ask", "id": f.ID, "ask": "q", "kind": "input", "body": map[string]any{"prompt": "", "password": true}})
		run.Done(f.ID, "ok", false)
		run.Read()
	})
	r.execute(command.Execution{ID: "e1", AllowStdin: true})
	r.expect(r.untilFinished(), "e1: started", `e1: input q "" true`, "e1: input q interrupted", "e1: finished ok")
}

func TestDeathIsReported(t *testing.T) {
	cases := []struct {
		name string
		exit kernel.Exit
		want string
	}{
		{"exit", kernel.Exit{Code: 7}, "e1: died exit:7"},
		{"signal", kernel.Exit{Signal: syscall.SIGSEGV}, "e1: died signal:SIGSEGV"},
		{"memory", kernel.Exit{Signal: syscall.SIGKILL, Limit: "memory_limit"}, "e1: died memory_limit"},
		{"sandbox", kernel.Exit{Lost: true}, "e1: died sandbox_lost"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, kerneltest.Cells(func(cell *kerneltest.Cell) {
				cell.Print("last words")
				cell.Runner.Exit(c.exit)
			}))
			r.execute(command.Execution{ID: "e1"})
			records := r.untilDied()
			r.expect(records, "e1: started", `e1: stdout "last words"`, c.want)
			died := records[len(records)-1].Body.(record.Died)
			if died.Exit != c.exit {
				t.Errorf("exit %+v", died.Exit)
			}
			if (died.Limit != nil) != (c.exit.Limit != "") {
				t.Errorf("limit %+v", died.Limit)
			}
			if err := command.Tell(t.Context(), r.host, r.key, command.Execution{ID: "e2"}); !errors.Is(err, command.ErrNoKernel) {
				t.Errorf("execute after death: %v", err)
			}
			r.ends()
		})
	}
}

func TestDeathWhileIdleNamesNoExecution(t *testing.T) {
	r := newRig(t, kerneltest.Cells(func(*kerneltest.Cell) {}))
	r.execute(command.Execution{ID: "e1"})
	r.untilFinished()
	r.fake.KillAll(syscall.SIGKILL)
	r.expect(r.untilDied(), ": died signal:SIGKILL")
}

func TestAKernelThatClosedItsControlStreamIsKilled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, kerneltest.Cells(func(c *kerneltest.Cell) {
			c.Runner.CloseControl()
			c.Stuck()
		}))
		r.execute(command.Execution{ID: "e1"})
		began := time.Now()
		r.expect(r.untilDied(), "e1: started", "e1: died control_closed")
		if took := time.Since(began); took != 2*time.Second {
			t.Errorf("after %v", took)
		}
	})
}

func TestDeathIsReportedBeforeASlowClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, kerneltest.Cells(func(c *kerneltest.Cell) { c.Exit(3) }),
			func(_ *host.HostConfig, f *kerneltest.Fake) { f.OnClose = func() { time.Sleep(time.Minute) } })
		began := time.Now()
		r.execute(command.Execution{ID: "e1"})
		r.expect(r.untilDied(), "e1: started", "e1: died exit:3")
		if took := time.Since(began); took > 100*time.Millisecond {
			t.Errorf("reported after %v", took)
		}
		if err := r.host.Stop(t.Context(), r.key, "x"); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took != time.Minute || r.fake.Open() != 0 {
			t.Errorf("stop returned after %v with %d sandboxes open", took, r.fake.Open())
		}
		if _, err := r.host.Next(t.Context(), r.key, 2); !errors.Is(err, command.ErrNoKernel) {
			t.Errorf("the key is not forgotten: %v", err)
		}
	})
}

func TestStop(t *testing.T) {
	r := newRig(t, kerneltest.Cells((*kerneltest.Cell).Stuck))
	r.execute(command.Execution{ID: "e1"})
	for range 2 {
		if err := r.host.Stop(t.Context(), r.key, "reset"); err != nil {
			t.Fatal(err)
		}
		if n := r.fake.Open(); n != 0 {
			t.Errorf("%d sandboxes are left", n)
		}
	}
	if err := r.host.Stop(t.Context(), record.Key{Session: "none"}, "reset"); err != nil {
		t.Errorf("a key that is not known: %v", err)
	}
	r.expect(r.untilDied(), "e1: started", "e1: died reset")
	r.ends()
}

func TestTheReasonOfADeathStandsAgainstALaterStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, kerneltest.Cells(func(c *kerneltest.Cell) { c.Exit(9) }),
			func(_ *host.HostConfig, f *kerneltest.Fake) { f.OnClose = func() { time.Sleep(time.Minute) } })
		r.execute(command.Execution{ID: "e1"})
		synctest.Wait() // it is dead, and its end has not been reported yet
		if err := r.host.Stop(t.Context(), r.key, "reset"); err != nil {
			t.Fatal(err)
		}
		r.expect(r.untilDied(), "e1: started", "e1: died exit:9")
	})
}

func TestNextEndsWithEOFAndAckForgets(t *testing.T) {
	r := newRig(t, kerneltest.Cells(func(*kerneltest.Cell) {}))
	if err := r.host.Stop(t.Context(), r.key, "deleted"); err != nil {
		t.Fatal(err)
	}
	records, err := r.host.Next(t.Context(), r.key, 0)
	if err != nil || len(records) != 1 {
		t.Fatalf("%v, %v", records, err)
	}
	if _, err := r.host.Next(t.Context(), r.key, 1); !errors.Is(err, io.EOF) {
		t.Errorf("after the last record: %v", err)
	}
	if _, err := r.host.Start(t.Context(), r.key, kernel.Environment{}, kernel.Spec{}); !errors.Is(err, command.ErrKernelExists) {
		t.Errorf("start of a key that is not forgotten: %v", err)
	}
	r.host.Ack(r.key, 1)
	if _, err := r.host.Next(t.Context(), r.key, 1); !errors.Is(err, command.ErrNoKernel) {
		t.Errorf("after the acknowledgement: %v", err)
	}
	if _, err := r.host.Start(t.Context(), r.key, kernel.Environment{}, kernel.Spec{}); err != nil {
		t.Errorf("start of a forgotten key: %v", err)
	}
}

func TestNextReturnsWhenItsContextEnds(t *testing.T) {
	r := newRig(t, kerneltest.Cells(func(*kerneltest.Cell) {}))
	why := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(why)
	if _, err := r.host.Next(ctx, r.key, 0); !errors.Is(err, why) {
		t.Error(err)
	}
}

func TestStartFailsWholly(t *testing.T) {
	broken := errors.New("broken")
	cases := []struct {
		name   string
		set    setting
		script kerneltest.Script
		want   string
	}{
		{"create", func(_ *host.HostConfig, f *kerneltest.Fake) { f.CreateErr = broken }, nil, "create sandbox: broken"},
		{"seal", func(_ *host.HostConfig, f *kerneltest.Fake) { f.SealErr = broken }, nil, "seal sandbox: broken"},
		{"start", func(_ *host.HostConfig, f *kerneltest.Fake) { f.StartErr = broken }, nil, "start runner: broken"},
		{"exits", withPipes, func(r *kerneltest.Runner) {
			_, _ = io.WriteString(r.Stderr, "ImportError: no ast\n")
			r.Exit(kernel.Exit{Code: 1})
		}, "the runner ended before it was ready: exit:1; its stderr ends with: ImportError: no ast"},
		{"hangs", func(cfg *host.HostConfig, _ *kerneltest.Fake) { cfg.StartTimeout = time.Millisecond },
			func(r *kerneltest.Runner) { r.Read() }, "the kernel was not ready after 1ms"},
		{"says something else", func(cfg *host.HostConfig, _ *kerneltest.Fake) { cfg.StartTimeout = 50 * time.Millisecond },
			func(r *kerneltest.Runner) {
				r.Stream("e1", "stdout", "not ready", 0)
				r.Send(map[string]any{"type": "ready", "mark": "no hex"})
				r.Read()
			}, "the kernel was not ready"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			fake := kerneltest.NewFake(c.script)
			cfg := host.HostConfig{Backend: fake}
			c.set(&cfg, fake)
			h := host.NewHost(cfg)
			key := record.Key{Session: "s", Generation: 1}
			_, err := h.Start(t.Context(), key, kernel.Environment{}, kernel.Spec{})
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want %q", err, c.want)
			}
			if n := fake.Open(); n != 0 || len(h.Running()) != 0 {
				t.Errorf("%d sandboxes, kernels %v are left", n, h.Running())
			}
			if _, err := h.Next(t.Context(), key, 0); !errors.Is(err, command.ErrNoKernel) {
				t.Errorf("next: %v", err)
			}
		})
	}
}

func TestStopEndsAStart(t *testing.T) {
	began := make(chan struct{})
	fake := kerneltest.NewFake(func(r *kerneltest.Runner) { close(began); r.Read() })
	h := host.NewHost(host.HostConfig{Backend: fake})
	key := record.Key{Session: "s", Generation: 1}
	failed := make(chan error, 1)
	go func() {
		_, err := h.Start(context.Background(), key, kernel.Environment{}, kernel.Spec{})
		failed <- err
	}()
	<-began
	if err := h.Stop(t.Context(), key, "deleted"); err != nil {
		t.Fatal(err)
	}
	if err := <-failed; err == nil || !strings.Contains(err.Error(), "deleted") || fake.Open() != 0 {
		t.Errorf("start: %v, %d sandboxes left", err, fake.Open())
	}
}

func TestCloseStopsAllAndRefusesMore(t *testing.T) {
	r := newRig(t, kerneltest.Cells((*kerneltest.Cell).Stuck))
	second := record.Key{Session: "s2", Generation: 4}
	info, err := r.host.Start(t.Context(), second, kernel.Environment{}, kernel.Spec{Hostname: "h"})
	if err != nil {
		t.Fatal(err)
	}
	if got := r.host.Handles()[second]; got.PID != info.Handle.PID || info.Handle.PID == 0 || len(info.Layers) != 1 {
		t.Errorf("handle %+v, info %+v", got, info)
	}
	if got := r.host.Running(); len(got) != 2 {
		t.Errorf("running %v", got)
	}
	if err := r.host.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.expect(r.untilDied(), ": died server_shutdown")
	if _, err := r.host.Start(t.Context(), record.Key{Session: "s3"}, kernel.Environment{}, kernel.Spec{}); !errors.Is(err, command.ErrHostClosed) {
		t.Errorf("start after close: %v", err)
	}
}

func TestARunnerThatDoesNotReadHoldsUpNobody(t *testing.T) {
	r := newRig(t, func(run *kerneltest.Runner) {
		run.Ready()
		<-run.Context().Done()
	})
	r.execute(command.Execution{ID: "e1", Code: strings.Repeat("x", 8<<20)})
	for range 1000 {
		if err := command.Tell(t.Context(), r.host, r.key, command.Interrupt{ExecutionID: "e1"}); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.host.Stop(t.Context(), r.key, "reset"); err != nil {
		t.Fatal(err)
	}
	r.expect(r.untilDied(), "e1: started", "e1: died reset")
}

func TestLimitsChangeOnlyWhileItLives(t *testing.T) {
	r := newRig(t, kerneltest.Cells(func(c *kerneltest.Cell) {
		c.Runner.Exit(kernel.Exit{Signal: syscall.SIGKILL, Limit: kernel.LimitMemory})
	}))
	if layers, err := command.Ask(t.Context(), r.host, r.key, command.ChangeLimits{Limits: kernel.Limits{MemoryBytes: 99}}); err != nil || len(layers) != 1 {
		t.Fatal(layers, err)
	}
	if _, err := command.Ask(t.Context(), r.host, r.key, command.ReadUsage{}); err != nil {
		t.Fatal(err)
	}
	r.execute(command.Execution{ID: "e1"})
	records := r.untilDied()
	if limit := records[1].Body.(record.Died).Limit; limit == nil || limit.Name != "memory_bytes" || limit.Value != 99 {
		t.Errorf("limit %+v", limit)
	}
	if _, err := command.Ask(t.Context(), r.host, r.key, command.ChangeLimits{Limits: kernel.Limits{}}); !errors.Is(err, command.ErrNoKernel) {
		t.Errorf("limits of a dead kernel: %v", err)
	}
}
