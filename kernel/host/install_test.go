package host_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"talaria/kernel"
	"talaria/kernel/command"
	"talaria/kernel/host"
	"talaria/kernel/kerneltest"
	"talaria/kernel/record"
)

const one = "00000000000000000000000000000001"

// install is a cell that asks for a package and prints the outcome.
func install(c *kerneltest.Cell) {
	switch output, failure, ok := c.Install("a>=1"); {
	case !ok:
		c.Raise("KeyboardInterrupt", "")
	case failure != "":
		c.Raise("InstallError", failure)
	default:
		c.Print(output)
	}
}

func isEnd(rec record.Record) bool { return is[record.Finished](rec) || is[record.Died](rec) }

func TestInstall(t *testing.T) {
	asked := []string{"e1: started", "e1: install 1 [a>=1]"}
	for _, c := range []struct {
		name string
		do   func(r *rig) error
		want []string
	}{
		{"done", func(r *rig) error {
			return errors.Join(command.Tell(t.Context(), r.host, r.key, command.InstallOutput{RequestID: one, Text: "Collecting a\n"}),
				command.Tell(t.Context(), r.host, r.key, command.AnswerInstall{RequestID: one, Result: command.InstallResult{Packages: []command.Package{{Name: "a", Version: "1"}}}}))
		}, []string{"e1: install 1 answered", `e1: stdout "Collecting a\n"`, "e1: finished ok"}},
		{"failed", func(r *rig) error {
			return command.Tell(t.Context(), r.host, r.key, command.AnswerInstall{RequestID: one, Result: command.InstallResult{Error: "there is no a"}})
		},
			[]string{"e1: install 1 answered", "e1: raised InstallError there is no a", "e1: finished error InstallError"}},
		{"interrupted", func(r *rig) error {
			return command.Tell(t.Context(), r.host, r.key, command.Interrupt{ExecutionID: "e1"})
		},
			[]string{"e1: install 1 interrupted", "e1: raised KeyboardInterrupt ", "e1: finished interrupted KeyboardInterrupt"}},
		{"stopped", func(r *rig) error { return r.host.Stop(context.Background(), r.key, "reset") },
			[]string{"e1: install 1 interrupted", "e1: died reset"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, kerneltest.Cells(install))
			r.execute(command.Execution{ID: "e1"})
			r.expect(r.until(is[record.Asked]), asked...)
			if a, err := r.host.Attach(t.Context(), r.key); err != nil || !slices.Equal(a.Asks, []command.OpenAsk{{Kind: record.AskInstall, ID: one}}) {
				t.Errorf("attached while it is open: %+v, %v", a, err)
			}
			for _, err := range []error{
				command.Tell(t.Context(), r.host, r.key, command.InstallOutput{RequestID: "2", Text: "x"}), command.Tell(t.Context(), r.host, r.key, command.AnswerInstall{RequestID: "2", Result: command.InstallResult{}}),
			} {
				if !errors.Is(err, command.ErrNoInstallPending) {
					t.Errorf("an answer to another request: %v", err)
				}
			}
			if err := c.do(r); err != nil {
				t.Fatal(err)
			}
			got := r.until(isEnd)
			if c.name == "interrupted" { // it is undefined which of the two the cell notices first
				got = slices.DeleteFunc(got, is[record.Raised])
				c.want = slices.Delete(c.want, 1, 2)
				if got[1].Body.(record.Finished).Status != record.Interrupted {
					c.want[1] = "e1: finished error InstallError"
				}
			}
			r.expect(got, c.want...)
			err := command.Tell(t.Context(), r.host, r.key, command.AnswerInstall{RequestID: one, Result: command.InstallResult{}})
			if !errors.Is(err, command.ErrNoInstallPending) && !errors.Is(err, command.ErrNoKernel) {
				t.Errorf("an answer after the end: %v", err)
			}
			if a, err := r.host.Attach(t.Context(), r.key); len(a.Asks) > 0 {
				t.Errorf("attached after the end: %+v, %v", a, err)
			}
		})
	}
}

func TestLongOutputOfAnInstallerIsWhole(t *testing.T) {
	r := newRig(t, kerneltest.Cells(install))
	r.execute(command.Execution{ID: "e1"})
	r.until(is[record.Asked])
	long := strings.Repeat("ß", 70<<10)
	if err := command.Tell(t.Context(), r.host, r.key, command.InstallOutput{RequestID: one, Text: "a" + long + "\xff\n"}); err != nil {
		t.Fatal(err)
	}
	if err := command.Tell(t.Context(), r.host, r.key, command.AnswerInstall{RequestID: one, Result: command.InstallResult{}}); err != nil {
		t.Fatal(err)
	}
	if got := text(r.untilFinished(), "stdout"); got != "a"+long+"\ufffd\n" {
		t.Errorf("%d bytes of %d", len(got), len(long)+5)
	}
}

func TestTheClockStandsStillWhileACellInstalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, kerneltest.Cells(func(c *kerneltest.Cell) {
			time.Sleep(4 * time.Second)
			c.Install("a")
			time.Sleep(4 * time.Second)
			c.AskInstall(c.ID, "b")
			c.Withdraw("00000000000000000000000000000002")
			c.Sleep()
		}))
		began := time.Now()
		r.execute(command.Execution{ID: "e1", Timeout: 10 * time.Second})
		r.until(is[record.Asked])
		time.Sleep(time.Hour)
		if err := command.Tell(t.Context(), r.host, r.key, command.AnswerInstall{RequestID: one, Result: command.InstallResult{}}); err != nil {
			t.Fatal(err)
		}
		r.until(is[record.Asked])
		got := r.untilFinished()
		r.expect(got[:1], "e1: install 2 interrupted")
		r.expect(got[len(got)-1:], "e1: finished timeout KeyboardInterrupt")
		if took, want := time.Since(began), time.Hour+10*time.Second; took != want {
			t.Errorf("took %v, want %v", took, want)
		}
	})
}

func TestASecondInstallationIsRefusedInside(t *testing.T) {
	r := newRig(t, kerneltest.Cells(func(c *kerneltest.Cell) {
		c.AskInstall("", "a")
		c.AskInstall(c.ID, "b")
		c.Print(c.Answer().Error)
		c.AskInstall("another", "b")
		c.Print(c.Answer().Error)
	}))
	r.execute(command.Execution{ID: "e1"})
	got := r.untilFinished()
	if said := text(got, "stdout"); strings.Count(said, "another installation of this session is running") != 2 {
		t.Errorf("said %q", said)
	}
	r.expect(slices.DeleteFunc(got, is[record.Stream]), "e1: started", ": install 1 [a]", "e1: finished ok")
	if err := command.Tell(t.Context(), r.host, r.key, command.AnswerInstall{RequestID: one, Result: command.InstallResult{}}); err != nil {
		t.Errorf("what no cell asked for ended with one: %v", err)
	}
	r.expect(r.until(is[record.AskClosed]), ": install 1 answered")
}

func TestAnInstallationEndsWithItsCell(t *testing.T) {
	r := newRig(t, kerneltest.Cells(func(c *kerneltest.Cell) {
		if c.ID == "e1" {
			c.AskInstall(c.ID, "a")
			return
		}
		c.AskInstall("e1", "a")
		c.Print(c.Answer().Error)
		c.AskInstall("", "a")
	}))
	r.execute(command.Execution{ID: "e1"})
	r.expect(r.untilFinished(), "e1: started", "e1: install 1 [a]", "e1: install 1 interrupted", "e1: finished ok")
	r.execute(command.Execution{ID: "e2"})
	r.expect(r.untilFinished(), "e2: started", `e2: stdout "the cell that asked for it has ended"`,
		": install 3 [a]", "e2: finished ok")
	if err := r.host.Stop(context.Background(), r.key, "reset"); err != nil {
		t.Fatal(err)
	}
	r.expect(r.untilDied(), ": install 3 interrupted", ": died reset")
}

func TestNobodyInstallsWhereThatIsOff(t *testing.T) {
	fake := kerneltest.NewFake(kerneltest.Cells(install))
	r := &rig{T: t, host: host.NewHost(host.HostConfig{Backend: fake}), fake: fake, key: record.Key{Session: "s", Generation: 1}}
	t.Cleanup(func() { _ = r.host.Close(context.Background()) })
	if _, err := r.host.Start(t.Context(), r.key, kernel.Environment{}, kernel.Spec{NoInstalls: "the operator said no"}); err != nil {
		t.Fatal(err)
	}
	r.execute(command.Execution{ID: "e1"})
	r.expect(r.untilFinished(), "e1: started", "e1: raised InstallError the operator said no", "e1: finished error InstallError")
}

func TestInstallationsOfOneKernelArePaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const tries = 200
		r := newRig(t, kerneltest.Cells(func(c *kerneltest.Cell) {
			ask := func() (refused string) {
				id := c.AskInstall("", "a")
				c.Withdraw(id)
				return c.Answer().Error
			}
			for range tries {
				ask()
			}
			c.Print(ask())
			time.Sleep(3 * time.Second)
			for range tries {
				ask()
			}
		}))
		r.execute(command.Execution{ID: "e1"})
		got := r.untilFinished()
		if said, want := text(got, "stdout"), "asked for more than 50 installations in a short time"; !strings.Contains(said, want) {
			t.Errorf("the last of them was told %q, not that it %s", said, want)
		}
		asked := len(slices.DeleteFunc(got, func(rec record.Record) bool { return !is[record.Asked](rec) }))
		if want := 50 + 3; asked != want {
			t.Errorf("%d requests came through, not %d", asked, want)
		}
	})
}

func TestTheRequirementsOfOneRequestAreBounded(t *testing.T) {
	long := slices.Repeat([]string{strings.Repeat("a", 1000)}, 33)
	r := newRig(t, kerneltest.Cells(func(c *kerneltest.Cell) {
		c.AskInstall(c.ID, long...)
		c.Print(c.Answer().Error)
	}))
	r.execute(command.Execution{ID: "e1"})
	r.expect(r.untilFinished(), "e1: started",
		`e1: stdout "the requirements take 33000 bytes, more than the limit of 32768; install fewer at a time"`, "e1: finished ok")
}
