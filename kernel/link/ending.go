package link

import (
	"context"
	"time"

	"talaria/kernel/command"
	"talaria/kernel/record"
)

// The requests with which a server takes part in the end of a host. Older hosts do not know them; their error is ignored.
const (
	opEnding = "ending" // answered with the keys of its kernels when the host begins to end
	opReady  = "ready"  // the server has done what it could for these kernels
)

// endingTime is how long a host that ends waits for its servers to save what they can of its kernels.
const endingTime = time.Minute

// letGo tells the servers that asked for it that the host ends, and waits until they are ready, but not long. The host
// takes no new kernels from now on.
func (s *server) letGo() {
	s.mu.Lock()
	s.retired = true
	s.mu.Unlock()
	if len(s.host.Running()) == 0 {
		return
	}
	s.mu.Lock()
	close(s.ending)
	s.countSavers(0)
	s.mu.Unlock()
	wait := time.NewTimer(s.cfg.ending)
	defer wait.Stop()
	select {
	case <-s.saved:
	case <-wait.C:
		s.log.Warn("a server did not confirm that it is ready for the host to end; the host ends anyway", "waited", s.cfg.ending)
	}
}

// countSavers counts the servers that want to be told and are not ready yet. The caller holds mu.
func (s *server) countSavers(by int) {
	s.savers += by
	if s.savers == 0 && isClosed(s.ending) && !isClosed(s.saved) {
		close(s.saved)
	}
}

// saver is what a host knows of a server that may ask to be told. Only the goroutine of its connection touches it.
type saver struct {
	s      *server
	counts bool
}

// asks counts the server among those that the host waits for.
func (v *saver) asks() error {
	v.s.mu.Lock()
	defer v.s.mu.Unlock()
	if v.s.closing {
		return command.ErrHostClosed
	}
	if !v.counts {
		v.counts = true
		v.s.countSavers(1)
	}
	return nil
}

// ready no longer counts it.
func (v *saver) ready() {
	if !v.counts {
		return
	}
	v.counts = false
	v.s.mu.Lock()
	defer v.s.mu.Unlock()
	v.s.countSavers(-1)
}

// running waits until the host ends, and returns what runs on it.
func (s *server) running(ctx context.Context) ([]record.Key, error) {
	select {
	case <-s.ending:
		return s.host.Running(), nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// watchEnding waits until the host tells that it ends, and then has the user of the client save what it can.
func (r *remote) watchEnding(control *caller) {
	var keys []record.Key
	if err := control.call(context.Background(), opEnding, nil, &keys); err != nil {
		return // the connection broke, or the host is older, or it is too late
	}
	r.retired.Store(true)
	ctx, cancel := context.WithTimeout(r.c.ctx, endingTime)
	defer cancel()
	go func() {
		select {
		case <-control.broken:
			cancel()
		case <-ctx.Done():
		}
	}()
	r.c.log.Info("a host ends", "host", r.id, "kernels", len(keys))
	r.c.cfg.Ending(ctx, keys)
	_ = control.call(ctx, opReady, nil, nil)
}
