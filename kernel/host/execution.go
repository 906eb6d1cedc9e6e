package host

import (
	"context"
	"errors"
	"fmt"
	"time"

	"talaria/kernel"
	"talaria/kernel/command"
	"talaria/kernel/frame"
	"talaria/kernel/record"
	"talaria/kernel/trace"
)

const (
	// measureTimeout bounds one reading of the usage, and
	measureTimeout = 250 * time.Millisecond
	// lastMeasureTimeout that of the last one, when a kernel ends.
	lastMeasureTimeout = 20 * time.Millisecond
)

// running is the running execution. It is guarded by the lock of its interpreter.
type running struct {
	command.Execution
	started     time.Time
	before      kernel.Usage
	withdrawn   int                 // asks for input that got no answer because the cell stopped waiting
	afters      int                 // requests for what is to be done after it
	carried     map[string]struct{} // calls of tools that the runner is carrying out
	resulted    bool                // its one result has come
	evaluated   bool                // the values of its expressions have come
	raised      *record.ErrorInfo   // its one exception
	interrupted bool                // on request
	unreadTold  bool                // the cell was told that something was left out
	timedOut    bool
	limit       *record.LimitHit // for which it was interrupted
	advice      string           // what its user can do about that limit

	clock *clock      // nil without a timeout
	cpu   *time.Timer // for the next look at the CPU time; nil without a limit
	grace *time.Timer // from the timeout to the kill
}

func (r *running) stopTimers() {
	if r.clock != nil {
		r.clock.stop()
	}
	if r.cpu != nil {
		r.cpu.Stop()
	}
	if r.grace != nil {
		r.grace.Stop()
	}
}

// usage returns what the execution used until that time, given what the sandbox uses then.
func (r *running) usage(until time.Time, after kernel.Usage) record.ExecutionUsage {
	return record.ExecutionUsage{
		Duration:   until.Sub(r.started),
		CPU:        max(0, after.CPU-r.before.CPU),
		PeakMemory: peak(after),
	}
}

func peak(u kernel.Usage) int64 { return max(u.PeakMemoryBytes, u.MemoryBytes) }

// measure returns what the sandbox uses now, or zero if that cannot be told.
func (k *interpreter) measure(timeout time.Duration) kernel.Usage {
	usage, err := k.meter(timeout)
	if err != nil {
		k.log.Debug("measure usage", "error", err)
	}
	return usage
}

// cpuUsed returns the CPU time of everything in the sandbox so far.
func (k *interpreter) cpuUsed() (time.Duration, error) {
	usage, err := k.meter(measureTimeout)
	return usage.CPU, err
}

func (k *interpreter) meter(timeout time.Duration) (kernel.Usage, error) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	read := k.sandbox.Usage
	if m, ok := k.sandbox.(kernel.Meter); ok {
		read = m.Meter
	}
	usage, err := read(ctx)
	if err != nil {
		return kernel.Usage{}, fmt.Errorf("measure usage: %w", err)
	}
	return usage, nil
}

func (k *interpreter) execute(e command.Execution) error {
	if e.ID == "" {
		return errors.New("execute: no id")
	}
	line, err := frame.Encode(frame.Execute{
		Type: "execute", ID: e.ID, Code: e.Code, Count: e.Count, Silent: e.Silent, AllowStdin: e.AllowStdin,
		Expressions: e.Expressions,
	})
	if err != nil {
		return err
	}
	trace.Step("cell received")
	err = k.reserve(e.ID)
	if errors.Is(err, errAside) {
		if err = k.resumeForCell(); err == nil {
			err = k.reserve(e.ID)
		}
	}
	if err != nil {
		return err
	}
	defer k.records.Flush()
	k.handing <- struct{}{}
	defer func() { <-k.handing }()
	if r, ok := k.sandbox.(kernel.PeakResetter); ok {
		if err := r.ResetPeak(); err != nil {
			k.log.Debug("reset peak memory", "error", err)
		}
	}
	before := k.measure(measureTimeout)
	trace.Step("usage before the cell read")
	k.watch.begin()

	k.mu.Lock()
	defer k.mu.Unlock()
	k.reserved = ""
	if k.phase != serving || k.cause != nil {
		return command.ErrNoKernel
	}
	k.settle((*tap).flush) // what the pipes hold by now does not belong to this execution
	if err := k.frames.Push(line); err != nil {
		k.given.remove(e.ID)
		return err
	}
	trace.Step("cell sent to the interpreter")
	k.copies.lost = 0
	k.run = &running{Execution: e, started: time.Now(), before: before}
	k.watch.hurry()
	k.lastID = e.ID
	if k.way != nil {
		k.way.TellAgain()
	}
	k.records.Add(e.ID, record.Started{})
	if e.Timeout > 0 {
		k.run.clock = k.startClock(k.run)
	}
	if e.CPUTime > 0 {
		k.watchCPU(k.run, 0)
	}
	if k.early {
		k.interruptRun()
	}
	return nil
}

func (k *interpreter) reserve(id string) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.phase != serving || k.cause != nil {
		return command.ErrNoKernel
	}
	if k.given.has(id) {
		return command.ErrRepeated
	}
	if k.run != nil || k.reserved != "" {
		return command.ErrKernelBusy
	}
	if k.copies.aside != "" {
		return errAside
	}
	k.given.add(id)
	k.reserved, k.early = id, false
	return nil
}

func (k *interpreter) interrupt(id string) {
	defer k.records.Flush()
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case k.phase != serving:
	case id != "" && k.reserved == id:
		k.early = true
	case k.run != nil && k.run.ID == id:
		k.interruptRun()
	case k.run == nil && id == "":
		k.interruptComm()
	}
}

// interruptRun interrupts the running execution, on request. The caller holds mu.
func (k *interpreter) interruptRun() {
	k.run.interrupted = true
	k.sendInterrupt()
	k.closeAsks(k.run, askInterrupted)
}

// sendInterrupt sends no further interrupt if the runner does not read: those already queued are enough.
func (k *interpreter) sendInterrupt() {
	if err := k.frames.Send(frame.Interrupt{Type: "interrupt", ID: k.run.ID}); err != nil {
		k.log.Debug("send interrupt", "error", err)
	}
}

// startClock starts the clock of an execution. The caller holds mu.
func (k *interpreter) startClock(run *running) *clock {
	return startClock(&k.mu, run.Timeout, k.cpuUsed, func() {
		defer k.records.Flush()
		k.mu.Lock()
		defer k.mu.Unlock()
		if k.run == run && k.phase == serving {
			k.timeOut()
		}
	})
}

// timeOut interrupts the running execution, and kills the kernel if that does not end it in time. The caller holds mu.
func (k *interpreter) timeOut() {
	run := k.run
	run.timedOut = true
	k.sendInterrupt()
	k.closeAsks(run, askTimedOut)
	k.killAfterGrace(run, ending{reason: "timeout", timedOut: true})
}

// killAfterGrace kills the kernel if an interrupt has not ended the execution in time. The caller holds mu.
func (k *interpreter) killAfterGrace(run *running, why ending) {
	run.grace = time.AfterFunc(k.cfg.InterruptGrace, func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		if k.run == run {
			k.killLocked(why)
		}
	})
}
