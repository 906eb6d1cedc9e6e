package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"talaria/kernel"
)

// The pause before a fork server or its keeper is restarted grows while these do not live long.
const (
	minPause = 100 * time.Millisecond
	maxPause = time.Minute
)

// zygotes keeps an environment warm: a keeper, and in it a fork server that is renewed from time to time.
type zygotes struct {
	backend *Backend
	env     kernel.Environment
	full    chan struct{} // has room for one value: the fork server has made as many sandboxes as it may
	forks   atomic.Int64

	mu      sync.Mutex // guards the fields below
	server  *forkServer
	err     error             // of the last attempt
	tried   chan struct{}     // closed and replaced after each attempt
	skipped map[string]string // reason by module
	never   []string          // modules whose import ends or hangs an interpreter
}

// Warm starts a fork server that has imported env.Preload and returns when it is ready. From then on, until Close, one
// is running: it is renewed in the background, and restarted when it dies. Modules that cannot be imported are left
// out, see Skipped. Warm returns the error of the first attempt that ends while it waits; further attempts follow
// nevertheless, and Create does without a fork server meanwhile.
func (b *Backend) Warm(ctx context.Context, env kernel.Environment) error {
	w, err := b.zygotesOf(env)
	if err == nil {
		err = w.wait(ctx)
	}
	if err != nil {
		return fmt.Errorf("warm environment %s: %w", env.Name, err)
	}
	return nil
}

// Skipped returns which modules of env.Preload are not imported ahead, and why. It is empty before Warm.
func (b *Backend) Skipped(env kernel.Environment) []kernel.Finding {
	b.mu.Lock()
	w := b.warm[warmKey(env)]
	b.mu.Unlock()
	if w == nil {
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	var findings []kernel.Finding
	for _, module := range env.Preload {
		if reason, ok := w.skipped[module]; ok {
			findings = append(findings, kernel.Finding{
				Name:   "preload " + module,
				Detail: reason,
				Remedy: fmt.Sprintf("install %s for %s, or remove it from the environment's preload", module, env.Python),
			})
		}
	}
	return findings
}

func warmKey(env kernel.Environment) string { return fmt.Sprintf("%q", env) }

// zygotesOf returns the zygotes of an environment, and creates them if there are none.
func (b *Backend) zygotesOf(env kernel.Environment) (*zygotes, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return nil, fs.ErrClosed
	}
	key := warmKey(env)
	w := b.warm[key]
	if w == nil {
		w = &zygotes{backend: b, env: env, full: make(chan struct{}, 1), tried: make(chan struct{})}
		b.warm[key] = w
		b.keeping.Go(func() { w.run(b.ctx) })
	}
	return w, nil
}

// createForked forks a sandbox, or returns nil if there is no fork server or it cannot.
func (b *Backend) createForked(ctx context.Context, env kernel.Environment) kernel.Sandbox {
	b.mu.Lock()
	w := b.warm[warmKey(env)]
	b.mu.Unlock()
	if w == nil {
		return nil
	}
	w.mu.Lock()
	server := w.server
	w.mu.Unlock()
	if server == nil {
		return nil
	}
	s, err := server.fork(ctx, b, env)
	if err != nil {
		if ctx.Err() == nil {
			b.cfg.Log.WarnContext(ctx, "no sandbox could be forked, starting an interpreter",
				"environment", env.Name, "err", err)
		}
		return nil
	}
	if w.forks.Add(1) == int64(b.cfg.RenewAfter) {
		select {
		case w.full <- struct{}{}:
		default:
		}
	}
	return s
}

// wait returns when there is a fork server, or an attempt to start one has failed.
func (w *zygotes) wait(ctx context.Context) error {
	w.mu.Lock()
	server, tried := w.server, w.tried
	w.mu.Unlock()
	if server != nil {
		return nil
	}
	select {
	case <-tried:
		w.mu.Lock()
		defer w.mu.Unlock()
		return w.err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// set stores the outcome of an attempt.
func (w *zygotes) set(server *forkServer, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.server, w.err = server, err
	close(w.tried)
	w.tried = make(chan struct{})
}

// clear removes the fork server.
func (w *zygotes) clear() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.server = nil
}

// run keeps a keeper running until ctx ends.
func (w *zygotes) run(ctx context.Context) {
	b := w.backend
	if err := b.Prepare(ctx, w.env); err != nil && ctx.Err() == nil {
		b.cfg.Log.WarnContext(ctx, "first plots will be slow", "environment", w.env.Name, "err", err)
	}
	var pause pause
	for {
		began := time.Now()
		served, err := w.keep(ctx)
		if ctx.Err() != nil {
			w.set(nil, fs.ErrClosed)
			return
		}
		b.cfg.Log.ErrorContext(ctx, "the fork server's sandbox ended, and the sandboxes forked from it with it",
			"environment", w.env.Name, "err", err)
		if !served { // or else the next attempt is the one that counts for those who wait
			w.set(nil, err)
		}
		pause.wait(ctx, time.Since(began))
	}
}

// keep runs one keeper, and fork servers in it, until the keeper or ctx ends. It reports whether there was a fork server.
func (w *zygotes) keep(ctx context.Context) (served bool, err error) {
	keeper, err := w.backend.start(ctx, w.env, "keep")
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, keeper.Close()) }()
	defer w.clear()
	var pause pause
	for ctx.Err() == nil {
		server, err := w.startServer(ctx, keeper)
		select {
		case <-keeper.ended:
			return served, keeper.lost()
		default:
		}
		if err != nil {
			if ctx.Err() == nil {
				w.set(nil, err)
				w.backend.cfg.Log.ErrorContext(ctx, "start fork server", "environment", w.env.Name, "err", err)
				pause.wait(ctx, 0)
			}
			continue
		}
		began := time.Now()
		w.set(server, nil)
		served = true
		if err := w.serve(ctx, keeper, server); err != nil {
			return true, err
		}
		if ctx.Err() == nil {
			w.backend.cfg.Log.ErrorContext(ctx, "the fork server ended", "environment", w.env.Name,
				"err", lastLine(keeper.stderr.String()))
			pause.wait(ctx, time.Since(began))
		}
	}
	return served, nil
}

// serve renews the running fork server until the last one ends. It returns an error if the keeper has ended.
func (w *zygotes) serve(ctx context.Context, keeper *Sandbox, server *forkServer) error {
	timer := time.NewTimer(w.backend.cfg.RenewEvery)
	defer timer.Stop()
	w.learn(ctx, server)
	for {
		select {
		case <-timer.C:
		case <-w.full:
		case <-server.process.done:
			w.clear()
			server.end()
			select {
			case <-keeper.ended:
				return keeper.lost()
			default:
				return nil
			}
		case <-ctx.Done():
			return nil
		}
		timer.Reset(w.backend.cfg.RenewEvery)
		next, err := w.startServer(ctx, keeper)
		if err != nil {
			if ctx.Err() == nil {
				w.backend.cfg.Log.ErrorContext(ctx, "renew fork server", "environment", w.env.Name, "err", err)
			}
			continue
		}
		w.learn(ctx, next)
		w.set(next, nil)
		server.end()
		server = next
		w.backend.cfg.Log.InfoContext(ctx, "renewed the fork server", "environment", w.env.Name)
	}
}

// startServer starts a fork server with all modules except those that cannot be imported.
func (w *zygotes) startServer(ctx context.Context, keeper *Sandbox) (*forkServer, error) {
	w.forks.Store(0)
	skipped := make(map[string]string)
	for {
		modules := slices.DeleteFunc(slices.Clone(w.env.Preload), func(m string) bool { return slices.Contains(w.never, m) })
		server, err := startForkServer(ctx, keeper, modules, func(module, reason string) { skipped[module] = reason })
		if fatal := (*importError)(nil); errors.As(err, &fatal) && slices.Contains(modules, fatal.module) {
			w.never = append(w.never, fatal.module)
			skipped[fatal.module] = strings.TrimSpace(fatal.reason)
			continue
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		w.skipped = skipped
		return server, err
	}
}

// pause is the time to wait before the next attempt.
type pause struct{ next time.Duration }

// wait waits, longer than the time before if the last attempt did not live long.
func (p *pause) wait(ctx context.Context, lived time.Duration) {
	p.next = min(max(2*p.next, minPause), maxPause)
	if lived > maxPause {
		p.next = minPause
	}
	timer := time.NewTimer(p.next)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
