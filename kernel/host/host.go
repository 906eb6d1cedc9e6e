// Package host runs one live interpreter for each session and generation: it starts it in a sandbox, gives it cells, reads
// what comes out, interrupts, kills and accounts for it. It knows no session: it deals in keys.
package host

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"slices"
	"sync"
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

// HostConfig says how a host runs its kernels. Zero fields have the default.
type HostConfig struct {
	Backend        kernel.Backend
	Log            *slog.Logger
	InterruptGrace time.Duration // from a time-out's interrupt to the kill; 2 s
	JoinWindow     time.Duration // in which adjacent text is joined; 50 ms, negative: none
	StartTimeout   time.Duration // 60 s

	// SpoolDir is the directory, of this host alone, with a folder of records for each key; it outlives the host.
	// Without it records are kept in memory.
	SpoolDir string
	// SpoolBytes are the bytes of records of one kernel that are not acknowledged at which nothing is read from the
	// kernel any more, so that it waits; 256 MiB, in memory 8 MiB.
	SpoolBytes int64
	// Pool is how many sandboxes are kept ready for each environment that is warm; 2, negative: none.
	Pool int
}

// Host runs kernels and keeps what they say as numbered records until these are acknowledged. Nothing that happens
// inside a kernel can block it or its other kernels, and no method waits for a kernel's consumer. It is safe for
// concurrent use.
type Host struct {
	cfg   HostConfig
	pool  *pool
	large *semaphore.Weighted // the budget for large frames

	mu       sync.Mutex // guards kernels and closed
	kernels  map[record.Key]*interpreter
	closed   bool
	onForget func()
}

// NewHost makes a host without kernels.
func NewHost(cfg HostConfig) *Host {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.InterruptGrace == 0 {
		cfg.InterruptGrace = 2 * time.Second
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
		cfg.StartTimeout = time.Minute
	}
	return &Host{
		cfg: cfg, pool: newPool(cfg.Backend, cfg.Pool, cfg.Log), large: frame.NewLargeBudget(), kernels: map[record.Key]*interpreter{},
	}
}

// Start makes a sandbox, seals it and runs an interpreter in it; it returns when that can execute. On an error
// nothing is left. ctx bounds the start, not the kernel's life. A key can be used once, until its Died record is
// acknowledged: else it is ErrKernelExists. With a SpoolDir the session must be a plain word, as ids are.
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
	info, err := k.start(ctx, h.pool, env, spec)
	if err != nil {
		h.remove(k)
		return command.KernelInfo{}, fmt.Errorf("start kernel: %w", err)
	}
	return info, nil
}

// Next waits for records numbered above after and returns those that are ready, in order, as many as Read gives. It
// is io.EOF when after is the last one, which is a Died record, and ErrNoKernel for a key that is not known or was
// forgotten. Records stay until Ack; what was acknowledged is left out. ctx bounds the wait.
func (h *Host) Next(ctx context.Context, key record.Key, after uint64) ([]record.Record, error) {
	encoded, _, err := h.Read(ctx, key, after)
	if err != nil {
		return nil, err
	}
	return record.Decode(key, encoded)
}

// Read is Next with the records as Append encodes them, and the number of the last one. They take at most about
// 1 MiB, if more than one. The bytes are the caller's.
func (h *Host) Read(ctx context.Context, key record.Key, after uint64) (encoded []byte, last uint64, err error) {
	batch, err := h.read(ctx, key, after, false)
	return batch.Bytes(), batch.Last(), err
}

// ReadBatch is Read for who passes the records on: a large record need not be in memory for that.
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
	default: // it is forgotten when nothing of it is left
	}
}

// Stop kills the kernel and returns when no process of it is left, or with an error when ctx ends first; the kill
// goes on then. The record Died with that reason is the last one, unless the kernel died by itself before. It is
// idempotent, and nil for a key that is not known.
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

// Attach tells what a new consumer of a kernel must know; of one that starts, when it can execute. It is ErrNoKernel
// for a key that is not known, and for a kernel that fails to start. A kernel that has died is known until its last
// record is acknowledged. ctx bounds the wait.
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

// OnForget has f called after each kernel that is forgotten. It is set once, before the first kernel; f must not block.
func (h *Host) OnForget(f func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.onForget = f
}

// Kernels lists all keys that are known: of kernels that live, and of those whose last record is not acknowledged.
func (h *Host) Kernels(context.Context) ([]record.Key, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Collect(maps.Keys(h.kernels)), nil
}

// Warm has the libraries of these environments imported and keeps kernels of them ready, in the background. It lets
// go of what it was told before.
func (h *Host) Warm(envs []kernel.Environment) { h.pool.keep(envs) }

// PoolStats tells how the pool of ready kernels does.
func (h *Host) PoolStats() PoolStats { return h.pool.stats() }

// Running lists the kernels that live, starting ones included.
func (h *Host) Running() []record.Key { return slices.Collect(maps.Keys(h.Handles())) }

// Handles are the handles of the sandboxes of the kernels that live; that of a starting one may be zero.
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

// Close stops all kernels with ReasonShutdown and refuses new ones. It returns when no process is left, or with an
// error when ctx ends first. Records can still be had and acknowledged afterwards; what is not stays in the SpoolDir.
func (h *Host) Close(ctx context.Context) error {
	h.mu.Lock()
	h.closed = true
	keys := slices.Collect(maps.Keys(h.kernels))
	h.mu.Unlock()
	errs := make([]error, len(keys)+1)
	var all sync.WaitGroup
	all.Go(func() { errs[len(keys)] = h.pool.close(ctx) })
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

// remove forgets a kernel, of which nothing is left, and its records.
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

// Sweeper is implemented by backends that can find what sandboxes of a crashed program left on the machine.
type Sweeper interface {
	Sweep(ctx context.Context, handles []kernel.Handle) error
}

// Sweep removes what the sandboxes of these handles, and others of this instance that are not in use, left behind.
func (h *Host) Sweep(ctx context.Context, handles []kernel.Handle) error {
	if s, ok := h.cfg.Backend.(Sweeper); ok {
		return s.Sweep(ctx, handles)
	}
	return nil
}
