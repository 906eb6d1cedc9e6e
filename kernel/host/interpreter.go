package host

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"
	"golang.org/x/sys/unix"

	"talaria/kernel"
	"talaria/kernel/command"
	"talaria/kernel/frame"
	"talaria/kernel/network"
	"talaria/kernel/python"
	"talaria/kernel/record"
	"talaria/kernel/spool"
	"talaria/kernel/trace"
)

const (
	// controlGrace is how long a process may outlive its control stream. A process that dies closes the stream before
	// its parent can tell how it died, which may take long on a busy machine; only a process whose user code has
	// meddled with the stream lives on without it.
	controlGrace = 2 * time.Second
	// closeGrace is how long the last record waits for the sandbox to close.
	closeGrace = 50 * time.Millisecond
	// drainGrace bounds how long the rest of a closed sandbox's streams is read.
	drainGrace = time.Second
	// maxStderr is how much of the stderr of a failed start goes into its error.
	maxStderr = 2 << 10
)

// interpreter is one kernel from its start to its last record.
//
// Its goroutines: one reads the control stream, one reads each pipe, and one waits for the end and cleans up.
// Everything they share is guarded by mu. Locks are taken in the order mu, then that of records or frames. Records are
// added with mu held and flushed without it.
type interpreter struct {
	key     record.Key
	engine  string
	cfg     *HostConfig
	log     *slog.Logger
	records *spool.Outbox
	large   *semaphore.Weighted     // the host's budget for large frames
	abort   context.CancelCauseFunc // aborts the start

	main     *interpreter      // whose sandbox it shares; nil if it has its own
	sandbox  kernel.Sandbox    // set before the goroutines start
	frames   *frame.Writer     // the same
	first    kernel.Process    // the same; its streams are those of every interpreter that takes its place
	watch    *watcher          // the same, main's if there is one; nil if there is nothing to watch
	taps     []*tap            // the same; their contents are guarded by mu
	proxies  map[string]string // the same; variables for programs that run inside
	spoolDir string            // the same; "" without one

	noInstalls string // the same; why packages cannot be installed, or ""
	noTools    string // the same; why tools cannot be called, or ""
	noAfter    string // the same; why nothing can be asked for that is done after a cell, or ""

	forgotten    func() // called at the end if forget is set
	forget       atomic.Bool
	neverStarted atomic.Bool
	ready        chan struct{} // closed when the runner can execute
	killed       chan struct{} // closed when cause is set
	controlEnded chan struct{} // closed when the control stream is no longer read
	gone         chan struct{} // closed when nothing of the kernel is left
	readers      sync.WaitGroup

	wayChanging chan struct{} // holds one value while the network is being changed

	handing chan struct{} // holds one value while an execution is handed over, including its measurements

	mu           sync.Mutex // guards the fields below; held for reads of pipes that cannot block, and for no other I/O
	phase        phase
	started      time.Time
	beside       map[*interpreter]struct{} // that share its sandbox
	terminals    []*terminal
	opening      int // terminals that are not among terminals yet
	lastTerminal int
	programs     programs         // programs.go
	way          *network.Network // egress of the sandbox; nil without
	wayMode      string
	wayHow       string         // for people
	process      kernel.Process // nil until launched; the interpreter now
	copies       copies         // copies.go
	limits       kernel.Limits
	cause        *ending // why we end it; nil if it ended by itself
	marks        marks
	dropped      uint64    // frames that were not valid at this point
	given        recentIDs // ids of the executions that were handed over, or are about to be
	reserved     string    // id of the execution that is about to run
	early        bool      // the reserved execution has already been interrupted
	run          *running  // the running execution
	lastID       string    // id of the execution that runs, or ran last
	asks         []ask     // the open asks, in the order in which they were opened
	installsPaid time.Time // when the installations so far would be due at a rate of one every installPause
	comms        comms
	queries      map[string]query // the waiting queries, by request id
	posed        uint64           // queries so far
}

type phase int

const (
	starting phase = iota // until the ready frame
	serving
	leaving // accepts no more executions
	over    // the last record is out
)

// ending is why a kernel is killed.
type ending struct {
	reason   string
	timedOut bool
	limit    *record.LimitHit // that was passed
}

func newInterpreter(
	key record.Key, engine string, cfg *HostConfig, large *semaphore.Weighted, abort context.CancelCauseFunc,
) *interpreter {
	log := cfg.Log.With("session", key.Session, "generation", key.Generation)
	return &interpreter{
		key: key, engine: cmp.Or(engine, python.EngineStdlib), cfg: cfg, large: large, abort: abort, log: log,
		records:      spool.NewOutbox(cfg.SpoolBytes, cfg.JoinWindow, log),
		ready:        make(chan struct{}),
		killed:       make(chan struct{}),
		controlEnded: make(chan struct{}),
		gone:         make(chan struct{}),
		handing:      make(chan struct{}, 1),
		copies:       copies{changing: make(chan struct{}, 1)},
		wayChanging:  make(chan struct{}, 1),
	}
}

// start returns when the runner is ready. After an error nothing is left.
func (k *interpreter) start(ctx context.Context, h *Host, env kernel.Environment, spec kernel.Spec) (command.KernelInfo, error) {
	trace.Step("start received")
	if err := k.launch(ctx, h, env, spec); err != nil {
		k.ownWatch().close()
		k.disconnect()
		k.leaveMain()
		if k.sandbox != nil {
			err = errors.Join(err, k.sandbox.Close())
		}
		k.neverStarted.Store(true)
		k.records.End()
		close(k.gone)
		return command.KernelInfo{}, err
	}
	go k.supervise()
	select {
	case <-k.ready:
		trace.Step("interpreter ready")
		return k.info(), nil
	case <-k.gone:
		k.neverStarted.Store(true)
		if k.cause != nil {
			return command.KernelInfo{}, fmt.Errorf("stopped while it started: %s", k.cause.reason)
		}
		reason := exitReason(k.process.Exit())
		return command.KernelInfo{}, k.withStderr(fmt.Errorf("the runner ended before it was ready: %s", reason))
	case <-ctx.Done():
		k.neverStarted.Store(true)
		k.kill(ending{reason: "start"})
		<-k.gone
		return command.KernelInfo{}, k.withStderr(context.Cause(ctx))
	}
}

// launch runs the process and the goroutines that serve it. Errors of a backend name the step.
func (k *interpreter) launch(ctx context.Context, h *Host, env kernel.Environment, spec kernel.Spec) error {
	dir, err := spool.Folder(k.cfg.SpoolDir, k.key)
	if err != nil {
		return err
	}
	k.spoolDir = dir
	opened := make(chan error, 1)
	go func() { // it takes a fifth of a millisecond on a disk
		err := k.records.Open(dir)
		if errors.Is(err, fs.ErrExist) {
			err = fmt.Errorf("%w: %w", command.ErrKernelExists, err)
		}
		opened <- err
	}()
	err = k.prepare(ctx, h, env, spec)
	if err := errors.Join(<-opened, err); err != nil {
		return err
	}
	k.noInstalls, k.noTools, k.noAfter = spec.NoInstalls, spec.NoTools, spec.NoAfter
	process, err := k.sandbox.Start(ctx, kernel.Program{Env: k.runnerEnv(spec.Loss), Dir: spec.Dir, Beside: k.main != nil})
	if err != nil {
		return fmt.Errorf("start runner: %w", err)
	}
	trace.Step("interpreter started")
	if process.Control() == nil {
		return errors.New("start runner: it has no control stream")
	}
	if err := k.openTaps(process); err != nil {
		closeStreams(process)
		return err
	}
	k.frames, k.first = frame.NewWriter(process.Control()), process
	k.mu.Lock()
	k.process = process
	k.mu.Unlock()
	k.readers.Go(k.readControl)
	for _, t := range k.taps {
		k.readers.Go(func() { k.readTap(t) })
	}
	return nil
}

// prepare provides a sandbox that is sealed for the session, with what belongs to it.
func (k *interpreter) prepare(ctx context.Context, h *Host, env kernel.Environment, spec kernel.Spec) error {
	if spec.Beside != "" {
		main, err := h.owner(spec.Beside)
		if err != nil {
			return err
		}
		return k.share(main)
	}
	err := k.seal(ctx, h.pool, env, spec)
	trace.Step("sandbox sealed")
	if err != nil {
		return err
	}
	if k.watch, err = newWatcher(k, k.sandbox, spec.Workspace, spec.Disk, k.cfg.InterruptGrace, k.log); err != nil {
		return err
	}
	k.proxies, err = k.connect(ctx, spec.Network)
	return err
}

// lossVariable tells the runner when and why the variables of an earlier kernel were lost. The runner removes it from the
// environment.
const lossVariable = "TALARIA_INTERNAL_LOSS"

// runnerEnv returns the variables of the runner alone and those of all programs inside.
func (k *interpreter) runnerEnv(loss string) map[string]string {
	env := map[string]string{}
	for name, value := range map[string]string{noInstallsVariable: k.noInstalls, lossVariable: loss} {
		if value != "" {
			env[name] = value
		}
	}
	maps.Copy(env, k.proxies)
	return env
}

// seal returns a sandbox that is sealed for the session. It replaces an unusable one from the pool by a new one.
func (k *interpreter) seal(ctx context.Context, p *pool, env kernel.Environment, spec kernel.Spec) error {
	if !spec.Strict {
		if sandbox := p.take(env); sandbox != nil {
			trace.Step("sandbox taken from the pool")
			k.use(sandbox, spec.Limits)
			err := sandbox.Seal(ctx, spec)
			if err == nil || ctx.Err() != nil {
				return err
			}
			k.log.Warn("could not seal a sandbox of the pool; creating a new one", "error", err)
			if err := sandbox.Close(); err != nil {
				k.log.Error("close sandbox", "error", err)
			}
		}
	}
	sandbox, err := p.backend.Create(ctx, env, spec.Strict)
	if err != nil {
		return err
	}
	k.use(sandbox, spec.Limits)
	return sandbox.Seal(ctx, spec)
}

func (k *interpreter) use(sandbox kernel.Sandbox, limits kernel.Limits) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.sandbox, k.limits = sandbox, limits
}

func (k *interpreter) openTaps(process kernel.Process) error {
	for _, pipe := range []struct {
		name string
		file *os.File
	}{{"stdout", process.Stdout()}, {"stderr", process.Stderr()}} {
		if pipe.file == nil {
			continue
		}
		t, err := newTap(pipe.file, &k.marks, func(text []byte) { k.records.Text(k.owner(""), pipe.name, text) })
		if err != nil {
			return fmt.Errorf("open %s: %w", pipe.name, err)
		}
		k.taps = append(k.taps, t)
	}
	return nil
}

func closeStreams(p kernel.Process) {
	_ = p.Control().Close()
	for _, file := range []*os.File{p.Stdout(), p.Stderr()} {
		if file != nil {
			_ = file.Close()
		}
	}
}

// readTap reads a pipe until no more can come.
func (k *interpreter) readTap(t *tap) {
	for k.records.WaitRoom() && t.wait(&k.mu) {
		k.records.Flush()
	}
	k.records.Flush()
}

// kill ends the kernel for that reason, unless it has ended or is already being killed. It does not wait.
func (k *interpreter) kill(why ending) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.killLocked(why)
}

func (k *interpreter) killLocked(why ending) {
	if k.cause != nil || k.phase == over {
		return
	}
	if k.process != nil {
		select {
		case <-k.process.Done():
			return
		default:
		}
	}
	k.cause = &why
	close(k.killed)
	k.abort(fmt.Errorf("stopped while it started: %s", why.reason))
}

// supervise waits for the end of the kernel, whatever its cause, and leaves nothing but its records.
func (k *interpreter) supervise() {
	if w := k.ownWatch(); w != nil {
		go w.run()
	}
	k.awaitEnd()
	ended := time.Now()
	full := k.endedByFullDisk()
	k.ownWatch().stop()
	k.leave()
	k.records.Lift()
	after := k.measure(lastMeasureTimeout)
	closed := make(chan error, 1)
	go func() { closed <- k.sandbox.Close() }()
	err, isClosed := k.awaitClosed(closed)
	k.finish(ended, after, full)
	k.frames.Close()
	closeStreams(k.first)
	k.readers.Wait()
	k.frames.Wait()
	if !isClosed {
		err = <-closed
	}
	if err != nil {
		k.log.Error("close sandbox", "error", err)
	}
	k.disconnect()
	k.closeTerminals()
	k.closePrograms()
	k.ownWatch().wait()
	k.leaveMain()
	k.forgetIfWanted()
	close(k.gone)
	k.forgetIfWanted() // in case the last record was acknowledged in between
}

func (k *interpreter) forgetIfWanted() {
	if k.forget.Load() {
		k.forgotten()
	}
}

// present returns the process that is the interpreter now.
func (k *interpreter) present() kernel.Process {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.process
}

// presentUntil returns the process that is the interpreter now, and a channel that is closed when another one is.
func (k *interpreter) presentUntil() (kernel.Process, <-chan struct{}) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.copies.changed == nil {
		k.copies.changed = make(chan struct{})
	}
	return k.process, k.copies.changed
}

// awaitEnd returns when the process has ended or is to be killed.
func (k *interpreter) awaitEnd() {
	for {
		process, changed := k.presentUntil()
		select {
		case <-changed:
			continue
		case <-process.Done():
			if k.present() == process {
				return
			}
			continue
		case <-k.killed:
			return
		case <-k.controlEnded:
		}
		break
	}
	grace := time.NewTimer(controlGrace)
	defer grace.Stop()
	select {
	case <-k.present().Done():
	case <-k.killed:
	case <-grace.C:
		k.kill(ending{reason: "control_closed"})
	}
}

func (k *interpreter) leave() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.phase = leaving
	if k.run != nil {
		k.run.stopTimers()
	}
}

// awaitClosed waits for the sandbox to close and for everything written inside to be read: with no process left, every
// stream reaches its end. It does not wait for a sandbox that takes too long.
func (k *interpreter) awaitClosed(closed <-chan error) (err error, isClosed bool) {
	grace := time.NewTimer(closeGrace)
	defer grace.Stop()
	select {
	case err = <-closed:
	case <-grace.C:
		return nil, false
	}
	read := make(chan struct{})
	go func() {
		k.readers.Wait()
		<-k.present().Done()
		close(read)
	}()
	grace.Reset(drainGrace)
	select {
	case <-read:
	case <-grace.C:
		k.log.Warn("streams of a closed sandbox are still open")
	}
	return err, true
}

// finish emits the last records. full is the disk limit that ended the kernel, or nil.
func (k *interpreter) finish(ended time.Time, after kernel.Usage, full *record.LimitHit) {
	defer k.records.Flush()
	k.mu.Lock()
	defer k.mu.Unlock()
	k.settle((*tap).flush)
	died := record.Died{Exit: kernel.Exit{Lost: true}}
	select {
	case <-k.process.Done():
		died.Exit = k.process.Exit()
	default:
	}
	died.Reason = exitReason(died.Exit)
	if k.mainEnds() && died.Exit.Limit == "" {
		died.Reason = ReasonBeside
	}
	if k.cause != nil {
		died.Reason = k.cause.reason
	}
	if k.cause == nil && died.Exit.Limit == kernel.LimitMemory {
		limit := k.limitsLocked().MemoryBytes
		used := max(peak(after), limit) // it was reached, whatever can still be measured
		died.Limit = &record.LimitHit{Name: "memory_bytes", Value: limit, Used: used}
	}
	if k.cause == nil && full != nil {
		died.Reason, died.Limit = kernel.LimitDisk, full
	}
	if k.cause != nil && k.cause.limit != nil {
		died.Limit = k.cause.limit
	}
	execution := ""
	if run := k.run; run != nil {
		execution = run.ID
		died.TimedOut = k.cause != nil && k.cause.timedOut
		died.Usage = run.usage(ended, after)
		if died.TimedOut {
			k.closeAsks(run, askTimedOut)
		}
	}
	k.closeAsks(nil, askInterrupted)
	k.records.Add(execution, died)
	k.records.End()
	k.run, k.phase = nil, over
	k.log.Debug("kernel ended", "reason", died.Reason, "frames_dropped", k.dropped)
}

// exitReason says how a process ended, in the terms of the wire format.
func exitReason(e kernel.Exit) string {
	switch {
	case e.Limit != "":
		return e.Limit
	case e.Lost:
		return "sandbox_lost"
	case e.Signal != 0:
		if name := unix.SignalName(e.Signal); name != "" {
			return "signal:" + name
		}
		return fmt.Sprintf("signal:%d", e.Signal)
	}
	return fmt.Sprintf("exit:%d", e.Code)
}

// withStderr adds the end of the runner's stderr to the error.
func (k *interpreter) withStderr(err error) error {
	text := strings.TrimSpace(k.records.Tail("stderr", maxStderr))
	if text == "" {
		return err
	}
	return fmt.Errorf("%w; its stderr ends with: %s", err, text)
}

// info returns what is known about a kernel that has become ready.
func (k *interpreter) info() command.KernelInfo {
	k.mu.Lock()
	sandbox, started := k.sandbox, k.started
	k.mu.Unlock()
	return command.KernelInfo{Layers: k.layers(), Handle: sandbox.Handle(), Started: started, Engine: k.engine}
}

// attachment waits until no execution is being handed over.
func (k *interpreter) attachment(ctx context.Context) (command.Attachment, error) {
	select {
	case k.handing <- struct{}{}:
		defer func() { <-k.handing }()
	case <-ctx.Done():
		return command.Attachment{}, fmt.Errorf("attach: %w", context.Cause(ctx))
	}
	a := command.Attachment{Info: k.info()}
	k.mu.Lock()
	defer k.mu.Unlock()
	a.Last, a.Given = k.records.Newest(), k.lastID
	for _, open := range k.asks {
		a.Asks = append(a.Asks, open.OpenAsk)
	}
	return a, nil
}

// usable returns the sandbox while the kernel lives, else nil.
func (k *interpreter) usable() kernel.Sandbox {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.phase != serving {
		return nil
	}
	return k.sandbox
}

func (k *interpreter) handle() kernel.Handle {
	k.mu.Lock()
	sandbox := k.sandbox
	k.mu.Unlock()
	if sandbox == nil {
		return kernel.Handle{}
	}
	return sandbox.Handle()
}

func (k *interpreter) changeLimits(ctx context.Context, limits kernel.Limits) ([]string, error) {
	sandbox := k.usable()
	if sandbox == nil {
		return nil, command.ErrNoKernel
	}
	changer, ok := sandbox.(kernel.LimitChanger)
	if !ok {
		return nil, fmt.Errorf("change limits: %w", kernel.ErrNeedsReset)
	}
	if err := changer.ChangeLimits(ctx, limits); err != nil {
		return nil, fmt.Errorf("change limits: %w", err)
	}
	k.mu.Lock()
	k.limits = limits
	k.mu.Unlock()
	k.watch.look()
	return k.layers(), nil
}

// usage returns what the sandbox uses now.
func (k *interpreter) usage(ctx context.Context) (kernel.Usage, error) {
	sandbox := k.usable()
	if sandbox == nil {
		return kernel.Usage{}, command.ErrNoKernel
	}
	usage, err := sandbox.Usage(ctx)
	if k.watch != nil {
		usage.DiskBytes = k.watch.usedDisk()
	}
	return usage, err
}
