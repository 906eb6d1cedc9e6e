package host_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"talaria/kernel"
	"talaria/kernel/command"
	"talaria/kernel/host"
	"talaria/kernel/kerneltest"
	"talaria/kernel/record"
)

// beside starts a kernel in the sandbox of the rig's, and returns a rig for it.
func (r *rig) beside(session string) *rig {
	r.Helper()
	other := &rig{T: r.T, host: r.host, fake: r.fake, key: record.Key{Session: session, Generation: 1}}
	if _, err := r.host.Start(r.Context(), other.key, kernel.Environment{}, kernel.Spec{Beside: r.key.Session}); err != nil {
		r.Fatalf("start beside: %v", err)
	}
	return other
}

func TestAKernelBesideAnotherOneEndsAlone(t *testing.T) {
	r := newRig(t, kerneltest.Cells(func(c *kerneltest.Cell) { c.Print(c.Code) }))
	other := r.beside("other")
	if n := r.fake.Open(); n != 1 {
		t.Errorf("%d sandboxes are open", n)
	}
	for _, one := range []*rig{other, r} {
		one.execute(command.Execution{ID: "e1", Code: "hello"})
		one.expect(one.untilFinished(), "e1: started", `e1: stdout "hello"`, "e1: finished ok")
	}
	if err := r.host.Stop(t.Context(), other.key, "reset"); err != nil {
		t.Fatal(err)
	}
	if died := other.untilDied(); died[len(died)-1].Body.(record.Died).Reason != "reset" {
		t.Errorf("it ended with %v", words(died))
	}
	r.execute(command.Execution{ID: "e2", Code: "still here"})
	r.expect(r.untilFinished(), "e2: started", `e2: stdout "still here"`, "e2: finished ok")
}

func TestAKernelThatCannotBeEndedAloneEndsWithItsSandbox(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, kerneltest.Cells((*kerneltest.Cell).Stuck), func(_ *host.HostConfig, f *kerneltest.Fake) { f.Deaf = true })
		other := r.beside("other")
		other.execute(command.Execution{ID: "e1"})
		other.until(is[record.Started])
		if err := r.host.Stop(t.Context(), other.key, "reset"); err != nil {
			t.Fatal(err)
		}
		for one, want := range map[*rig]string{other: "reset", r: "sandbox_lost"} {
			if died := one.untilDied(); died[len(died)-1].Body.(record.Died).Reason != want {
				t.Errorf("%s ended with %v, want %s", one.key.Session, words(died), want)
			}
		}
	})
}

func TestKernelsOfASandboxThatEndOneAfterAnotherDoNotEndIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cells := kerneltest.Cells(func(c *kerneltest.Cell) {
			if c.Code == "stuck" {
				c.Stuck()
			}
		})
		// Together they take longer than each of them may.
		r := newRig(t, cells, func(_ *host.HostConfig, f *kerneltest.Fake) { f.KillTime = 4 * time.Second })
		var others []*rig
		for i := range 8 {
			other := r.beside(fmt.Sprint("other", i))
			other.execute(command.Execution{ID: "e1", Code: "stuck"})
			other.until(is[record.Started])
			others = append(others, other)
		}
		var stops sync.WaitGroup
		for _, other := range others {
			stops.Go(func() {
				if err := r.host.Stop(t.Context(), other.key, "reset"); err != nil {
					t.Error(err)
				}
			})
		}
		stops.Wait()
		for _, other := range others {
			if died := other.untilDied(); died[len(died)-1].Body.(record.Died).Reason != "reset" {
				t.Errorf("%s ended with %v", other.key.Session, words(died))
			}
		}
		r.execute(command.Execution{ID: "e1"})
		r.expect(r.untilFinished(), "e1: started", "e1: finished ok")
	})
}

func TestAKernelEndsWithTheSandboxThatItShares(t *testing.T) {
	r := newRig(t, kerneltest.Cells((*kerneltest.Cell).Sleep))
	other := r.beside("other")
	other.execute(command.Execution{ID: "e1"})
	if err := r.host.Stop(t.Context(), r.key, "reset"); err != nil {
		t.Fatal(err)
	}
	died := other.untilDied()
	if last := died[len(died)-1]; last.ExecutionID != "e1" || last.Body.(record.Died).Reason != host.ReasonBeside {
		t.Errorf("it ended with %v", words(died))
	}
	_, err := r.host.Start(t.Context(), record.Key{Session: "third", Generation: 1}, kernel.Environment{}, kernel.Spec{Beside: r.key.Session})
	if !errors.Is(err, command.ErrNoKernel) {
		t.Errorf("a start beside a kernel that is gone: %v", err)
	}
	_, err = r.host.Start(t.Context(), record.Key{Session: "fourth", Generation: 1}, kernel.Environment{}, kernel.Spec{Beside: "unknown"})
	if !errors.Is(err, command.ErrNoKernel) {
		t.Errorf("a start beside an unknown kernel: %v", err)
	}
}

func TestAKernelBesideAnotherOneChangesNothingOfItsSandbox(t *testing.T) {
	r := newRig(t, kerneltest.Cells((*kerneltest.Cell).Sleep))
	other := r.beside("other")
	limits := command.ChangeLimits{Limits: kernel.Limits{MemoryBytes: 1 << 30}}
	if _, err := command.Ask(context.Background(), r.host, other.key, limits); !errors.Is(err, kernel.ErrNeedsReset) {
		t.Errorf("its limits: %v", err)
	}
	if _, err := command.Ask(context.Background(), r.host, r.key, limits); err != nil {
		t.Error(err)
	}
	made, err := command.Ask(context.Background(), r.host, other.key, command.MakeCopy{ID: "c"})
	if err != nil || made.Refused == "" {
		t.Errorf("a copy: %+v, %v", made, err)
	}
	_, err = r.host.Start(t.Context(), record.Key{Session: "third", Generation: 1}, kernel.Environment{}, kernel.Spec{Beside: "other"})
	if !errors.Is(err, command.ErrNoKernel) {
		t.Errorf("a start beside a kernel that is beside another one: %v", err)
	}
}
