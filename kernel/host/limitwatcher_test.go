package host

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"talaria/kernel"
	"talaria/kernel/procfs"
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

func TestAKernelThatCannotBeStoppedFromWritingEnds(t *testing.T) {
	w, k, s := watchFakes(t)
	defer w.close()
	for i, step := range []struct {
		bytes  int64
		err    error
		killed int
	}{
		{2 << 20, errors.New("others were started meanwhile"), 0},
		{2 << 20, nil, 0},
		{1 << 10, nil, 0},
		{2 << 20, errors.New("others were started meanwhile"), 0},
		{2 << 20, errors.New("others were started meanwhile"), 1},
	} {
		s.bytes, s.stopErr = step.bytes, step.err
		if w.look(); k.killedCount != step.killed {
			t.Errorf("step %d: %d kills", i, k.killedCount)
		}
	}
	if k.why.reason != kernel.LimitDisk {
		t.Errorf("it ends for %s", k.why.reason)
	}
}

// A failure to count may be the machine's; two in a row are taken for the session's.
func TestDeletedFilesThatCannotBeCountedAreNotAWayPastTheDiskLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, k, s := watchFakes(t)
		defer w.close()
		failed := errors.New("it took too long")
		for i, step := range []struct {
			after               time.Duration
			bytes               int64
			err                 error
			stopped             bool
			interrupted, killed int // so far
		}{
			{bytes: 1 << 10},
			{err: failed},
			{bytes: 1 << 10},
			{err: failed},
			{err: failed, stopped: true},
			{bytes: 1 << 10},
			{bytes: 2 << 20, stopped: true},
			{err: failed, stopped: true}, // what was counted before still counts
			{bytes: 1 << 10},
			{err: failed},
			{err: failed, stopped: true},
			{after: unseenTime, err: failed, stopped: true},
			{after: time.Millisecond, err: failed, stopped: true, interrupted: 1},
			{after: w.grace, err: failed, stopped: true, interrupted: 1, killed: 1},
		} {
			time.Sleep(step.after)
			s.bytes, s.err = step.bytes, step.err
			w.look()
			if s.stopped != step.stopped || k.reachedCount != step.interrupted || k.killedCount != step.killed {
				t.Errorf("step %d: writing is stopped: %v; %d interrupts and %d kills", i, s.stopped, k.reachedCount, k.killedCount)
			}
		}
		if k.why.reason != kernel.LimitDisk || !strings.Contains(k.why.limit.String(), "cannot be counted") {
			t.Errorf("it ends for %s: %v", k.why.reason, k.why.limit)
		}
	})
}

// After the grace, the largest kernels end, one at each look, and no more than is needed: what has been killed may have its memory
// for a while.
func TestTheLargestKernelsOfASandboxEndForItsMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, k, s := watchFakes(t)
		defer w.close()
		s.holdMemory(k, 200, 203, 207, 201, 206, 204, 205, 202)
		for _, step := range []struct {
			after              time.Duration
			interrupts, killed int // so far
		}{{0, 1, 0}, {w.grace, 1, 0}, {time.Millisecond, 1, 1}, {0, 1, 2}, {0, 1, 3}, {0, 1, 3}, {w.grace + time.Millisecond, 1, 3}} {
			time.Sleep(step.after)
			if w.look(); k.reachedCount != step.interrupts || k.killedCount != step.killed {
				t.Errorf("%d interrupts and %d kernels killed, want %d and %d", k.reachedCount, k.killedCount, step.interrupts, step.killed)
			}
		}
		if got, want := s.kernels, []int64{200 << 10, 203 << 10, 201 << 10, 204 << 10, 202 << 10}; !slices.Equal(got, want) {
			t.Errorf("kernels of %d bytes are left, want %d", got, want)
		}
		s.kernels = append(s.kernels, 100<<10)
		if w.look(); k.reachedCount != 2 || k.killedCount != 3 {
			t.Errorf("the next time: %d interrupts and %d kernels killed", k.reachedCount, k.killedCount)
		}
	})
}

func TestFarOverTheMemoryLimitTheLargestKernelEndsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, k, s := watchFakes(t)
		defer w.close()
		s.holdMemory(k, 400, 500, 400, 400, 400)
		for range 3 {
			if w.look(); k.reachedCount != 1 || k.killedCount != 1 {
				t.Errorf("%d interrupts and %d kernels killed", k.reachedCount, k.killedCount)
			}
		}
	})
}

// The cells may have ended before the watcher does anything, and nothing uses CPU time any more.
func TestIdleKernelsOfASandboxEndForItsMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, k, s := watchFakes(t)
		s.holdMemory(k, 600, 601, 602)
		w.look()
		go w.run()
		time.Sleep(w.grace + 2*maxLookPause)
		w.stop()
		w.wait()
		if k.killedCount != 2 {
			t.Errorf("%d kernels were killed", k.killedCount)
		}
	})
}

func TestTheLargestInterpreterIsKilledEvenIfItIsBeingEnded(t *testing.T) {
	main, large, larger := startLocated(t, 0), startLocated(t, 32), startLocated(t, 64)
	main.beside = map[*interpreter]struct{}{large: {}, larger: {}}
	larger.kill(ending{reason: "reset"})
	for _, want := range []*interpreter{larger, large, main} {
		main.killLargest(ending{reason: kernel.LimitMemory})
		select {
		case <-want.process.Done():
		case <-time.After(time.Minute):
			t.Fatal("the largest one is not killed")
		}
		if want.cause == nil || (want.cause.reason == "reset") != (want == larger) {
			t.Errorf("it ends for %+v", want.cause)
		}
		for _, k := range []*interpreter{main, large} {
			if _, used := k.memory(); (used == 0) != (k.cause != nil) {
				t.Errorf("one that has %d bytes ends for %+v", used, k.cause)
			}
		}
	}
}

// startLocated makes a kernel whose interpreter is a process with so much memory.
func startLocated(t *testing.T, mib int) *interpreter {
	t.Helper()
	child := exec.Command("python3", "-c", fmt.Sprintf("import time\nx = b'x' * (%d << 20)\nprint('up', flush=True)\ntime.sleep(1000)", mib))
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	p := &located{done: make(chan struct{})}
	t.Cleanup(func() { _ = child.Process.Kill(); <-p.done })
	_, err = out.Read(make([]byte, 3))
	stat, err2 := procfs.ReadStat(child.Process.Pid)
	go func() {
		defer close(p.done)
		_ = child.Wait()
	}()
	if err := errors.Join(err, err2); err != nil {
		t.Fatal(err)
	}
	p.place = kernel.ProcessPlace{HostPID: child.Process.Pid, StartTime: stat.StartTime}
	k := newInterpreter(record.Key{}, "", &HostConfig{Log: slog.New(slog.DiscardHandler)}, nil, func(error) {})
	k.process = p
	return k
}

type located struct {
	kernel.Process
	place kernel.ProcessPlace
	done  chan struct{}
}

func (p *located) Done() <-chan struct{}       { return p.done }
func (p *located) Locate() kernel.ProcessPlace { return p.place }

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
	why          ending // of kill
	kills        func() // called by killLargest
}

func (*idleKernel) tellIdle(string)                   {}
func (k *idleKernel) reached(record.LimitHit, string) { k.reachedCount++ }

func (k *idleKernel) kill(why ending) {
	k.killedCount++
	k.why = why
}

func (k *idleKernel) killLargest(ending) {
	k.killedCount++
	k.kills()
}

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
	bytes, inodes int64   // of deleted files that are open
	err           error   // that counting them ends with
	stopped       bool    // nothing may be written
	stopErr       error   // that stopping ends with
	unheld        bool    // nothing but the watcher bounds memory
	kernels       []int64 // memory of their interpreters
	killed        int64   // memory of those that are killed, which they still have
}

// holdMemory has the sandbox use memory, with a limit of 1 MiB: a kernel each of so many KiB.
func (s *watchedFake) holdMemory(k *idleKernel, kib ...int64) {
	s.unheld, k.limits.MemoryBytes = true, 1<<20
	for _, n := range kib {
		s.kernels = append(s.kernels, n<<10)
	}
	k.kills = func() {
		largest := slices.Index(s.kernels, slices.Max(s.kernels))
		s.killed += s.kernels[largest]
		s.kernels = slices.Delete(s.kernels, largest, largest+1)
	}
}

func (s *watchedFake) memory() (used int64) {
	for _, bytes := range s.kernels {
		used += bytes
	}
	return used
}

func (*watchedFake) CPU(context.Context) (time.Duration, error) {
	return 0, nil
}

func (s *watchedFake) Unlinked(context.Context, uint64) (int64, int64, error) {
	s.looked <- struct{}{}
	return s.bytes, s.inodes, s.err
}

func (s *watchedFake) StopWrites(_ context.Context, stop bool) error {
	s.stopped = stop
	return s.stopErr
}
func (s *watchedFake) MemoryUnheld() bool { return s.unheld }
func (s *watchedFake) Usage(context.Context) (kernel.Usage, error) {
	return kernel.Usage{MemoryBytes: s.memory() + s.killed}, nil
}
func (s *watchedFake) KillLargest(context.Context, int64) (string, int64, error) {
	return "", s.memory(), nil
}
