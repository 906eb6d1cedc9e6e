package host_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
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

// warmer is a fake whose environments can be warmed. It counts its calls.
type warmer struct {
	*kerneltest.Fake
	warmErr   func(call int) error
	createErr func(call int) error
	seal      func(n int) error // n is the number of the sandbox, from 1

	mu      sync.Mutex // guards the fields below
	warmed  []string
	created int
	fresh   int
}

func (w *warmer) Warm(_ context.Context, env kernel.Environment) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.warmed = append(w.warmed, env.Name)
	if w.warmErr != nil {
		return w.warmErr(len(w.warmed))
	}
	return nil
}

func (w *warmer) Create(ctx context.Context, env kernel.Environment, fresh bool) (kernel.Sandbox, error) {
	w.mu.Lock()
	w.created++
	if fresh {
		w.fresh++
	}
	call := w.created
	w.mu.Unlock()
	if w.createErr != nil {
		if err := w.createErr(call); err != nil {
			return nil, err
		}
	}
	sandbox, err := w.Fake.Create(ctx, env, fresh)
	return sealed{sandbox, func() error {
		if w.seal == nil {
			return nil
		}
		return w.seal(sandbox.Handle().PID)
	}}, err
}

func (w *warmer) made() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.created
}

type sealed struct {
	kernel.Sandbox
	err func() error
}

func (s sealed) Seal(ctx context.Context, spec kernel.Spec) error {
	if err := s.err(); err != nil {
		return err
	}
	return s.Sandbox.Seal(ctx, spec)
}

var pythonEnv = kernel.Environment{Name: "python", Python: "/usr/bin/python3", Preload: []string{"numpy"}}

// pooled runs do in a bubble with a host whose backend is w, and checks that nothing of it is left.
func pooled(t *testing.T, w *warmer, size int, do func(t *testing.T, h *host.Host)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w.Fake = kerneltest.NewFake(kerneltest.Cells(func(*kerneltest.Cell) {}))
		h := host.NewHost(host.HostConfig{Backend: w, Pool: size})
		do(t, h)
		if err := h.Close(t.Context()); err != nil {
			t.Error(err)
		}
		if n := w.Open(); n != 0 {
			t.Errorf("%d sandboxes are left", n)
		}
		h.Warm([]kernel.Environment{pythonEnv})
		synctest.Wait()
		if n := w.Open(); n != 0 {
			t.Errorf("%d sandboxes are made after the end", n)
		}
	})
}

func startOne(t *testing.T, h *host.Host, n int, env kernel.Environment, spec kernel.Spec) command.KernelInfo {
	t.Helper()
	info, err := h.Start(t.Context(), record.Key{Session: fmt.Sprint("s", n), Generation: 1}, env, spec)
	if err != nil {
		t.Fatal(err)
	}
	return info
}

func expectPool(t *testing.T, h *host.Host, hits, misses int64, environments ...host.EnvironmentPool) {
	t.Helper()
	got := h.PoolStats()
	if got.Hits != hits || got.Misses != misses || !slices.Equal(got.Environments, environments) {
		t.Errorf("the pool is %+v, want %d hits, %d misses, %+v", got, hits, misses, environments)
	}
}

func TestStartsTakeReadySandboxesAndTheseAreReplaced(t *testing.T) {
	w := &warmer{}
	pooled(t, w, 0, func(t *testing.T, h *host.Host) {
		startOne(t, h, 1, pythonEnv, kernel.Spec{})
		expectPool(t, h, 0, 1)
		h.Warm([]kernel.Environment{pythonEnv, pythonEnv})
		synctest.Wait()
		full := host.EnvironmentPool{Name: "python", Warm: true, Ready: 2, Wanted: 2}
		expectPool(t, h, 0, 1, full)
		if info := startOne(t, h, 2, pythonEnv, kernel.Spec{Hostname: "h"}); info.Handle.PID != 2 {
			t.Errorf("sandbox %d is taken, not the oldest", info.Handle.PID)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		expectPool(t, h, 1, 1, full)
		startOne(t, h, 3, pythonEnv, kernel.Spec{Strict: true})
		other := pythonEnv
		other.Preload = []string{"numpy", "pandas"}
		startOne(t, h, 4, other, kernel.Spec{})
		synctest.Wait()
		expectPool(t, h, 1, 2, full)
		if w.fresh != 1 || len(w.warmed) != 1 {
			t.Errorf("%d fresh sandboxes, %v warmed", w.fresh, w.warmed)
		}
		other.Name = "other"
		h.Warm([]kernel.Environment{other})
		synctest.Wait()
		expectPool(t, h, 1, 2, host.EnvironmentPool{Name: "other", Warm: true, Ready: 2, Wanted: 2})
		if n := w.Open(); n != 4+2 {
			t.Errorf("%d sandboxes for 4 kernels and a pool of 2", n)
		}
	})
}

func TestWithoutAPoolAnEnvironmentIsStillWarmed(t *testing.T) {
	w := &warmer{}
	pooled(t, w, -1, func(t *testing.T, h *host.Host) {
		h.Warm([]kernel.Environment{pythonEnv})
		synctest.Wait()
		startOne(t, h, 1, pythonEnv, kernel.Spec{})
		expectPool(t, h, 0, 0, host.EnvironmentPool{Name: "python", Warm: true})
		if w.made() != 1 || len(w.warmed) != 1 {
			t.Errorf("%d sandboxes, %v warmed", w.made(), w.warmed)
		}
	})
}

func TestTheNextSandboxIsMadeAMomentAfterOneWasTaken(t *testing.T) {
	w := &warmer{}
	pooled(t, w, 0, func(t *testing.T, h *host.Host) {
		h.Warm([]kernel.Environment{pythonEnv})
		synctest.Wait()
		startOne(t, h, 1, pythonEnv, kernel.Spec{})
		time.Sleep(99 * time.Millisecond)
		synctest.Wait()
		if n := w.Open(); n != 2 {
			t.Errorf("%d sandboxes while the first cell of the kernel may run, want 2", n)
		}
		time.Sleep(time.Millisecond)
		synctest.Wait()
		if n := w.Open(); n != 3 {
			t.Errorf("%d sandboxes after a moment, want 3", n)
		}
	})
}

func TestASandboxOfThePoolThatIsDeadIsReplacedByANewOne(t *testing.T) {
	dead := errors.New("dead")
	w := &warmer{seal: func(n int) error {
		if n <= 2 {
			return dead
		}
		return nil
	}}
	pooled(t, w, 0, func(t *testing.T, h *host.Host) {
		h.Warm([]kernel.Environment{pythonEnv})
		synctest.Wait()
		for n := range 2 {
			if info := startOne(t, h, n, pythonEnv, kernel.Spec{}); info.Handle.PID < 3 {
				t.Errorf("a dead sandbox runs a kernel")
			}
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if n := w.Open(); n != 2+2 {
			t.Errorf("%d sandboxes for 2 kernels and a pool of 2", n)
		}
	})
	always := &warmer{seal: func(int) error { return dead }}
	pooled(t, always, 0, func(t *testing.T, h *host.Host) {
		h.Warm([]kernel.Environment{pythonEnv})
		synctest.Wait()
		if _, err := h.Start(t.Context(), record.Key{Session: "s"}, pythonEnv, kernel.Spec{}); !errors.Is(err, dead) {
			t.Errorf("start: %v", err)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if n := always.made(); n != 2+1+1 {
			t.Errorf("%d sandboxes are made for a pool of 2 and one start", n)
		}
	})
}

func TestThePoolFillsWhenWarmingAndMakingSucceed(t *testing.T) {
	fails := func(call int) error {
		if call <= 3 {
			return errors.New("not yet")
		}
		return nil
	}
	w := &warmer{warmErr: fails, createErr: fails}
	pooled(t, w, 0, func(t *testing.T, h *host.Host) {
		h.Warm([]kernel.Environment{pythonEnv})
		synctest.Wait()
		expectPool(t, h, 0, 0, host.EnvironmentPool{Name: "python", Wanted: 2})
		if w.made() != 0 {
			t.Error("a cold sandbox is made for the pool")
		}
		time.Sleep(700 * time.Millisecond)
		synctest.Wait()
		expectPool(t, h, 0, 0, host.EnvironmentPool{Name: "python", Warm: true, Wanted: 2})
		time.Sleep(700 * time.Millisecond)
		synctest.Wait()
		expectPool(t, h, 0, 0, host.EnvironmentPool{Name: "python", Warm: true, Ready: 2, Wanted: 2})
	})
}

func TestThePoolIsFilledWhenNoKernelStarts(t *testing.T) {
	w := &warmer{}
	pooled(t, w, 0, func(t *testing.T, h *host.Host) {
		var began time.Time
		w.OnCreate = func(context.Context) {
			if began.IsZero() {
				began = time.Now()
				time.Sleep(20 * time.Millisecond)
			}
		}
		started := make(chan command.KernelInfo)
		go func() { started <- startOne(t, h, 1, pythonEnv, kernel.Spec{}) }()
		synctest.Wait()
		h.Warm([]kernel.Environment{pythonEnv})
		synctest.Wait()
		if n := h.PoolStats().Environments[0].Ready; n != 0 {
			t.Errorf("%d sandboxes are made while a kernel starts", n)
		}
		<-started
		if took := time.Since(began); took != 20*time.Millisecond {
			t.Errorf("the start took %v", took)
		}
		synctest.Wait()
		expectPool(t, h, 0, 1, host.EnvironmentPool{Name: "python", Warm: true, Ready: 2, Wanted: 2})
	})
}
