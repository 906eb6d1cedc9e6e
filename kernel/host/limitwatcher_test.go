package host

import (
	"context"
	"log/slog"
	"os"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"talaria/kernel"
	"talaria/kernel/record"
)

// An execution may begin after the watcher has found nothing running, and before it sets the time of its next look, or just
// after that.
func TestAWatcherHurriesForAnExecutionThatBeginsDuringItsLook(t *testing.T) {
	for name, later := range map[string]time.Duration{"before the next look is set": 0, "after": time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, k, s := watchFakes(t)
				begin := func() {
					k.runs.Store(true)
					w.hurry()
				}
				k.asked = func() {
					if k.asked = nil; later == 0 {
						begin()
					} else {
						time.AfterFunc(later, begin)
					}
				}
				go w.run()
				defer w.wait()
				defer w.stop()
				time.Sleep(maxLookPause) // until the first look, which finds nothing running
				select {
				case <-s.looked:
				case <-time.After(maxLookPause / 2):
					t.Errorf("nobody looked for %v after an execution began, want a look after %v", maxLookPause/2, minLookPause)
				}
			})
		})
	}
}

func TestAFullWorkspaceMayGrowByWhatItsFileSystemNeeds(t *testing.T) {
	w, k, s := watchFakes(t)
	defer w.close()
	full := int64(12 << 20)
	for _, step := range []struct {
		bytes, inodes int64
		interrupts    int // so far
	}{
		{full, 0, 0},
		{full + 4096, 0, 0}, // a block of an extent tree
		{full + 32<<10, 0, 0},
		{full + 1<<20, 0, 1},
		{full + 1<<20 + 4096, 0, 1},
		{full + 1<<20 + 4096, 1, 2}, // a new file
	} {
		s.bytes, s.inodes = step.bytes, step.inodes
		if w.look(); k.reachedCount != step.interrupts {
			t.Errorf("with %d bytes and %d inodes more, the cell was interrupted %d times, want %d", step.bytes-full, step.inodes,
				k.reachedCount, step.interrupts)
		}
	}
}

// What was written between the last look and the end of an execution is not the next one's doing: that one may be the one that
// deletes it.
func TestAnExecutionIsNotInterruptedForWhatWasWrittenBeforeIt(t *testing.T) {
	w, k, s := watchFakes(t)
	defer w.close()
	full := int64(12 << 20)
	s.bytes = full
	w.look()
	s.bytes, s.inodes = full+1<<20, 100
	w.begin()
	if w.look(); k.reachedCount != 0 {
		t.Error("an execution was interrupted for what was there before it")
	}
	s.inodes++
	if w.look(); k.reachedCount != 1 {
		t.Errorf("an execution that makes a file in a full workspace was interrupted %d times", k.reachedCount)
	}
}

// After the grace, the largest kernel ends, and those that are left have as long.
func TestKernelsOfASandboxEndForItsMemoryOneAfterAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, k, s := watchFakes(t)
		defer w.close()
		s.unheld, k.limits.MemoryBytes = true, 1<<20
		for _, step := range []struct {
			after              time.Duration
			interrupts, killed int // so far
		}{{0, 1, 0}, {w.grace, 1, 0}, {time.Millisecond, 1, 1}, {w.grace, 1, 1}, {time.Millisecond, 1, 2}} {
			time.Sleep(step.after)
			if w.look(); k.reachedCount != step.interrupts || k.killedCount != step.killed {
				t.Errorf("%d interrupts and %d kernels killed, want %d and %d", k.reachedCount, k.killedCount, step.interrupts, step.killed)
			}
		}
	})
}

// watchFakes makes a watcher of an empty, watched workspace, which does not run yet.
func watchFakes(t *testing.T) (*watcher, *idleKernel, *watchedFake) {
	t.Helper()
	dir, err := os.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	k, s := &idleKernel{limits: kernel.Limits{DiskBytes: 1 << 20}}, &watchedFake{looked: make(chan struct{}, 100)}
	w, err := newWatcher(k, s, dir, kernel.DiskWatched, time.Second, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return w, k, s
}

// idleKernel calls asked after it has answered for the first time that it is idle.
type idleKernel struct {
	watchedKernel
	runs         atomic.Bool
	asked        func()
	limits       kernel.Limits
	reachedCount int
	killedCount  int
}

func (*idleKernel) tellIdle(string)                   {}
func (k *idleKernel) reached(record.LimitHit, string) { k.reachedCount++ }

func (k *idleKernel) killLargest(ending) { k.killedCount++ }

func (k *idleKernel) limitsNow() kernel.Limits { return k.limits }

func (k *idleKernel) busy() bool {
	runs := k.runs.Load()
	if k.asked != nil {
		k.asked()
	}
	return runs
}

type watchedFake struct {
	kernel.Sandbox
	looked        chan struct{}
	bytes, inodes int64 // of deleted files that are open
	unheld        bool  // memory is over its limit, and there is no process to kill for it
}

func (*watchedFake) CPU(context.Context) (time.Duration, error) {
	return 0, nil
}

func (s *watchedFake) Unlinked(context.Context, uint64) (int64, int64, error) {
	s.looked <- struct{}{}
	return s.bytes, s.inodes, nil
}

func (*watchedFake) StopWrites(context.Context, bool) error { return nil }
func (s *watchedFake) MemoryUnheld() bool                   { return s.unheld }
func (*watchedFake) Usage(context.Context) (kernel.Usage, error) {
	return kernel.Usage{MemoryBytes: 1 << 30}, nil
}
func (s *watchedFake) KillLargest(context.Context, int64) (string, bool, error) {
	return "", s.unheld, nil
}
