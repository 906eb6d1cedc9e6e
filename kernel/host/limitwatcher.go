package host

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"talaria/kernel"
	"talaria/kernel/record"
	"talaria/kernel/workspace"
)

// How often a watcher looks: soon enough for what could reach the limit at the fastest rate, and not so often that
// looking takes more than its share of the time.
const (
	minLookPause = 20 * time.Millisecond
	maxLookPause = time.Second
	maxIdlePause = 4 * time.Second // if nothing has run since the last look
	lookShare    = 10              // 1/lookShare of a CPU's time, while something runs
	nearShare    = 3               // while more than half of the memory is in use
	idleShare    = 50              // while nothing runs
	urgentShare  = 1               // while a workspace that is full still grows, or memory rises towards its limit

	fastestWriting    = 2 << 30 // bytes per second
	fastestMaking     = 1 << 18 // inodes per second
	fastestAllocating = 4 << 30 // bytes per second
)

// farOver is how many times its memory limit a sandbox may use before a kernel ends for it without a grace.
const farOver = 2

// unseenTime is how long code may run while folders of the workspace, or deleted files that are open, cannot be measured,
// before it is interrupted. It is long enough to delete or close them.
const unseenTime = 5 * time.Second

// diskSlackInodes is how many inodes beyond the limit a workspace may use before its kernel is killed, as
// DiskSlackBytes is for bytes: creating empty files needs no writing.
const diskSlackInodes = 8192

// A file system may need more blocks for files that do not change: for the tree of extents of a file whose blocks it has to
// place far apart, which it does up to half a minute after the writing. metadataSlack is how much a full workspace may grow
// for that, plus one metadataShare of what it has, before a cell is taken to be the cause.
const (
	metadataSlack = 64 << 10
	metadataShare = 1024
)

// watchedKernel is the kernel as its watcher sees it. The methods are safe for concurrent use, and take the kernel's lock.
type watchedKernel interface {
	limitsNow() kernel.Limits
	busy() bool
	tell(line string)                           // shows a line to those who read the kernel's output
	tellIdle(line string)                       // the same, unless a cell is running, which gets an error instead
	reached(hit record.LimitHit, advice string) // interrupts the running cell for the limit, once
	kill(why ending)
	killLargest(why ending) // kills that one of the kernels in the sandbox whose interpreter uses the most memory
}

// watcher holds a kernel to the limits that nothing else enforces, by looking: at the bytes and inodes of the
// workspace, and at the memory of all processes together if no control group bounds it.
//
// A look takes looking first and then, through the kernel's methods, the kernel's own lock. So a goroutine that holds
// the kernel's lock must not call look, fullDisk, refused or begin. A nil watcher watches nothing.
type watcher struct {
	kernel  watchedKernel
	log     *slog.Logger
	grace   time.Duration          // how long an interrupted cell may take to free memory
	hold    kernel.DiskEnforcement // of the workspace
	sandbox interface {
		kernel.Sandbox
		kernel.Watched
	}
	dir     *workspace.Dir
	scratch *workspace.Dir  // counts as well; nil if temporary files have limits of their own
	ctx     context.Context // ends with stop
	cancel  context.CancelFunc
	ended   chan struct{} // closed when it no longer looks
	timer   *time.Timer
	due     atomic.Int64 // when the timer fires, in nanoseconds since 1970
	pause   atomic.Int64 // how soon a look would be due if something runs
	used    atomic.Int64 // bytes of the workspace, as last seen
	isFull  atomic.Bool
	cpu     time.Duration // before the last look; used by run only

	looking               sync.Mutex       // held for a look, and guards the fields below
	full                  *record.LimitHit // while writing is stopped
	writing               bool             // that has failed
	bytes                 int64            // that the workspace used then
	inodes                int64
	mostBytes, mostInodes int64     // the most that was seen then, or when it last grew
	growing               bool      // the last look saw more than that, by more than a file system needs for itself
	begins                bool      // an execution is about to begin, which has made none of what is there
	unseen                time.Time // since when code has been running while something cannot be measured; zero if all can
	openBytes, openInodes int64     // of deleted files that are open, when they were last counted
	uncounted             bool      // the last look could not count them
	memory                int64     // at the last look
	near                  bool      // it is more than half of the limit
	rising                bool      // it has grown by a good part of what is left
	over                  time.Time // since when memory has been over its limit with only interpreters left to kill
}

// newWatcher makes a watcher of a sandbox that needs one, or returns nil. The caller still owns dir.
func newWatcher(
	k watchedKernel, sandbox kernel.Sandbox, dir *os.File, hold kernel.DiskEnforcement, grace time.Duration, log *slog.Logger,
) (*watcher, error) {
	watched, ok := sandbox.(interface {
		kernel.Sandbox
		kernel.Watched
	})
	if !ok || dir == nil {
		return nil, nil
	}
	own, err := workspace.Reopen(dir)
	if err != nil {
		return nil, err
	}
	scratch, err := openScratch(sandbox)
	if err != nil {
		return nil, errors.Join(err, own.Close())
	}
	if scratch != nil {
		hold = kernel.DiskWatched // nothing else counts both together
	}
	w := &watcher{kernel: k, log: log, grace: grace, hold: hold, sandbox: watched, dir: own, scratch: scratch,
		ended: make(chan struct{}), timer: time.NewTimer(maxLookPause)}
	w.due.Store(time.Now().Add(maxLookPause).UnixNano())
	w.pause.Store(int64(minLookPause))
	w.ctx, w.cancel = context.WithCancel(context.Background())
	return w, nil
}

// run looks until stop is called.
func (w *watcher) run() {
	defer close(w.ended)
	defer w.closeDirs()
	defer w.timer.Stop()
	if w.hold != kernel.DiskWatched && !w.sandbox.MemoryUnheld() { // every limit is enforced without looking
		<-w.ctx.Done()
		return
	}
	idle := maxLookPause
	for {
		select {
		case <-w.timer.C:
		case <-w.ctx.Done():
			return
		}
		if w.nothingRan() {
			idle = min(2*idle, maxIdlePause)
			w.nextIdle(idle)
			continue
		}
		idle = maxLookPause
		pause, share, took := w.timedLook()
		pause = min(max(pause, minLookPause, share*took), maxLookPause)
		w.pause.Store(int64(pause))
		if w.kernel.busy() || w.isOver() {
			w.next(pause)
		} else {
			w.nextIdle(max(maxLookPause, idleShare*took))
		}
	}
}

// timedLook looks, and returns how much CPU time that took. Elapsed time would be wrong: on a busy machine, where the
// watcher waits for a CPU, it would look less often just when it should not.
func (w *watcher) timedLook() (pause, share, took time.Duration) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	before := threadCPU()
	pause, share = w.look()
	return pause, share, threadCPU() - before
}

// threadCPU returns the CPU time of the calling thread.
func threadCPU() time.Duration {
	var now unix.Timespec
	if unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &now) != nil {
		return 0
	}
	return time.Duration(now.Nano())
}

// next sets the time of the next look.
func (w *watcher) next(pause time.Duration) {
	w.due.Store(time.Now().Add(pause).UnixNano())
	w.timer.Reset(pause)
}

// nextIdle sets the time of the next look at a kernel that was idle. An execution that began meanwhile has found the
// earlier time, and not this one.
func (w *watcher) nextIdle(pause time.Duration) {
	w.next(pause)
	if w.kernel.busy() {
		w.hurry()
	}
}

// hurry brings the next look forward, since something runs now. The caller has made that visible in busy.
func (w *watcher) hurry() {
	if w == nil {
		return
	}
	pause := time.Duration(w.pause.Load())
	if time.Now().Add(pause).UnixNano() < w.due.Load() {
		w.next(pause)
	}
}

// nothingRan reports whether the kernel is idle and was idle since the last look, so that nothing can have been
// written, and nothing is left to be done for its memory.
func (w *watcher) nothingRan() bool {
	cpu, err := w.sandbox.CPU(w.ctx)
	same := err == nil && cpu == w.cpu
	w.cpu = cpu
	return same && !w.kernel.busy() && !w.isOver()
}

// isOver reports whether memory was over its limit at the last look, with only interpreters left to kill.
func (w *watcher) isOver() bool {
	w.looking.Lock()
	defer w.looking.Unlock()
	return !w.over.IsZero()
}

// stop ends the looking; it does not wait.
func (w *watcher) stop() {
	if w != nil {
		w.cancel()
	}
}

// wait waits, after stop, until it has ended.
func (w *watcher) wait() {
	if w != nil {
		<-w.ended
	}
}

// begin tells the watcher that an execution is about to begin: if writing is stopped, it looks whether it may go on.
func (w *watcher) begin() {
	if w == nil || !w.isFull.Load() {
		return
	}
	w.looking.Lock()
	w.unseen = time.Time{}
	w.begins = true
	w.looking.Unlock()
	w.look()
}

// look does what has to be done now, and returns how long it takes at least until a limit can be reached, and what
// share of the time looking may take until then.
func (w *watcher) look() (pause, share time.Duration) {
	if w == nil {
		return maxLookPause, lookShare
	}
	w.looking.Lock()
	defer w.looking.Unlock()
	limits := w.kernel.limitsNow()
	pause = maxLookPause
	if w.hold == kernel.DiskWatched {
		pause = w.lookAtDisk(limits)
	} else {
		w.lookAtHeldDisk(limits)
	}
	if w.sandbox.MemoryUnheld() && limits.MemoryBytes > 0 {
		pause = min(pause, w.lookAtMemory(limits.MemoryBytes))
	}
	switch {
	case w.growing || w.rising:
		return pause, urgentShare
	case w.near:
		return pause, nearShare
	}
	return pause, lookShare
}

// lookAtDisk stops writing when the workspace is full, and allows it again when there is room. The caller holds
// looking.
func (w *watcher) lookAtDisk(limits kernel.Limits) time.Duration {
	bytes, inodes, unseen, hit, err := w.measure(limits)
	if err != nil {
		if w.ctx.Err() == nil {
			w.log.Debug("measure the workspace", "error", err)
		}
		return maxLookPause
	}
	w.used.Store(bytes)
	switch {
	case !unseen:
		w.unseen = time.Time{}
	case w.unseen.IsZero():
		w.unseen = time.Now()
	}
	overdue := unseen && time.Since(w.unseen) > unseenTime
	if w.begins {
		w.begins = false
		w.mostBytes, w.mostInodes = max(w.mostBytes, bytes), max(w.mostInodes, inodes)
	}
	w.growing = hit != nil && (w.full == nil || bytes > w.mostBytes+metadataSlack+w.mostBytes/metadataShare ||
		inodes > w.mostInodes || overdue)
	switch {
	case hit == nil && w.full != nil:
		if err := w.sandbox.StopWrites(w.ctx, false); err != nil {
			w.log.Warn("let a session write again", "error", err)
			w.writing = true // some processes may, so if the workspace is full again, they have to be stopped again
			break
		}
		w.full = nil
		w.isFull.Store(false)
	case hit != nil && w.full == nil:
		w.full, w.bytes, w.inodes = hit, bytes, inodes
		w.mostBytes, w.mostInodes = bytes, inodes
		w.isFull.Store(true)
		w.stopWrites()
		w.kernel.tellIdle(fmt.Sprintf("[%v: nothing more can be written; %s]", hit, kept))
		return minLookPause // a cell that writes gets an error until then, which points at the line
	case hit != nil && (bytes > w.bytes+kernel.DiskSlackBytes || inodes > w.inodes+diskSlackInodes ||
		overdue && time.Since(w.unseen) > unseenTime+w.grace || w.writing && !w.stopWrites()):
		w.kernel.kill(ending{reason: kernel.LimitDisk, limit: hit})
	case hit != nil:
		w.full = hit
		if w.growing {
			w.kernel.reached(*hit, "it was interrupted; delete files or raise the limit")
			w.mostBytes, w.mostInodes = max(w.mostBytes, bytes), max(w.mostInodes, inodes)
		}
	}
	switch {
	case limits.DiskBytes <= 0:
		return maxLookPause
	case w.uncounted:
		return minLookPause
	}
	return min(reach(limits.DiskBytes-bytes, fastestWriting), reach(limits.Inodes()-inodes, fastestMaking))
}

// stopWrites stops writing, as far as that can be told. It may fail once on a busy machine; code that starts processes faster than they
// can be found may make it fail again and again.
func (w *watcher) stopWrites() bool {
	err := w.sandbox.StopWrites(w.ctx, true)
	if w.writing = err != nil && w.ctx.Err() == nil; w.writing {
		w.log.Warn("stop a session that fills its disk from writing", "error", err)
	}
	return !w.writing
}

// reach returns how long that much takes at that rate per second.
func reach(room int64, rate int64) time.Duration {
	seconds := float64(max(room, 0)) / float64(rate)
	return time.Duration(min(seconds, maxLookPause.Seconds()) * float64(time.Second))
}

// measure returns what the workspace uses, including deleted files that are still open, and the limit that it has
// passed. A workspace that is too deep counts as past its limit, and so does one with folders, or with deleted files, that
// cannot be measured: unseen. Deleted files are given a second look, since counting them may take too long on a busy machine.
func (w *watcher) measure(limits kernel.Limits) (bytes, inodes int64, unseen bool, hit *record.LimitHit, err error) {
	bytes, inodes, err = w.dir.Usage(w.ctx)
	deep := errors.Is(err, workspace.ErrTruncated)
	unseen = errors.Is(err, workspace.ErrUnseen)
	if err != nil && !deep {
		return 0, 0, false, nil, err
	}
	if w.scratch != nil {
		more, count, err := w.scratch.Usage(w.ctx)
		if err != nil && !errors.Is(err, workspace.ErrTruncated) {
			return 0, 0, false, nil, err
		}
		deep = deep || err != nil
		unseen = unseen || errors.Is(err, workspace.ErrUnseen)
		bytes, inodes = bytes+more, inodes+count
	}
	more, count, err := w.sandbox.Unlinked(w.ctx, w.dir.Device())
	again := err != nil && w.uncounted
	if w.uncounted = err != nil; err == nil {
		w.openBytes, w.openInodes = more, count
	} else if w.ctx.Err() == nil {
		w.log.Debug("look for deleted files that are open", "error", err)
	}
	unseen = unseen || again
	bytes, inodes = bytes+w.openBytes, inodes+w.openInodes
	switch {
	case limits.DiskBytes <= 0:
	case bytes > limits.DiskBytes:
		hit = &record.LimitHit{Name: "disk_bytes", Value: limits.DiskBytes, Used: bytes}
	case deep:
		hit = &record.LimitHit{Name: "disk_depth", Value: workspace.MaxDepth, Used: workspace.MaxDepth + 1}
	case again:
		hit = &record.LimitHit{Name: "disk_open_bytes", Value: limits.DiskBytes, Used: bytes}
	case inodes > limits.Inodes():
		hit = &record.LimitHit{Name: "disk_inodes", Value: limits.Inodes(), Used: inodes}
	}
	return bytes, inodes, unseen, hit, nil
}

// lookAtMemory acts when all processes together use too much. It kills the largest child; if there is none, it
// interrupts the cells. After the grace, or far over the limit, it ends the largest kernel, at each look one until those that
// are left use no more than the limit. The caller holds looking.
func (w *watcher) lookAtMemory(limit int64) time.Duration {
	usage, err := w.sandbox.Usage(w.ctx)
	if err != nil {
		return maxLookPause
	}
	w.rising = usage.MemoryBytes-w.memory > (limit-usage.MemoryBytes)/16
	w.near = usage.MemoryBytes > limit/2
	w.memory = usage.MemoryBytes
	if usage.MemoryBytes <= limit {
		w.over = time.Time{}
		return reach(limit-usage.MemoryBytes, fastestAllocating)
	}
	hit := record.LimitHit{Name: "memory_bytes", Value: limit, Used: usage.MemoryBytes}
	name, used, err := w.sandbox.KillLargest(w.ctx, limit)
	switch {
	case err != nil:
		w.log.Warn("kill a process for its memory", "error", err)
	case used <= limit: // the process that used it has ended or was killed, or processes share it
		w.over = time.Time{}
	case name != "":
		w.kernel.tell("[the process " + name + " of this session was killed: " + hit.String() + "]")
	default:
		if w.over.IsZero() {
			w.over = time.Now()
			w.kernel.reached(hit, "it was interrupted; use less or raise the limit")
		}
		if used > farOver*limit || time.Since(w.over) > w.grace {
			w.kernel.killLargest(ending{reason: kernel.LimitMemory, limit: &hit})
		}
	}
	return minLookPause
}

// close gives up a watcher that never ran.
func (w *watcher) close() {
	if w == nil {
		return
	}
	w.cancel()
	w.timer.Stop()
	w.closeDirs()
}

// openScratch opens the directory of a sandbox's temporary files, or returns nil.
func openScratch(sandbox kernel.Sandbox) (*workspace.Dir, error) {
	s, ok := sandbox.(kernel.Scratcher)
	if !ok || s.Scratch() == "" {
		return nil, nil
	}
	return workspace.Open(s.Scratch())
}

func (w *watcher) closeDirs() {
	_ = w.dir.Close()
	if w.scratch != nil {
		_ = w.scratch.Close()
	}
}
