package e2b

import (
	"context"
	"sync"
)

// turns let one request at a time do something with a session. The zero value is ready to use and safe for concurrent use.
type turns struct {
	mu sync.Mutex // guards the field below, and waiting of its values
	by map[place]*turn
}

type turn struct {
	taken   chan struct{} // holds a value while somebody has the turn
	waiting int           // requests that have the turn or wait for it
}

// take waits for the turn; release gives it to the next one. ctx bounds the wait.
func (t *turns) take(ctx context.Context, p place) (release func(), err error) {
	t.mu.Lock()
	if t.by == nil {
		t.by = map[place]*turn{}
	}
	one := t.by[p]
	if one == nil {
		one = &turn{taken: make(chan struct{}, 1)}
		t.by[p] = one
	}
	one.waiting++
	t.mu.Unlock()
	leave := func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if one.waiting--; one.waiting == 0 {
			delete(t.by, p)
		}
	}
	select {
	case one.taken <- struct{}{}:
		return func() { <-one.taken; leave() }, nil
	case <-ctx.Done():
		leave()
		return nil, context.Cause(ctx)
	}
}
