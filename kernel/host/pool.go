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
	lastPoolPause  = time.Minute            // what this grows to
	// maxPoolYield bounds how long a sandbox for the pool is put off while kernels start.
	maxPoolYield = 50 * time.Millisecond
)

// PoolStats tells how the pool of ready sandboxes does.
type PoolStats struct {
	Environments []EnvironmentPool
	Hits, Misses int64 // starts that found one ready, and that did not though they could have used one
}

// EnvironmentPool is the part of one environment.
type EnvironmentPool struct {
	Name          string
	Warm          bool // its libraries are imported, as far as the backend can do that
	Ready, Wanted int
}

// pool keeps parked sandboxes of the environments that are wanted warm. Each environment has a goroutine of its own
// that makes them one at a time. It is safe for concurrent use.
type pool struct {
	backend kernel.Backend
	size    int // for each environment
	log     *slog.Logger
	ctx     context.Context // of all that goes on in the background
	cancel  context.CancelFunc
	fillers sync.WaitGroup

	mu           sync.Mutex // guards what follows
	shelves      []*shelf
	hits, misses int64
	starts       int           // kernels that start
	quiet        chan struct{} // closed when starts gets 0; nil while nobody waits
	closed       bool
}

// shelf is the part of one environment. It is under the lock of the pool.
type shelf struct {
	env    kernel.Environment
	cancel context.CancelFunc
	warm   bool
	ready  []kernel.Sandbox // the oldest first
	taken  chan struct{}    // has room for one
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
			s.cancel() // its goroutine closes what is ready
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

// shelf is that of the environment, or nil. The caller holds mu.
func (p *pool) shelf(env kernel.Environment) *shelf {
	for _, s := range p.shelves {
		if sameEnvironment(s.env, env) {
			return s
		}
	}
	return nil
}

// take is a parked sandbox of that environment, or nil. The caller closes it.
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

// starting tells that a kernel starts, until done is called.
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

// close lets go of everything. It returns when nothing of the pool is left, or with an error when ctx ends first.
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
	}
}

// retry does it until that succeeds, with pauses that grow. It is false when ctx ends first.
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
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return false
		}
	}
}

// yield leaves the machine to kernels that start, for a while. It is false when ctx ends.
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
	s.ready = append(s.ready, sandbox) // clear closes it where ctx has ended
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
