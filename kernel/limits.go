package kernel

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// The reasons of kernels that a limit of their own ended; LimitMemory is also the Limit of an [Exit].
const (
	LimitMemory = "memory_limit"
	LimitDisk   = "disk_limit"
	LimitCPU    = "cpu_limit"
)

const (
	minInodes     = 4096
	bytesPerInode = 4096
)

// Inodes is the most files, folders and links that the workspace may have: one for each 4 KiB of DiskBytes, at least
// 4096; 0 is no limit.
func (l Limits) Inodes() int64 {
	if l.DiskBytes <= 0 {
		return 0
	}
	return max(minInodes, l.DiskBytes/bytesPerInode)
}

// String names the limit, its value, and what was used.
func (h LimitHit) String() string {
	name := "limits." + h.Name
	switch h.Name {
	case "disk_inodes":
		name = "the limit of files, one for each 4 KiB of limits.disk_bytes,"
	case "disk_depth":
		return fmt.Sprintf("folders of the workspace are more than %d deep or may not be read, so that limits.disk_bytes "+
			"cannot be held; remove them", h.Value)
	case "tmp_bytes":
		name = "the limit of each of /tmp, /dev/shm and the home directory, a quarter of limits.memory_bytes,"
	}
	if strings.HasSuffix(h.Name, "_bytes") {
		return fmt.Sprintf("%s is %s and %s were used", name, readable(h.Value), readable(h.Used))
	}
	return fmt.Sprintf("%s is %d and %d were used", name, h.Value, h.Used)
}

// readable is a number of bytes in the unit that people think in.
func readable(bytes int64) string {
	switch {
	case bytes >= 1<<30 && bytes%(1<<30) == 0:
		return fmt.Sprintf("%d GiB", bytes>>30)
	case bytes >= 1<<20:
		return strings.TrimSuffix(fmt.Sprintf("%.1f", float64(bytes)/(1<<20)), ".0") + " MiB"
	case bytes >= 1<<10:
		return strings.TrimSuffix(fmt.Sprintf("%.1f", float64(bytes)/(1<<10)), ".0") + " KiB"
	}
	return fmt.Sprintf("%d bytes", bytes)
}

const kept = "the variables are kept"

// explainTime bounds what it takes to find out which limit is behind an exception.
const explainTime = 50 * time.Millisecond

// explain names the limit that is behind an exception: it adds to the text what was used and that the state is kept, and
// gives what made us interrupt the cell in place of KeyboardInterrupt. It is nil where no limit is known to be.
func (k *interpreter) explain(f *errorFrame) *LimitHit {
	k.mu.Lock()
	if !k.runs(f.id) || k.run.raised != nil {
		k.mu.Unlock()
		return nil
	}
	run, limits := *k.run, k.limits
	k.mu.Unlock()
	e := &f.info
	switch {
	case run.limit != nil && e.Ename == "KeyboardInterrupt":
		e.replace(run.limit.ename(), fmt.Sprintf("%v: %s; %s", run.limit, run.advice, kept))
		return run.limit
	case run.limit != nil:
		e.add(fmt.Sprintf("%v; %s", run.limit, kept))
		return run.limit
	case e.Ename == "KeyboardInterrupt" && run.timedOut && run.clock.stoodStill():
		e.add(fmt.Sprintf("the cell waited for answers for more than %d h, which is the longest that its time-out stands still; %s",
			int(MaxStandstill.Hours()), kept))
		return nil
	case e.Ename == "KeyboardInterrupt" && run.timedOut:
		e.add(fmt.Sprintf("the cell ran past its time-out of %g s; %s", run.Timeout.Seconds(), kept))
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), explainTime)
	defer cancel()
	hit, advice := k.behind(ctx, e, limits)
	if hit == nil {
		return nil
	}
	e.add(fmt.Sprintf("%v; %s; %s", hit, kept, advice))
	return hit
}

// behind finds the limit that an exception tells of, as far as the operating system agrees, and what to do.
func (k *interpreter) behind(ctx context.Context, e *ErrorInfo, limits Limits) (hit *LimitHit, advice string) {
	const delete = "delete files or raise the limit"
	switch {
	case strings.HasSuffix(e.Ename, "MemoryError"):
		if limits.MemoryBytes > 0 {
			used := peak(k.measure(explainTime))
			advice := "use less or raise the limit"
			if used < limits.MemoryBytes/4*3 {
				advice = "what was asked for at once is more than the rest; " + advice
			}
			return &LimitHit{Name: "memory_bytes", Value: limits.MemoryBytes, Used: used}, advice
		}
	case strings.Contains(e.Evalue, "[Errno 27]"): // EFBIG: one file or all of them
		if hit := k.fullDisk(limits); hit != nil {
			return hit, delete
		}
		if limits.DiskBytes > 0 {
			return &LimitHit{Name: "disk_bytes", Value: limits.DiskBytes, Used: limits.DiskBytes}, "no file may be larger"
		}
	case strings.Contains(e.Evalue, "[Errno 122]"): // EDQUOT, of the workspace only
		if hit := k.fullDisk(limits); hit != nil {
			return hit, delete
		}
		if limits.DiskBytes > 0 && k.watch != nil {
			return &LimitHit{Name: "disk_bytes", Value: limits.DiskBytes, Used: k.watch.used.Load()}, delete
		}
	case strings.Contains(e.Evalue, "[Errno 28]"): // ENOSPC
		if hit := k.refused(limits); hit != nil {
			return hit, delete
		}
		if limits.TmpBytes > 0 && k.watch != nil && k.watch.dir.Free() > 0 {
			return &LimitHit{Name: "tmp_bytes", Value: limits.TmpBytes, Used: limits.TmpBytes},
				"delete files there or write to the workspace"
		}
	case strings.Contains(e.Evalue, "[Errno 11]"), strings.Contains(e.Evalue, "can't start new thread"): // EAGAIN
		usage, err := k.sandbox.Usage(ctx)
		if err == nil && limits.PIDs > 0 && usage.PIDs >= limits.PIDs*3/4 {
			return &LimitHit{Name: "pids", Value: limits.PIDs, Used: usage.PIDs}, "end processes or threads, or raise the limit"
		}
	}
	return nil, ""
}

// fullDisk looks whether the workspace is past its limit.
func (k *interpreter) fullDisk(limits Limits) *LimitHit {
	if k.watch == nil {
		return nil
	}
	k.watch.look()
	k.watch.looking.Lock()
	defer k.watch.looking.Unlock()
	return k.watch.full
}

// ename is the name of the exception that a cell gets which is interrupted for the limit.
func (h LimitHit) ename() string {
	switch h.Name {
	case "memory_bytes":
		return "MemoryError"
	case "execution_cpu_s":
		return "CPULimit"
	}
	return "DiskLimit"
}

// add adds to what an exception says.
func (e *ErrorInfo) add(note string) {
	if e.Evalue != "" {
		e.Evalue += ": "
	}
	e.Evalue += note
	e.Traceback = append(e.Traceback, note)
}

// replace gives an exception another name and text; the traceback keeps where it happened.
func (e *ErrorInfo) replace(ename, evalue string) {
	if n := len(e.Traceback); n > 0 && strings.HasPrefix(e.Traceback[n-1], e.Ename) {
		e.Traceback = e.Traceback[:n-1]
	}
	e.Ename, e.Evalue = ename, evalue
	e.Traceback = append(e.Traceback, ename+": "+evalue)
}

// reached interrupts what runs, once, since it has reached a limit that nothing but the watcher holds.
func (k *interpreter) reached(hit LimitHit, advice string) {
	defer k.records.flush()
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.phase != serving || k.run == nil || k.run.limit != nil {
		return
	}
	k.run.limit, k.run.advice = &hit, advice
	k.sendInterrupt()
	k.closeAsks(k.run, askInterrupted)
}

// tellIdle is tell where no execution runs that would get an error.
func (k *interpreter) tellIdle(line string) {
	defer k.records.flush()
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.run == nil {
		k.tellLocked(line)
	}
}

// tell writes a line to the kernel's stderr for those who read it.
func (k *interpreter) tell(line string) {
	defer k.records.flush()
	k.mu.Lock()
	defer k.mu.Unlock()
	k.tellLocked(line)
}

func (k *interpreter) tellLocked(line string) {
	if k.phase == serving {
		k.settle((*tap).flush)
		k.records.add(k.lastID, Stream{Name: "stderr", Text: "\n" + line + "\n"})
	}
}

// tellKills tells of processes that were killed for memory while the kernel itself lives. usage is at the end of an
// execution; only one that came near to the limit is worth a look.
func (k *interpreter) tellKills(usage Usage) {
	counter, ok := k.sandbox.(OOMCounter)
	limit := k.limitsNow().MemoryBytes
	if !ok || limit <= 0 || peak(usage) < limit-limit/10 {
		return
	}
	if n := counter.OOMKills(); n > 0 {
		hit := LimitHit{Name: "memory_bytes", Value: limit, Used: peak(usage)}
		k.tell(fmt.Sprintf("[%d of this session's processes were killed: %v; %s]", n, hit, kept))
	}
}

func (k *interpreter) limitsNow() Limits {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.limits
}

// busy reports whether an execution runs.
func (k *interpreter) busy() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.run != nil
}
