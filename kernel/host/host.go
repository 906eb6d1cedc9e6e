// Package host runs one live interpreter for each session and generation: it starts it in a sandbox, gives it cells,
// reads its output, interrupts it, kills it and accounts for its usage. It also runs terminals, other programs in a kernel's sandbox,
// and programs without a session, and it keeps sandboxes ready. It knows nothing of sessions: it works with keys.
package host

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"

	"talaria/kernel"
	"talaria/kernel/command"
	"talaria/kernel/frame"
	"talaria/kernel/record"
	"talaria/kernel/spool"
)

// ReasonShutdown is the reason of kernels that end with their host.
const ReasonShutdown = "server_shutdown"

// DefaultInterruptGrace is the time from the interrupt at a timeout to the kill, unless a host is configured otherwise.
const DefaultInterruptGrace = 2 * time.Second

// HostConfig says how a host runs its kernels. Zero fields have defaults.
type HostConfig struct {
	Backend        kernel.Backend
	Log            *slog.Logger
	InterruptGrace time.Duration // from the interrupt at a timeout to the kill; 0: DefaultInterruptGrace
	JoinWindow     time.Duration // in which adjacent text is joined; 50 ms, negative: none
	StartTimeout   time.Duration // 2 min: on an overloaded machine a start takes up to a hundred times as long as usual

	// SpoolDir is a directory, used by this host alone, with a folder of records for each key; it outlives the host.
	// If it is empty, records are kept in memory.
	SpoolDir string
	// SpoolBytes is how many bytes of one kernel's records may be unacknowledged before the host stops reading from
	// the kernel, so that the kernel waits; 256 MiB, in memory 8 MiB.
	SpoolBytes int64
	// Pool is how many sandboxes are kept ready for each warm environment; 2, negative: none.
	Pool int
	// RunUID is the first of the [RunUIDs] user ids that one-shot runs have; 0: the host's own user, which is not root.
	RunUID int
}

// Host runs kernels and keeps their output as numbered records until these are acknowledged. Nothing that happens
// inside a kernel can block the host or its other kernels, and no method waits for a kernel's consumer. It is safe for
// concurrent use.
type Host struct {
	cfg   HostConfig
	pool  *pool
	runs  *runs
	large *semaphore.Weighted // the budget for large frames

	mu       sync.Mutex // guards kernels and closed
	kernels  map[record.Key]*interpreter
	closed   bool
	onForget func()
}

// NewHost makes a host with no kernels.
func NewHost(cfg HostConfig) *Host {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.InterruptGrace == 0 {
		cfg.InterruptGrace = DefaultInterruptGrace
	}
	switch {
	case cfg.SpoolBytes != 0:
	case cfg.SpoolDir == "":
		cfg.SpoolBytes = 8 << 20
	default:
		cfg.SpoolBytes = 256 << 20
	}
	if cfg.Pool == 0 {
		cfg.Pool = 2
	}
	switch {
	case cfg.JoinWindow == 0:
		cfg.JoinWindow = 50 * time.Millisecond
	case cfg.JoinWindow < 0:
		cfg.JoinWindow = 0
	}
	if cfg.StartTimeout == 0 {
		cfg.StartTimeout = 2 * time.Minute
	}
	return &Host{
		cfg: cfg, pool: newPool(cfg.Backend, cfg.Pool, cfg.Log), runs: newRuns(cfg.Backend, cfg.Pool, cfg.RunUID, cfg.Log), large: frame.NewLargeBudget(), kernels: map[record.Key]*interpreter{},
	}
}

// Start makes a sandbox, seals it and runs an interpreter in it, or runs it in the sandbox of another kernel; it returns
// when the interpreter can execute. After an error nothing is left. ctx bounds the start, not the kernel's life. A key
// can be used only once until its Died record is acknowledged; otherwise Start returns ErrKernelExists. With a SpoolDir
// the session must be a plain word, as ids are.
func (h *Host) Start(ctx context.Context, key record.Key, env kernel.Environment, spec kernel.Spec) (command.KernelInfo, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	ctx, stop := context.WithTimeoutCause(ctx, h.cfg.StartTimeout,
		fmt.Errorf("the kernel was not ready after %v", h.cfg.StartTimeout))
	defer stop()
	k := newInterpreter(key, env.Engine, &h.cfg, h.large, cancel)
	k.forgotten = func() { h.remove(k) }
	if err := h.add(k); err != nil {
		return command.KernelInfo{}, fmt.Errorf("start kernel: %w", err)
	}
	defer h.pool.starting()()
	info, err := k.start(ctx, h, env, spec)
	if err != nil {
		h.remove(k)
		return command.KernelInfo{}, fmt.Errorf("start kernel: %w", err)
	}
	return info, nil
}

// Next waits for records with numbers above after and returns those that are ready, in order, as many as Read returns.
// It returns io.EOF if after is the number of the last one, which is a Died record, and ErrNoKernel for a key that is
// unknown or forgotten. Records stay until Ack; acknowledged ones are left out. ctx bounds the wait.
func (h *Host) Next(ctx context.Context, key record.Key, after uint64) ([]record.Record, error) {
	encoded, _, err := h.Read(ctx, key, after)
	if err != nil {
		return nil, err
	}
	return record.Decode(key, encoded)
}

// Read is Next with the records as Append encodes them, and the number of the last one. They take at most about 1 MiB,
// if more than one. The caller owns the bytes.
func (h *Host) Read(ctx context.Context, key record.Key, after uint64) (encoded []byte, last uint64, err error) {
	batch, err := h.read(ctx, key, after, false)
	return batch.Bytes(), batch.Last(), err
}

// ReadBatch is Read for callers that pass the records on: that does not need a large record in memory.
func (h *Host) ReadBatch(ctx context.Context, key record.Key, after uint64) (spool.Batch, error) {
	return h.read(ctx, key, after, true)
}

func (h *Host) read(ctx context.Context, key record.Key, after uint64, large bool) (spool.Batch, error) {
	k := h.kernel(key)
	if k == nil {
		return spool.EmptyBatch(after), command.ErrNoKernel
	}
	batch, err := k.records.Next(ctx, after, large)
	if k.neverStarted.Load() || errors.Is(err, fs.ErrClosed) {
		return spool.EmptyBatch(after), errors.Join(command.ErrNoKernel, batch.Close())
	}
	return batch, err
}

// Ack drops the records up to kseq. With the Died record the key is forgotten.
func (h *Host) Ack(key record.Key, kseq uint64) {
	k := h.kernel(key)
	if k == nil || !k.records.Acknowledge(kseq) {
		return
	}
	k.forget.Store(true)
	select {
	case <-k.gone:
		h.remove(k)
	default: // it is forgotten once nothing of it is left
	}
}

// Stop kills the kernel and returns when none of its processes is left, or with an error if ctx ends first; then the
// kill goes on. The last record is Died with that reason, unless the kernel had already died by itself. Stop is
// idempotent, and returns nil for an unknown key.
func (h *Host) Stop(ctx context.Context, key record.Key, reason string) error {
	k := h.kernel(key)
	if k == nil {
		return nil
	}
	k.kill(ending{reason: reason})
	select {
	case <-k.gone:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("stop kernel: %w", context.Cause(ctx))
	}
}

// Attach returns what a new consumer of a kernel must know; for a kernel that is starting, it waits until that can
// execute. It returns ErrNoKernel for an unknown key, and for a kernel that fails to start. A kernel that has died is
// known until its last record is acknowledged. ctx bounds the wait.
func (h *Host) Attach(ctx context.Context, key record.Key) (command.Attachment, error) {
	k := h.kernel(key)
	if k == nil {
		return command.Attachment{}, command.ErrNoKernel
	}
	select {
	case <-k.ready:
		return k.attachment(ctx)
	default:
	}
	select {
	case <-k.ready:
		return k.attachment(ctx)
	case <-k.gone:
		return command.Attachment{}, command.ErrNoKernel
	case <-ctx.Done():
		return command.Attachment{}, fmt.Errorf("attach to a kernel that starts: %w", context.Cause(ctx))
	}
}

// OnForget makes the host call f after each kernel that it forgets. It is called once, before the first kernel; f must
// not block.
func (h *Host) OnForget(f func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.onForget = f
}

// Kernels lists all known keys: of living kernels, and of those whose last record is not acknowledged.
func (h *Host) Kernels(context.Context) ([]record.Key, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Collect(maps.Keys(h.kernels)), nil
}

// Usages returns what each of these kernels uses now. It leaves out kernels that are gone or still starting.
func (h *Host) Usages(ctx context.Context, keys []record.Key) ([]command.KernelUsage, error) {
	read := make([]*command.KernelUsage, len(keys))
	var next atomic.Int64
	var readers sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), len(keys)) {
		readers.Go(func() {
			for i := next.Add(1) - 1; i < int64(len(keys)) && ctx.Err() == nil; i = next.Add(1) - 1 {
				k := h.kernel(keys[i])
				if k == nil {
					continue
				}
				if usage, err := k.usage(ctx); err == nil {
					read[i] = &command.KernelUsage{Key: keys[i], Usage: usage}
				}
			}
		})
	}
	readers.Wait()
	var usages []command.KernelUsage
	for _, usage := range read {
		if usage != nil {
			usages = append(usages, *usage)
		}
	}
	return usages, context.Cause(ctx)
}

// Warm imports the libraries of these environments and keeps kernels of them ready, in the background. It replaces the
// previous list.
func (h *Host) Warm(envs []kernel.Environment) { h.pool.keep(envs) }

// PoolStats reports on the pool of ready kernels.
func (h *Host) PoolStats() PoolStats { return h.pool.stats() }

// Running lists the living kernels, including those that are starting.
func (h *Host) Running() []record.Key { return slices.Collect(maps.Keys(h.Handles())) }

// Handles returns the sandbox handles of the living kernels; the handle of a starting one may be zero.
func (h *Host) Handles() map[record.Key]kernel.Handle {
	h.mu.Lock()
	kernels := maps.Clone(h.kernels)
	h.mu.Unlock()
	handles := map[record.Key]kernel.Handle{}
	for key, k := range kernels {
		select {
		case <-k.gone:
		default:
			handles[key] = k.handle()
		}
	}
	return handles
}

// Close stops all kernels and runs with ReasonShutdown and refuses new ones. It returns when no process is left, or with an
// error if ctx ends first. Records can still be read and acknowledged afterwards; unacknowledged ones stay in the
// SpoolDir.
func (h *Host) Close(ctx context.Context) error {
	h.mu.Lock()
	h.closed = true
	keys := slices.Collect(maps.Keys(h.kernels))
	h.mu.Unlock()
	errs := make([]error, len(keys)+2)
	var all sync.WaitGroup
	all.Go(func() { errs[len(keys)] = h.pool.close(ctx) })
	all.Go(func() { errs[len(keys)+1] = h.runs.close(ctx) })
	for i, key := range keys {
		all.Go(func() { errs[i] = h.Stop(ctx, key, ReasonShutdown) })
	}
	all.Wait()
	return errors.Join(errs...)
}

func (h *Host) add(k *interpreter) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return command.ErrHostClosed
	}
	if h.kernels[k.key] != nil {
		return command.ErrKernelExists
	}
	h.kernels[k.key] = k
	return nil
}

// remove forgets a kernel that has ended completely, and its records.
func (h *Host) remove(k *interpreter) {
	if err := k.records.Discard(); err != nil {
		k.log.Error("remove the records of a kernel", "error", err)
	}
	h.mu.Lock()
	if h.kernels[k.key] == k {
		delete(h.kernels, k.key)
	}
	told := h.onForget
	h.mu.Unlock()
	if told != nil {
		told()
	}
}

func (h *Host) kernel(key record.Key) *interpreter {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.kernels[key]
}

// Sweeper is implemented by backends that can find what the sandboxes of a crashed program left on the machine.
type Sweeper interface {
	Sweep(ctx context.Context, handles []kernel.Handle) error
}

// Sweep removes what was left behind by the sandboxes of these handles, and by other unused ones of this instance.
func (h *Host) Sweep(ctx context.Context, handles []kernel.Handle) error {
	if s, ok := h.cfg.Backend.(Sweeper); ok {
		return s.Sweep(ctx, handles)
	}
	return nil
}
