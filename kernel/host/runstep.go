package host

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"talaria/kernel"
	"talaria/kernel/oneshot"
	"talaria/kernel/record"
	"talaria/kernel/trace"
)

// runningStep is the program of a step while it runs. It is the [watchedKernel] of its watcher.
type runningStep struct {
	step    oneshot.Step
	sandbox kernel.Sandbox
	process kernel.Process
	before  kernel.Usage // when it started

	ended  chan struct{} // closed when limit is set
	end    sync.Once
	limit  string        // for which it is to be killed
	killed atomic.Int64  // processes, for memory that no control group bounds
	output atomic.Int64  // bytes
	over   chan struct{} // closed when the step is over, whatever ended it

	stdout, stderr collected
}

// step runs one program to its end.
func (o *oneRun) step(ctx context.Context, step oneshot.Step) (oneshot.Outcome, error) {
	if err := o.take(ctx, step.Limits); err != nil {
		return oneshot.Outcome{}, err
	}
	trace.Step("sandbox sealed")
	r := &runningStep{step: step, sandbox: o.sandbox, ended: make(chan struct{}), over: make(chan struct{})}
	defer close(r.over)
	watch, err := newWatcher(r, o.sandbox, o.files.File(), kernel.DiskWatched, 0, o.runs.log)
	if err != nil {
		return oneshot.Outcome{}, err
	}
	trace.Step("watcher made")
	if err := r.start(ctx); err != nil {
		watch.close()
		return oneshot.Outcome{}, err
	}
	trace.Step("program started")
	if watch != nil {
		go watch.run()
		watch.hurry()
		defer watch.wait()
		defer watch.stop()
	}
	return r.finish(ctx, o)
}

// start starts the program.
func (r *runningStep) start(ctx context.Context) error {
	if resetter, ok := r.sandbox.(kernel.PeakResetter); ok {
		// Without it, the peak is that of making the sandbox or more.
		_ = resetter.ResetPeak()
	}
	r.before = r.measure()
	p := kernel.Program{Args: r.step.Args, Script: r.step.Script, Env: r.step.Env}
	if len(r.step.Stdin) > 0 {
		stdin, err := inMemory(r.step.Stdin)
		if err != nil {
			return err
		}
		defer stdin.Close()
		p.Stdin = stdin
	}
	process, err := r.sandbox.Start(ctx, p)
	if err != nil {
		return err
	}
	r.process = process
	return nil
}

// finish waits for the end of the program, or ends it.
func (r *runningStep) finish(ctx context.Context, o *oneRun) (oneshot.Outcome, error) {
	began := time.Now()
	var reading sync.WaitGroup
	for file, into := range map[*os.File]*collected{r.process.Stdout(): &r.stdout, r.process.Stderr(): &r.stderr} {
		reading.Go(func() { r.collect(file, into) })
	}
	defer func() {
		_ = r.process.Stdout().Close()
		_ = r.process.Stderr().Close()
	}()
	timer := time.AfterFunc(r.step.Time, func() { r.stop(oneshot.LimitTime) })
	defer timer.Stop()
	r.watchCPU(0)
	select {
	case <-r.process.Done():
	case <-r.ended:
	case <-ctx.Done():
	}
	trace.Step("program ended")
	outcome := oneshot.Outcome{Duration: time.Since(began)}
	r.account(&outcome)
	stopped := false
	select {
	case <-r.ended:
		stopped = true
	default:
	}
	var err error
	if stopped || ctx.Err() != nil {
		err = o.closeSandbox()
		<-r.process.Done()
	}
	// What it wrote is in the pipes. A process that it left behind may hold them open.
	for _, file := range []*os.File{r.process.Stdout(), r.process.Stderr()} {
		_ = file.SetReadDeadline(time.Unix(1, 0))
	}
	reading.Wait()
	if ctx.Err() != nil {
		return outcome, errors.Join(context.Cause(ctx), err)
	}
	r.end.Do(func() {}) // from here on nothing ends it
	r.conclude(&outcome)
	outcome.Stdout, outcome.Stderr = r.stdout.bytes(), r.stderr.bytes()
	return outcome, err
}

// account fills in what the step has used so far.
func (r *runningStep) account(outcome *oneshot.Outcome) {
	used := r.measure()
	outcome.CPU = max(0, used.CPU-r.before.CPU)
	outcome.PeakMemoryBytes = used.PeakMemoryBytes
	if counter, ok := r.sandbox.(kernel.OOMCounter); ok {
		outcome.OOMKills = counter.OOMKills()
	}
	outcome.OOMKills += r.killed.Load()
	select {
	case <-r.process.Done():
	default:
		return
	}
	if meter, ok := r.process.(kernel.ProcessMeter); ok {
		cpu, peak := meter.Used()
		outcome.CPU, outcome.PeakMemoryBytes = max(outcome.CPU, cpu), max(outcome.PeakMemoryBytes, peak)
	}
}

// conclude fills in how the step ended.
func (r *runningStep) conclude(outcome *oneshot.Outcome) {
	exit := r.process.Exit()
	outcome.Code, outcome.Signal, outcome.Limit = exit.Code, exit.Signal, exit.Limit
	if exit.Lost {
		outcome.Signal = syscall.SIGKILL
	}
	if r.limit != "" {
		outcome.Code, outcome.Signal, outcome.Limit = 0, syscall.SIGKILL, r.limit
	}
}

// measure returns the CPU time and the peak memory of the sandbox; zero for what cannot be read.
func (r *runningStep) measure() kernel.Usage {
	ctx, cancel := context.WithTimeout(context.Background(), measureTimeout)
	defer cancel()
	meter, ok := r.sandbox.(kernel.Meter)
	if !ok {
		return kernel.Usage{}
	}
	used, err := meter.Meter(ctx)
	if err != nil {
		return kernel.Usage{}
	}
	return used
}

// stop ends the step for a limit.
func (r *runningStep) stop(limit string) {
	r.end.Do(func() {
		r.limit = limit
		close(r.ended)
	})
}

// watchCPU looks at the CPU time at the earliest time at which the step can have used it up.
func (r *runningStep) watchCPU(used time.Duration) {
	if r.step.CPUTime <= 0 {
		return
	}
	cores := float64(runtime.NumCPU())
	if r.step.Limits.CPUs > 0 {
		cores = min(cores, r.step.Limits.CPUs)
	}
	pause := max(time.Duration(float64(r.step.CPUTime-used)/cores), leastCPUPause)
	time.AfterFunc(pause, func() {
		select {
		case <-r.over:
			return
		case <-r.process.Done():
			return
		default:
		}
		if used := r.measure().CPU - r.before.CPU; used < r.step.CPUTime {
			r.watchCPU(used)
			return
		}
		r.stop(oneshot.LimitCPU)
	})
}

// collect reads a stream until it ends, the deadline for reading is set, or there is too much output.
func (r *runningStep) collect(file *os.File, into *collected) {
	buffer := make([]byte, 32<<10)
	for {
		n, err := file.Read(buffer)
		if !r.add(into, buffer[:n]) {
			return
		}
		if errors.Is(err, os.ErrDeadlineExceeded) {
			break
		}
		if err != nil {
			return
		}
	}
	raw, err := file.SyscallConn()
	if err != nil {
		return
	}
	_ = raw.Control(func(fd uintptr) {
		for {
			n, err := unix.Read(int(fd), buffer)
			if n <= 0 || err != nil && !errors.Is(err, unix.EINTR) || !r.add(into, buffer[:n]) {
				return
			}
		}
	})
}

// add keeps what the limit allows. It returns false if that was exceeded.
func (r *runningStep) add(into *collected, text []byte) bool {
	room := r.step.OutputBytes - (r.output.Add(int64(len(text))) - int64(len(text)))
	if room >= int64(len(text)) {
		into.write(text)
		return true
	}
	into.write(text[:max(room, 0)])
	r.stop(oneshot.LimitOutput)
	return false
}

// collected is the beginning of a stream. One goroutine writes it.
type collected struct{ text bytes.Buffer }

func (c *collected) write(b []byte) { c.text.Write(b) }
func (c *collected) bytes() []byte  { return c.text.Bytes() }

// inMemory returns a file with that content that nobody can change, to be read from its beginning.
func inMemory(content []byte) (*os.File, error) {
	fd, err := unix.MemfdCreate("stdin", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, os.NewSyscallError("memfd_create", err)
	}
	f := os.NewFile(uintptr(fd), "stdin")
	_, err = f.Write(content)
	if err == nil {
		_, err = f.Seek(0, 0)
	}
	if err == nil {
		_, err = unix.FcntlInt(f.Fd(), unix.F_ADD_SEALS, unix.F_SEAL_WRITE|unix.F_SEAL_GROW|unix.F_SEAL_SHRINK|unix.F_SEAL_SEAL)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("keep standard input: %w", err), f.Close())
	}
	return f, nil
}

// The methods of [watchedKernel].

func (r *runningStep) limitsNow() kernel.Limits { return r.step.Limits }
func (r *runningStep) busy() bool               { return true }
func (r *runningStep) tell(string)              { r.killed.Add(1) } // of a process that was killed for its memory
func (r *runningStep) tellIdle(string)          {}

func (r *runningStep) reached(hit record.LimitHit, _ string) {
	if hit.Name == "memory_bytes" {
		r.stop(kernel.LimitMemory)
		return
	}
	r.stop(oneshot.LimitDisk)
}

func (r *runningStep) kill(why ending) { r.stop(why.reason) }

func (r *runningStep) killLargest(why ending) { r.kill(why) }
