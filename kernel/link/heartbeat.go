package link

import (
	"context"
	"fmt"
	"time"

	"talaria/kernel/command"
)

// opBeat asks a host whether it responds. Older hosts do not know the request; their error is a response.
const opBeat = "beat"

// heartbeat says how often a client asks a host whether it responds.
type heartbeat struct {
	every time.Duration // between a response and the next request
	late  time.Duration // time without a response after which the host counts as unresponsive
}

// usualHeartbeat notices a stopped host within 6 seconds.
var usualHeartbeat = heartbeat{every: 2 * time.Second, late: 4 * time.Second}

// watchHeartbeat keeps asking the host whether it responds, until the connection breaks. One request waits at a time,
// so a host that was stopped finds only one when it continues.
func (r *remote) watchHeartbeat(control *caller) {
	times := r.c.cfg.heartbeat
	timer := time.NewTimer(times.every)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
		case <-control.broken:
			return
		}
		responded := make(chan struct{})
		go func() {
			defer close(responded)
			_ = control.call(context.Background(), opBeat, nil, nil) // until the connection breaks, if necessary
		}()
		timer.Reset(times.late)
		select {
		case <-timer.C:
			r.setUnresponsive()
			<-responded
		case <-responded:
		}
		if isClosed(control.broken) {
			return
		}
		r.setResponsive()
		timer.Reset(times.every)
	}
}

// setUnresponsive fails the requests that wait for the host, except those that wait however long it takes.
func (r *remote) setUnresponsive() {
	r.mu.Lock()
	cancel := r.unresponsive
	r.mu.Unlock()
	r.c.log.Warn("a host does not respond; commands to its kernels fail until it does", "host", r.id)
	cancel(fmt.Errorf("%w (host %s)", command.ErrUnresponsive, r.id))
}

// setResponsive undoes setUnresponsive.
func (r *remote) setResponsive() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.responsive != nil && r.responsive.Err() == nil {
		return
	}
	if r.responsive != nil {
		r.c.log.Warn("the host responds again", "host", r.id)
	}
	r.responsive, r.unresponsive = context.WithCancelCause(context.Background())
}

// whileResponsive returns a context that ends with ctx, or with ErrUnresponsive once the host does not respond. It
// returns an error if the host does not respond already.
func (r *remote) whileResponsive(ctx context.Context) (context.Context, context.CancelFunc, error) {
	r.mu.Lock()
	responsive := r.responsive
	r.mu.Unlock()
	if responsive.Err() != nil {
		return nil, nil, context.Cause(responsive)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(responsive, func() { cancel(context.Cause(responsive)) })
	return ctx, func() { stop(); cancel(nil) }, nil
}
