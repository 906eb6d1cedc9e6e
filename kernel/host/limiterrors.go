package host

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"talaria/kernel"
	"talaria/kernel/frame"
	"talaria/kernel/procfs"
	"talaria/kernel/record"
)

const kept = "the variables are kept"

// explainTime bounds how long it takes to find out which limit caused an exception.
const explainTime = 50 * time.Millisecond

// explain names the limit that caused an exception. It adds to the text how much was used and that the state is kept,
// and it replaces KeyboardInterrupt by the reason for which we interrupted the cell. It returns nil if no limit is
// known to be the cause.
func (k *interpreter) explain(f *frame.Error) *record.LimitHit {
	k.mu.Lock()
	if !k.runs(f.ID) || k.run.raised != nil {
		k.mu.Unlock()
		return nil
	}
	run, limits := *k.run, k.limitsLocked()
	k.mu.Unlock()
	e := &f.Info
	switch {
	case run.limit != nil && e.Ename == "KeyboardInterrupt":
		renameError(e, interruptName(run.limit.Name), fmt.Sprintf("%v: %s; %s", run.limit, run.advice, kept))
		return run.limit
	case run.limit != nil:
		addNote(e, fmt.Sprintf("%v; %s", run.limit, kept))
		return run.limit
	case e.Ename == "KeyboardInterrupt" && run.timedOut && run.clock.stoodStill():
		addNote(e, fmt.Sprintf("the cell waited for answers for more than %d h, the longest that its timeout can be suspended; %s",
			int(MaxStandstill.Hours()), kept))
		return nil
	case e.Ename == "KeyboardInterrupt" && run.timedOut:
		addNote(e, fmt.Sprintf("the cell exceeded its timeout of %g s; %s", run.Timeout.Seconds(), kept))
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), explainTime)
	defer cancel()
	hit, advice := k.behind(ctx, e, limits)
	if hit == nil {
		return nil
	}
	addNote(e, fmt.Sprintf("%v; %s; %s", hit, kept, advice))
	return hit
}

// behind finds the limit that an exception points to, as far as the operating system agrees, and what to do about it.
func (k *interpreter) behind(ctx context.Context, e *record.ErrorInfo, limits kernel.Limits) (hit *record.LimitHit, advice string) {
	const delete = "delete files or raise the limit"
	switch {
	case strings.HasSuffix(e.Ename, "MemoryError"):
		if limits.MemoryBytes > 0 {
			used := peak(k.measure(explainTime))
			advice := "use less or raise the limit"
			if used < limits.MemoryBytes/4*3 {
				advice = "a single allocation exceeded what was left; " + advice
			}
			return &record.LimitHit{Name: "memory_bytes", Value: limits.MemoryBytes, Used: used}, advice
		}
	case strings.Contains(e.Evalue, "[Errno 27]"): // EFBIG: one file or all of them
		if hit := k.watch.fullDisk(); hit != nil {
			return hit, delete
		}
		if limits.DiskBytes > 0 {
			return &record.LimitHit{Name: "disk_bytes", Value: limits.DiskBytes, Used: limits.DiskBytes}, "no file may be larger"
		}
	case strings.Contains(e.Evalue, "[Errno 122]"): // EDQUOT, of the workspace only
		if hit := k.watch.fullDisk(); hit != nil {
			return hit, delete
		}
		if limits.DiskBytes > 0 && k.watch != nil {
			return &record.LimitHit{Name: "disk_bytes", Value: limits.DiskBytes, Used: k.watch.usedDisk()}, delete
		}
	case strings.Contains(e.Evalue, "[Errno 28]"): // ENOSPC
		if hit := k.watch.refused(limits); hit != nil {
			return hit, delete
		}
		if limits.TmpBytes > 0 && k.watch.diskHasRoom() {
			return &record.LimitHit{Name: "tmp_bytes", Value: limits.TmpBytes, Used: limits.TmpBytes},
				"delete files there or write to the workspace"
		}
	case strings.Contains(e.Evalue, "[Errno 11]"), strings.Contains(e.Evalue, "can't start new thread"): // EAGAIN
		usage, err := k.sandbox.Usage(ctx)
		if err == nil && limits.PIDs > 0 && usage.PIDs >= limits.PIDs*3/4 {
			return &record.LimitHit{Name: "pids", Value: limits.PIDs, Used: usage.PIDs}, "end processes or threads, or raise the limit"
		}
	}
	return nil, ""
}

// endedByFullDisk returns the limit of a kernel that wrote to a mapped file for which the workspace has no space left,
// which the operating system answers with SIGBUS; else nil.
func (k *interpreter) endedByFullDisk() *record.LimitHit {
	select {
	case <-k.present().Done():
	default:
		return nil
	}
	if !k.watch.holdsDisk() || k.present().Exit().Signal != unix.SIGBUS {
		return nil
	}
	return k.watch.fullDisk()
}

// interruptName returns the name of the exception that a cell gets when it is interrupted for the limit.
func interruptName(limit string) string {
	switch limit {
	case "memory_bytes":
		return "MemoryError"
	case "execution_cpu_s":
		return "CPULimit"
	}
	return "DiskLimit"
}

// addNote appends a note to an exception's text.
func addNote(e *record.ErrorInfo, note string) {
	if e.Evalue != "" {
		e.Evalue += ": "
	}
	e.Evalue += note
	e.Traceback = append(e.Traceback, note)
}

// renameError gives an exception another name and text; the traceback still says where it happened.
func renameError(e *record.ErrorInfo, ename, evalue string) {
	if n := len(e.Traceback); n > 0 && strings.HasPrefix(e.Traceback[n-1], e.Ename) {
		e.Traceback = e.Traceback[:n-1]
	}
	e.Ename, e.Evalue = ename, evalue
	e.Traceback = append(e.Traceback, ename+": "+evalue)
}

// reached interrupts the executions that run in the sandbox, since it has reached a limit that only the watcher enforces: which of
// them is the cause is not known.
func (k *interpreter) reached(hit record.LimitHit, advice string) {
	for _, one := range append(k.others(), k) {
		one.interruptFor(hit, advice)
	}
}

// killLargest kills that one of the kernels in the sandbox whose interpreter uses the most memory. It does not leave it to the
// closing of the kernel's sandbox, which may take as long as pid 1 is busy with others, to kill the interpreter: until then, it could
// take more. One that is being ended already is no exception: no other one has to end for the memory that it still has.
func (k *interpreter) killLargest(why ending) {
	largest := k
	var where kernel.ProcessPlace
	var most int64
	for _, one := range append(k.others(), k) {
		if place, used := one.memory(); used > most {
			largest, where, most = one, place, used
		}
	}
	largest.kill(why)
	if most > 0 {
		if err := procfs.Kill(where.HostPID, where.StartTime); err != nil {
			largest.log.Warn("kill an interpreter for its memory", "error", err)
		}
	}
}

// memory returns where the interpreter is, and what it has mapped, as far as that can be read; 0 if it is ending.
func (k *interpreter) memory() (kernel.ProcessPlace, int64) {
	located, ok := k.present().(kernel.ProcessLocator)
	if !ok {
		return kernel.ProcessPlace{}, 0
	}
	place := located.Locate()
	p, err := procfs.Read(place.HostPID)
	if err != nil || p.Ending {
		return place, 0
	}
	return place, p.Memory()
}

// interruptFor interrupts the running execution, once, because of a limit.
func (k *interpreter) interruptFor(hit record.LimitHit, advice string) {
	defer k.records.Flush()
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.phase != serving || k.run == nil || k.run.limit != nil {
		return
	}
	k.run.limit, k.run.advice = &hit, advice
	k.sendInterrupt()
	k.closeAsks(k.run, askInterrupted)
}

// tellIdle is tell, but only if no execution is running that would get an error.
func (k *interpreter) tellIdle(line string) {
	defer k.records.Flush()
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.run == nil {
		k.tellLocked(line)
	}
}

// tell writes a line to the kernel's stderr for people who read it.
func (k *interpreter) tell(line string) {
	defer k.records.Flush()
	k.mu.Lock()
	defer k.mu.Unlock()
	k.tellLocked(line)
}

func (k *interpreter) tellLocked(line string) {
	if k.phase == serving {
		k.settle((*tap).flush)
		k.records.Add(k.lastID, record.Stream{Name: "stderr", Text: "\n" + line + "\n"})
	}
}

// tellKills reports processes that were killed for memory while the kernel itself lives. usage is that at the end of
// an execution; only one that came close to the limit is worth a look.
func (k *interpreter) tellKills(usage kernel.Usage) {
	counter, ok := k.sandbox.(kernel.OOMCounter)
	limit := k.limitsNow().MemoryBytes
	if !ok || limit <= 0 || peak(usage) < limit-limit/10 {
		return
	}
	k.mu.Lock()
	copies := k.copies.lost
	k.mu.Unlock()
	if n := counter.OOMKills() - copies; n > 0 { // for copies there is a record
		hit := record.LimitHit{Name: "memory_bytes", Value: limit, Used: peak(usage)}
		k.tell(fmt.Sprintf("[%d of this session's processes were killed: %v; %s]", n, hit, kept))
	}
}

func (k *interpreter) limitsNow() kernel.Limits {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.limitsLocked()
}

func (k *interpreter) limitsLocked() kernel.Limits {
	if k.main != nil {
		return k.main.limitsNow()
	}
	return k.limits
}

// busy reports whether an execution is running in the sandbox.
func (k *interpreter) busy() bool {
	k.mu.Lock()
	running := k.run != nil
	k.mu.Unlock()
	return running || slices.ContainsFunc(k.others(), (*interpreter).busy)
}
