package host

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"talaria/kernel"
	"talaria/kernel/command"
	"talaria/kernel/frame"
	"talaria/kernel/record"
	"talaria/kernel/trace"
)

const (
	// copyPatience is how long the interpreter may take to make a copy of itself, and
	copyPatience = 30 * time.Second
	// asidePatience is how long it may take until it steps aside: less, since one that does so later would not be resumed.
	asidePatience = copyPatience / 2
	// wakePatience is how long a copy may take to become the interpreter.
	wakePatience = 30 * time.Second

	reasonNoWake  = "copy_did_not_wake"
	reasonResumed = "resumed"

	refusedUnheld = "this machine does not limit the total memory of a session's processes (the server has no memory control " +
		"group), so copies of an interpreter could use up all of it"
	refusedRights = "this server may not decide that copies of an interpreter are killed first when memory runs out, so the interpreter " +
		"itself could be killed; run the server as root"
	refusedBeside  = "an interpreter in the sandbox of another session cannot be copied"
	refusedBackend = "this tier of isolation cannot copy interpreters"
)

var errAside = errors.New("the interpreter has stepped aside")

// interpreterCopy is a copy of the interpreter that waits.
type interpreterCopy struct {
	process kernel.Process
	reply   command.Copy
	comms   map[string]string // that were open when it was made, as comms has them
}

// copies are the copies of an interpreter.
type copies struct {
	// changing holds one value while a copy is made or woken, and guards shared.
	changing chan struct{}
	// shared is the part of the interpreter's resident memory that its control group does not count, because the fork server
	// had it first, less what pid 1 takes. It is measured whenever a copy is made and there is no other.
	shared int64
	// The lock of the interpreter guards the fields below.
	waiting map[string]*interpreterCopy // by id
	aside   string                      // the name under which the interpreter itself waits; "" unless it has stepped aside
	waking  chan struct{}               // closed when the copy that is being woken is the interpreter; nil if none is
	woken   string                      // the name of the copy that was woken last
	changed chan struct{}               // closed when another process becomes the interpreter
	lost    int64                       // copies that memory pressure ended since the running execution began
}

// begin waits until no copy is being made or woken; the caller calls end.
func (c *copies) begin(ctx context.Context) error {
	select {
	case c.changing <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (c *copies) end() { <-c.changing }

// makeCopy makes a copy of the interpreter. It takes no lock that a cell has to wait for: a cell that comes first is run first.
func (k *interpreter) makeCopy(ctx context.Context, id string) (command.Copy, error) {
	return k.addCopy(ctx, id, k.idle, k.fork)
}

// stepAside makes the interpreter itself a copy. If it cannot step aside, it makes an ordinary copy.
func (k *interpreter) stepAside(ctx context.Context, c command.StepAside) (command.Copy, error) {
	begin := func() error {
		if err := k.idle(); err != nil {
			return err
		}
		if k.copies.waiting[c.For] == nil {
			return command.ErrNoCopy
		}
		k.copies.aside = c.ID // from here on a cell resumes it first
		return nil
	}
	return k.addCopy(ctx, c.ID, begin, k.wait)
}

// addCopy adds the copy that provide returns, unless there is one with that id already. begin is called first, with mu held.
func (k *interpreter) addCopy(
	ctx context.Context, id string, begin func() error, provide func(context.Context, kernel.Copier) (command.Copied, kernel.Process, error),
) (command.Copy, error) {
	if err := k.copies.begin(ctx); err != nil {
		return command.Copy{}, fmt.Errorf("copy the interpreter: %w", err)
	}
	defer k.copies.end()
	copier, refused := k.copier()
	k.mu.Lock()
	known, count := k.copies.waiting[id], len(k.copies.waiting)
	if refused == "" && count >= command.MaxCopies {
		refused = fmt.Sprintf("the kernel already has %d copies of its interpreter, which is the limit; drop some", count)
	}
	if refused != "" {
		begin = k.idle
	}
	var err error
	if known == nil {
		err = begin()
	}
	open := maps.Clone(k.comms.open)
	k.mu.Unlock()
	switch {
	case known != nil:
		return known.reply, nil
	case err != nil:
		return command.Copy{}, err
	case refused != "":
		return command.Copy{Refused: refused}, nil
	}
	// A copy that nobody hears of could never be ended, so the caller's patience does not matter.
	ctx, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), copyPatience, command.ErrKernelBusy)
	defer cancel()
	made, process, err := provide(ctx, copier)
	if err != nil {
		return command.Copy{}, fmt.Errorf("copy the interpreter: %w", err)
	}
	if process == nil {
		return made.Copy, nil
	}
	made.Refused = ""
	made.Resident, made.Held = k.measureCopies(copier, count == 0)
	trace.Step("copies measured")
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.copies.waiting == nil {
		k.copies.waiting = map[string]*interpreterCopy{}
	}
	k.copies.waiting[id] = &interpreterCopy{process: process, reply: made.Copy, comms: open}
	if k.copies.aside != id {
		go k.awaitLoss(id, process)
	}
	return made.Copy, nil
}

// fork has the interpreter make a copy of itself. Without a process, the answer says why there is none.
func (k *interpreter) fork(ctx context.Context, copier kernel.Copier) (command.Copied, kernel.Process, error) {
	made, err := k.askForCopy(ctx, func(id string) any { return frame.ForQuery(command.Query{Kind: command.QueryCopy}, id) })
	if err != nil || made.PID == 0 {
		return made, nil, err
	}
	trace.Step("copy made inside")
	process, err := copier.Adopt(ctx, made.PID)
	if err != nil {
		k.log.Warn("a copy of an interpreter was lost", "error", err)
		made.Refused = "the copy ended at once"
		if errors.Is(err, fs.ErrPermission) {
			made.Refused = refusedRights
		}
		return made, nil, nil
	}
	trace.Step("copy adopted")
	return made, process, nil
}

// wait has the interpreter wait as a copy does, or else make a copy of itself.
func (k *interpreter) wait(ctx context.Context, copier kernel.Copier) (command.Copied, kernel.Process, error) {
	process := k.present()
	until := monotonic(asidePatience)
	made, err := k.askForCopy(ctx, func(id string) any { return frame.AsideOut{Type: "aside", RequestID: id, Until: until} })
	if err != nil || made.PID == 0 {
		k.mu.Lock()
		k.copies.aside = ""
		k.mu.Unlock()
		if err != nil {
			return made, nil, err
		}
		k.log.Debug("an interpreter does not step aside, so it is copied", "reason", made.Refused)
		return k.fork(ctx, copier)
	}
	trace.Step("interpreter has stepped aside")
	if err := copier.SetAside(process); err != nil {
		k.log.Warn("an interpreter that has stepped aside resumes", "error", err)
		made.Refused = refusedRights
		k.mu.Lock()
		id := k.copies.aside
		k.copies.waiting[id] = &interpreterCopy{process: process, comms: k.comms.open}
		k.mu.Unlock()
		return made, nil, k.wake(ctx, id)
	}
	return made, process, nil
}

// monotonic returns what CLOCK_MONOTONIC will show, in seconds, when that much time has passed.
func monotonic(after time.Duration) float64 {
	var now unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &now) // Linux always has it
	return time.Duration(now.Nano() + int64(after)).Seconds()
}

// askForCopy asks the interpreter for a copy of itself, or to wait as one.
func (k *interpreter) askForCopy(ctx context.Context, frameOf func(id string) any) (command.Copied, error) {
	answer, err := k.wish(ctx, command.QueryCopy, frameOf)
	if err != nil {
		return command.Copied{}, err
	}
	return *answer.Copied, nil
}

// copier returns the sandbox if it can have copies of its interpreter, or says why it cannot.
func (k *interpreter) copier() (kernel.Copier, string) {
	if k.main != nil {
		return nil, refusedBeside
	}
	copier, ok := k.sandbox.(kernel.Copier)
	if !ok {
		return nil, refusedBackend
	}
	if w, ok := k.sandbox.(kernel.Watched); ok && w.MemoryUnheld() {
		return nil, refusedUnheld
	}
	return copier, ""
}

// idle returns an error unless the interpreter can be asked for something that it does between two cells. The caller holds mu.
func (k *interpreter) idle() error {
	if err := k.atRest(); err != nil {
		return err
	}
	if k.copies.aside != "" {
		return command.ErrKernelBusy
	}
	return nil
}

// atRest returns an error unless a copy can be woken now. The caller holds mu.
func (k *interpreter) atRest() error {
	switch {
	case k.phase == starting, k.run != nil, k.reserved != "":
		return command.ErrKernelBusy
	case k.phase != serving, k.cause != nil:
		return command.ErrNoKernel
	}
	return nil
}

// measureCopies returns the memory of the interpreter, and what the copies use in addition: pages that it has changed since. first
// says that the copy that has just been made is the only one, which holds none yet. What the interpreter says about its memory does
// not count: code of the user could make it say anything.
func (k *interpreter) measureCopies(copier kernel.Copier, first bool) (resident, held int64) {
	used, resident, err := copier.Memory()
	if err != nil {
		k.log.Warn("measure the memory of copies of an interpreter", "error", err)
		return 0, 0
	}
	if first {
		k.copies.shared = resident - used
	}
	return resident, min(max(0, used+k.copies.shared-resident), used)
}

// awaitLoss records that a copy has ended without having been dropped.
func (k *interpreter) awaitLoss(id string, process kernel.Process) {
	<-process.Done()
	defer k.records.Flush()
	k.mu.Lock()
	defer k.mu.Unlock()
	if c := k.copies.waiting[id]; c == nil || c.process != process || k.phase != serving {
		return
	}
	delete(k.copies.waiting, id)
	exit := process.Exit()
	if exit.Limit != "" {
		k.copies.lost++
	}
	k.records.Add("", record.CopyLost{ID: id, Reason: exitReason(exit)})
}

// wakeCopy replaces the interpreter by a copy.
func (k *interpreter) wakeCopy(ctx context.Context, id string) error {
	if err := k.copies.begin(ctx); err != nil {
		return fmt.Errorf("wake a copy of the interpreter: %w", err)
	}
	defer k.copies.end()
	return k.wake(ctx, id)
}

// resume has an interpreter that has stepped aside go on, and returns the name under which it waited, or "" if it did not.
func (k *interpreter) resume(ctx context.Context) (string, error) {
	if err := k.copies.begin(ctx); err != nil {
		return "", fmt.Errorf("resume the interpreter: %w", err)
	}
	defer k.copies.end()
	k.mu.Lock()
	id := k.copies.aside
	k.mu.Unlock()
	if id == "" {
		return "", nil
	}
	return id, k.wake(ctx, id)
}

// resumeForCell has an interpreter that has stepped aside go on since a cell has come: whoever was about to wake a copy has given
// up.
func (k *interpreter) resumeForCell() error {
	id, err := k.resume(context.Background())
	if err == nil && id != "" {
		k.mu.Lock()
		defer k.mu.Unlock()
		k.records.Add("", record.CopyLost{ID: id, Reason: reasonResumed})
	}
	return err
}

// wake replaces the interpreter by a copy. No cell is taken meanwhile. The caller has called begin of copies.
func (k *interpreter) wake(ctx context.Context, id string) error {
	select {
	case k.handing <- struct{}{}:
		defer func() { <-k.handing }()
	case <-ctx.Done():
		return fmt.Errorf("wake a copy of the interpreter: %w", context.Cause(ctx))
	}
	copier, _ := k.copier()
	next, old, err := k.beginWaking(id, copier)
	if err != nil || next == nil {
		return err
	}
	defer k.records.Flush()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), wakePatience) // half of it cannot be taken back
	defer cancel()
	defer trace.Step("copy is the interpreter")
	if err := copier.Wake(ctx, old, next.process); errors.Is(err, os.ErrProcessDone) {
		k.mu.Lock()
		defer k.mu.Unlock()
		k.copies.waking = nil
		k.become(old)
		return command.ErrNoCopy
	} else if err != nil {
		k.kill(ending{reason: reasonNoWake})
		return fmt.Errorf("wake a copy of the interpreter: %w", err)
	}
	select {
	case <-k.copies.waking:
	case <-next.process.Done():
		return fmt.Errorf("wake a copy of the interpreter: it ended: %s", exitReason(next.process.Exit()))
	case <-k.killed:
		return command.ErrNoKernel
	case <-ctx.Done():
		k.kill(ending{reason: reasonNoWake})
		return fmt.Errorf("wake a copy of the interpreter: it did not answer within %s; the kernel was stopped", wakePatience)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.copies.waking, k.copies.woken = nil, id
	k.comms.open, k.comms.waiting = next.comms, nil
	if aside := k.copies.aside; aside != "" && aside != id {
		go k.awaitLoss(aside, old) // an ordinary copy from here on
	}
	k.copies.aside = ""
	return nil
}

// become makes a process the one whose end is that of the kernel. The caller holds mu.
func (k *interpreter) become(process kernel.Process) {
	k.process = process
	if k.copies.changed != nil {
		close(k.copies.changed)
		k.copies.changed = nil
	}
}

// beginWaking makes the copy the process whose end is that of the kernel. From here on it is used up. It returns nil for the
// copy that was woken last.
func (k *interpreter) beginWaking(id string, copier kernel.Copier) (next *interpreterCopy, old kernel.Process, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if err := k.atRest(); err != nil {
		return nil, nil, err
	}
	if id == k.copies.woken {
		return nil, nil, nil
	}
	next = k.copies.waiting[id]
	if next == nil || copier == nil {
		return nil, nil, command.ErrNoCopy
	}
	delete(k.copies.waiting, id)
	k.closeAsks(nil, askInterrupted) // those of threads, which end
	old = k.process
	k.become(next.process)
	k.copies.waking = make(chan struct{})
	return next, old, nil
}

// woken handles the first frame of a copy that has become the interpreter. Its marks begin anew. The caller holds mu.
func (k *interpreter) woken(f frame.Ready) error {
	if k.copies.waking == nil || isClosed(k.copies.waking) {
		return errUnexpected
	}
	k.settle((*tap).flush) // what the process before it has written
	k.marks.begin(f.Mark)
	for _, t := range k.taps {
		t.seen = 0
	}
	close(k.copies.waking)
	return nil
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func (k *interpreter) dropCopy(ctx context.Context, id string) error {
	if err := k.copies.begin(ctx); err != nil {
		return fmt.Errorf("drop a copy of the interpreter: %w", err)
	}
	defer k.copies.end()
	k.mu.Lock()
	c, aside := k.copies.waiting[id], id == k.copies.aside
	if !aside {
		delete(k.copies.waiting, id)
	}
	k.mu.Unlock()
	switch {
	case c == nil:
		return nil
	case aside:
		return k.wake(ctx, id)
	}
	if err := c.process.Signal(syscall.SIGKILL); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("drop a copy of the interpreter: %w", err)
	}
	select {
	case <-c.process.Done():
		return nil
	case <-ctx.Done():
		return fmt.Errorf("drop a copy of the interpreter: %w", context.Cause(ctx))
	}
}

func (k *interpreter) copyIDs() []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Sorted(maps.Keys(k.copies.waiting))
}
