package e2b

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"talaria/api"
)

// errWrite reports that the client accepts no more.
var errWrite = errors.New("write to the client")

// lineWriter sends objects, one a line, each at once. It has one user.
type lineWriter struct {
	w       http.ResponseWriter
	control *http.ResponseController
	stall   time.Duration
}

func (h *Handler) lines(w http.ResponseWriter) *lineWriter {
	return &lineWriter{w: w, control: http.NewResponseController(w), stall: h.Stall}
}

func (l *lineWriter) write(v any) error {
	text, err := api.Marshal(v)
	if err != nil {
		return err
	}
	return l.send(append(text, '\n'))
}

// send sends bytes that belong together.
func (l *lineWriter) send(data []byte) error {
	_ = l.control.SetWriteDeadline(time.Now().Add(l.stall)) // fails only when the connection is gone
	if _, err := l.w.Write(data); err != nil {
		return fmt.Errorf("%w: %w", errWrite, err)
	}
	return l.flush()
}

// flush sends what was written; before anything was, the head.
func (l *lineWriter) flush() error {
	if err := l.control.Flush(); err != nil {
		return fmt.Errorf("%w: %w", errWrite, err)
	}
	return nil
}

// turns let one request at a time queue cells in a session. The zero value is ready to use and safe for concurrent use.
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
