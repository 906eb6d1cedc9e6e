package host

import (
	"context"
	"errors"
	"log/slog"
	"reflect"
	"slices"
	"sync"
	"time"

	"talaria/kernel"
)

const (
	firstPoolPause = 100 * time.Millisecond // after something that failed, and
	lastPoolPause  = time.Minute            // the longest pause
	// maxPoolYield bounds how long a sandbox for the pool is put off while kernels start.
	maxPoolYield = 50 * time.Millisecond
	// takenPause leaves the machine to the first cell of the kernel that took a sandbox, before the next one is made.
	takenPause = 100 * time.Millisecond
)

// PoolStats reports on the pool of ready sandboxes.
type PoolStats struct {
	Environments []EnvironmentPool
	Hits, Misses int64 // starts that found one ready, and starts that could have used one but found none
}

// EnvironmentPool is the part of the pool for one environment.
type EnvironmentPool struct {
	Name          string
	Warm          bool // its libraries are imported, as far as the backend supports that
	Ready, Wanted int
}

// pool keeps parked sandboxes of the environments that are to be warm. Each environment has a goroutine of its own
// that makes them one at a time. It is safe for concurrent use.
type pool struct {
	backend kernel.Backend
	size    int // for each environment
	log     *slog.Logger
	ctx     context.Context // of everything that runs in the background
	cancel  context.CancelFunc
	fillers sync.WaitGroup

	mu           sync.Mutex // guards the fields below
	shelves      []*shelf
	hits, misses int64
	starts       int           // kernels that are starting
	quiet        chan struct{} // closed when starts becomes 0; nil while nobody waits
	closed       bool
}

// shelf is the part of the pool for one environment. It is guarded by the lock of the pool.
type shelf struct {
	env    kernel.Environment
	cancel context.CancelFunc
	warm   bool
	ready  []kernel.Sandbox // the oldest first
	taken  chan struct{}    // has room for one value
}

func newPool(backend kernel.Backend, size int, log *slog.Logger) *pool {
	p := &pool{backend: backend, size: max(size, 0), log: log}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	return p
}

// keep makes these the environments that are kept warm, and lets go of all others.
func (p *pool) keep(envs []kernel.Environment) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return
	}
	wanted := func(s *shelf) bool {
		return slices.ContainsFunc(envs, func(e kernel.Environment) bool { return sameEnvironment(e, s.env) })
	}
	for _, s := range p.shelves {
		if !wanted(s) {
			s.cancel() // its goroutine closes the ready sandboxes
		}
	}
	p.shelves = slices.DeleteFunc(p.shelves, func(s *shelf) bool { return !wanted(s) })
	for _, env := range envs {
		if p.shelf(env) != nil {
			continue
		}
		ctx, cancel := context.WithCancel(p.ctx)
		s := &shelf{env: env, cancel: cancel, taken: make(chan struct{}, 1)}
		p.shelves = append(p.shelves, s)
		p.fillers.Go(func() { p.tend(ctx, s) })
	}
}

func sameEnvironment(a, b kernel.Environment) bool { return reflect.DeepEqual(a, b) }

// shelf returns the shelf of the environment, or nil. The caller holds mu.
func (p *pool) shelf(env kernel.Environment) *shelf {
	for _, s := range p.shelves {
		if sameEnvironment(s.env, env) {
			return s
		}
	}
	return nil
}

// take returns a parked sandbox of that environment, or nil. The caller closes it.
func (p *pool) take(env kernel.Environment) kernel.Sandbox {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.shelf(env)
	if s == nil || len(s.ready) == 0 {
		if p.size > 0 {
			p.misses++
		}
		return nil
	}
	p.hits++
	sandbox := s.ready[0]
	s.ready = slices.Delete(s.ready, 0, 1)
	select {
	case s.taken <- struct{}{}:
	default:
	}
	return sandbox
}

// starting says that a kernel is starting, until done is called.
func (p *pool) starting() (done func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.starts++
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.starts--; p.starts == 0 && p.quiet != nil {
			close(p.quiet)
			p.quiet = nil
		}
	}
}

func (p *pool) stats() PoolStats {
	p.mu.Lock()
	defer p.mu.Unlock()
	stats := PoolStats{Hits: p.hits, Misses: p.misses}
	for _, s := range p.shelves {
		stats.Environments = append(stats.Environments,
			EnvironmentPool{Name: s.env.Name, Warm: s.warm, Ready: len(s.ready), Wanted: p.size})
	}
	return stats
}

// close lets go of everything. It returns when nothing of the pool is left, or with an error if ctx ends first.
func (p *pool) close(ctx context.Context) error {
	p.mu.Lock()
	p.closed, p.shelves = true, nil
	p.mu.Unlock()
	p.cancel()
	gone := make(chan struct{})
	go func() {
		p.fillers.Wait()
		close(gone)
	}()
	select {
	case <-gone:
		return nil
	case <-ctx.Done():
		return errors.Join(errors.New("sandboxes of the pool are still being closed"), context.Cause(ctx))
	}
}

// tend keeps an environment warm and its shelf full until ctx ends, and leaves nothing on it.
func (p *pool) tend(ctx context.Context, s *shelf) {
	log := p.log.With("environment", s.env.Name)
	defer p.clear(s, log)
	if w, ok := p.backend.(kernel.Warmer); ok {
		if !retry(ctx, log, "import the libraries of an environment", func() error { return w.Warm(ctx, s.env) }) {
			return
		}
	}
	p.mu.Lock()
	s.warm = true
	p.mu.Unlock()
	for p.size > 0 {
		for p.missing(s) {
			if !p.yield(ctx) || !retry(ctx, log, "make a sandbox for the pool", func() error { return p.put(ctx, s) }) {
				return
			}
		}
		select {
		case <-s.taken:
		case <-ctx.Done():
			return
		}
		if !sleep(ctx, takenPause) {
			return
		}
	}
}

// retry calls do until it succeeds, with growing pauses. It returns false if ctx ends first.
func retry(ctx context.Context, log *slog.Logger, what string, do func() error) bool {
	for pause := firstPoolPause; ; pause = min(2*pause, lastPoolPause) {
		err := do()
		if err == nil {
			return true
		}
		if ctx.Err() != nil {
			return false
		}
		log.Error(what, "error", err, "next_try_in", pause)
		if !sleep(ctx, pause) {
			return false
		}
	}
}

// sleep returns after that time, or false when ctx ends.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// yield leaves the machine to starting kernels for a while. It returns false if ctx ends.
func (p *pool) yield(ctx context.Context) bool {
	p.mu.Lock()
	if p.starts == 0 {
		p.mu.Unlock()
		return ctx.Err() == nil
	}
	if p.quiet == nil {
		p.quiet = make(chan struct{})
	}
	quiet := p.quiet
	p.mu.Unlock()
	enough := time.NewTimer(maxPoolYield)
	defer enough.Stop()
	select {
	case <-quiet:
	case <-enough.C:
	case <-ctx.Done():
		return false
	}
	return true
}

func (p *pool) missing(s *shelf) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(s.ready) < p.size
}

// put makes a sandbox and puts it on the shelf.
func (p *pool) put(ctx context.Context, s *shelf) error {
	sandbox, err := p.backend.Create(ctx, s.env, false)
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	s.ready = append(s.ready, sandbox) // clear closes it if ctx has ended
	return nil
}

func (p *pool) clear(s *shelf, log *slog.Logger) {
	p.mu.Lock()
	ready := s.ready
	s.ready = nil
	p.mu.Unlock()
	for _, sandbox := range ready {
		if err := sandbox.Close(); err != nil {
			log.Error("close a sandbox of the pool", "error", err)
		}
	}
}
