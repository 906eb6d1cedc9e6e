package host_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"

	"talaria/kernel"
	"talaria/kernel/command"
	"talaria/kernel/host"
	"talaria/kernel/kerneltest"
	"talaria/kernel/record"
)

func TestAConsumerThatComesLaterLearnsWhatAKernelWasGiven(t *testing.T) {
	r := newRig(t, kerneltest.Cells((*kerneltest.Cell).Sleep))
	attach := func(given string, last uint64) {
		t.Helper()
		a, err := r.host.Attach(t.Context(), r.key)
		if err != nil || a.Given != given || a.Last != last || len(a.Info.Layers) != 1 || a.Info.Started.IsZero() {
			t.Errorf("attachment %+v, %v; want %q given, %d records", a, err, given, last)
		}
	}
	attach("", 0)
	r.execute(command.Execution{ID: "e1"})
	attach("e1", 1)
	if err := command.Tell(t.Context(), r.host, r.key, command.Interrupt{ExecutionID: "e1"}); err != nil {
		t.Fatal(err)
	}
	r.untilFinished()
	attach("e1", 3)
	if keys, err := r.host.Kernels(t.Context()); err != nil || !slices.Equal(keys, []record.Key{r.key}) {
		t.Errorf("kernels %v, %v", keys, err)
	}
	r.fake.KillAll(syscall.SIGKILL)
	waitGone(r)
	attach("e1", 4)
	r.untilDied()
	r.ends()
	if _, err := r.host.Attach(t.Context(), r.key); !errors.Is(err, command.ErrNoKernel) {
		t.Errorf("a key that is forgotten: %v", err)
	}
	if keys, err := r.host.Kernels(t.Context()); err != nil || len(keys) != 0 {
		t.Errorf("kernels %v, %v", keys, err)
	}
}

func TestAnAttachDuringAHandoverWaitsForItsOutcome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		attached := make(chan command.Attachment, 1)
		var r *rig
		var first sync.Once // the measurement before the cell
		r = newRig(t, kerneltest.Cells((*kerneltest.Cell).Sleep), func(_ *host.HostConfig, f *kerneltest.Fake) {
			f.Usage = func() (kernel.Usage, error) {
				first.Do(func() {
					go func() {
						a, err := r.host.Attach(context.Background(), r.key)
						if err != nil {
							t.Error(err)
						}
						attached <- a
					}()
					synctest.Wait()
				})
				return kernel.Usage{}, nil
			}
		})
		r.execute(command.Execution{ID: "e1"})
		if a := <-attached; a.Given != "e1" || a.Last != 1 {
			t.Errorf("attachment %+v", a)
		}
	})
}

func TestAnAttachWaitsForAKernelThatStarts(t *testing.T) {
	key := record.Key{Session: "s", Generation: 1}
	for _, starts := range []bool{true, false} {
		began, goOn := make(chan struct{}), make(chan struct{})
		fake := kerneltest.NewFake(func(run *kerneltest.Runner) {
			close(began)
			<-goOn
			if starts {
				run.Ready()
				run.Read()
			}
		})
		h := host.NewHost(host.HostConfig{Backend: fake})
		started := make(chan error, 1)
		go func() {
			_, err := h.Start(context.Background(), key, kernel.Environment{}, kernel.Spec{})
			started <- err
		}()
		<-began
		if _, err := h.Attach(cancelled(), key); !errors.Is(err, context.Canceled) {
			t.Errorf("an attach that is given up: %v", err)
		}
		attached := make(chan error, 1)
		go func() {
			_, err := h.Attach(context.Background(), key)
			attached <- err
		}()
		close(goOn)
		if err := <-started; (err == nil) != starts {
			t.Errorf("start: %v", err)
		}
		if err := <-attached; starts && err != nil || !starts && !errors.Is(err, command.ErrNoKernel) {
			t.Errorf("attach to a kernel that starts (%v): %v", starts, err)
		}
		if err := h.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

func cancelled() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}
