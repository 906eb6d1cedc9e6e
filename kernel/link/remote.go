package link

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"talaria/kernel/command"
	"talaria/kernel/record"
)

const (
	tries     = 5                     // to reconnect to a living host
	tryPause  = 10 * time.Millisecond // after the first try; it doubles
	judgeTime = 3 * time.Second       // how long connections of its kernels wait until it is known whether a host lives
)

// remote is a living host as its client sees it.
type remote struct {
	c        *Client
	found    found
	id, path string
	build    string
	protocol int // agreed on
	retired  atomic.Bool
	gone     chan struct{} // closed when the host is dead; from then on left is valid
	left     *deadHost

	mu      sync.Mutex // guards the fields below
	control *caller
	process *process
	changed chan struct{} // closed when control changes
	// responsive ends with the cause ErrUnresponsive when unresponsive is called, and is replaced when the host
	// responds again.
	responsive   context.Context
	unresponsive context.CancelCauseFunc
	over         []record.Key // the last kernels of which nothing more is needed
}

// mostOver bounds remote.over. The host is told of each, and needs some milliseconds to remove its records.
const mostOver = 1000

// isOver notes that nothing more of a kernel is needed. If the host has died, or dies before it reads that, the client removes what
// is left of the kernel.
func (r *remote) isOver(key record.Key) {
	r.mu.Lock()
	if len(r.over) == mostOver {
		r.over = slices.Delete(r.over, 0, mostOver/2)
	}
	r.over = append(r.over, key)
	r.mu.Unlock()
	if isClosed(r.gone) {
		r.forgetOver()
	}
}

// forgetOver removes what a dead host has left of kernels of which nothing more is needed.
func (r *remote) forgetOver() {
	r.mu.Lock()
	over := r.over
	r.over = nil
	r.mu.Unlock()
	for _, key := range over {
		if r.left.has(key) {
			r.left.forget(key)
		}
	}
}

// connect makes the control connection to a host.
func (c *Client) connect(ctx context.Context, f found) (*remote, error) {
	r := &remote{c: c, found: f, id: f.id, path: f.path, gone: make(chan struct{}), changed: make(chan struct{})}
	var is helloReply
	var err error
	r.control, r.process, is, err = r.hello(ctx)
	r.build, r.protocol = is.Build, is.Agreed
	r.setResponsive()
	r.retired.Store(is.Retired)
	return r, err
}

func (r *remote) hello(ctx context.Context) (control *caller, process *process, is helloReply, err error) {
	ctx, cancel := context.WithTimeout(ctx, r.c.cfg.hello)
	defer cancel()
	made, pid, err := r.c.dial(ctx, r.path)
	if err != nil {
		return nil, nil, is, err
	}
	control = newCaller(made, nil)
	in := helloBody{Protocol: r.c.cfg.protocol, Build: r.c.cfg.Build, Version: r.c.cfg.Version, Ending: r.c.cfg.Ending != nil}
	err = control.open(ctx, opHello, in, &is)
	switch {
	case err == nil && is.ID != r.id:
		err = fmt.Errorf("another process answers on the socket of host %s: it says that it is %q", r.id, is.ID)
	case err == nil && (is.Agreed < in.Protocol.Min || is.Agreed > in.Protocol.Max):
		err = mismatch(is, in.Protocol)
	}
	if err != nil {
		r.c.hangUp(made)
		return nil, nil, is, err
	}
	return control, watch(pid), is, nil
}

func (r *remote) takesKernels() bool { return !r.retired.Load() && !isClosed(r.gone) }

// run keeps the control connection until the host is dead or the client is closed. The end of that connection is how a
// death is noticed.
func (r *remote) run() {
	control, process := r.control, r.process
	for control != nil {
		watched := make(chan struct{})
		go func() {
			defer close(watched)
			r.watchHeartbeat(control)
		}()
		if r.c.cfg.Ending != nil {
			r.c.begin(func() { r.watchEnding(control) })
		}
		err := control.run()
		<-watched
		r.c.hangUp(control.conn)
		if r.c.ctx.Err() != nil {
			process.stop()
			return
		}
		r.c.log.Debug("the connection to a host ended", "host", r.id, "error", err)
		next, itsProcess := r.again(process)
		process.stop()
		r.mu.Lock()
		control, process = next, itsProcess
		r.control, r.process = next, itsProcess
		close(r.changed)
		r.changed = make(chan struct{})
		r.mu.Unlock()
		r.setResponsive() // it has just answered, or is dead, which callers learn in another way
	}
	if r.c.ctx.Err() == nil {
		r.left = r.c.adoptDead(r.found, r)
		close(r.gone)
		r.forgetOver()
		r.c.hostDied(r)
	}
}

// again reconnects to a living host; it returns nil if the host is dead, or as good as dead.
func (r *remote) again(was *process) (*caller, *process) {
	pause := tryPause
	for try := range tries {
		if dead, err := isDead(r.path); dead || err != nil {
			return nil, nil
		}
		if control, process, _, err := r.hello(r.c.ctx); err == nil {
			return control, process
		} else if try == tries-1 {
			r.c.log.Error("a running host does not answer; its kernels are treated as dead", "host", r.id, "error", err)
			return nil, nil
		}
		wait := time.NewTimer(pause)
		select {
		case <-was.gone: // its lock too
		case <-wait.C:
		case <-r.c.ctx.Done():
		}
		wait.Stop()
		if r.c.ctx.Err() != nil {
			return nil, nil
		}
		pause *= 2
	}
	return nil, nil
}

// ask sends a request on the control connection. If that breaks, it sends it once more, on the next one; errBroken
// means that the host is dead. It does not wait for a host that does not respond.
func (r *remote) ask(ctx context.Context, op string, in, out any) error {
	ctx, done, err := r.whileResponsive(ctx)
	if err != nil {
		return err
	}
	defer done()
	for range tries {
		r.mu.Lock()
		control, changed := r.control, r.changed
		r.mu.Unlock()
		if control == nil {
			return errBroken
		}
		err := control.call(ctx, op, in, out)
		if !errors.Is(err, errBroken) {
			return err
		}
		_ = control.Close() // so that its reader notices too
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-r.c.ctx.Done():
			return command.ErrHostClosed
		}
	}
	return errBroken
}

// waitDead waits until the host is known to be dead, but not long: it may be alive.
func (r *remote) waitDead(ctx context.Context, long time.Duration) (dead bool) {
	wait := time.NewTimer(long)
	defer wait.Stop()
	select {
	case <-r.gone:
		return true
	case <-wait.C:
	case <-ctx.Done():
	case <-r.c.ctx.Done():
	}
	return false
}

// hostDied does what is needed after the death of a host.
func (c *Client) hostDied(r *remote) {
	c.mu.Lock()
	delete(c.hosts, r.id)
	if c.current == r {
		c.current = nil
	}
	living := c.current
	c.mu.Unlock()
	if living != nil {
		c.sweepDead(c.ctx, living)
	}
}
