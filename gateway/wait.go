package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"
)

// bell wakes one goroutine that waits for work.
type bell chan struct{}

func newBell() bell {
	b := make(bell, 1)
	b.wake() // something may be left from before a restart
	return b
}

func (b bell) wake() {
	select {
	case b <- struct{}{}:
	default:
	}
}

// gate lets through while it is open. The zero value is closed.
type gate struct {
	mu   sync.Mutex
	open bool
	wake chan struct{} // closed when it opens; nil while nobody waits
}

func (g *gate) set(open bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.open = open
	if open && g.wake != nil {
		close(g.wake)
		g.wake = nil
	}
}

// wait waits until it is open. It returns false if that takes too long.
func (g *gate) wait(ctx context.Context, most time.Duration) bool {
	g.mu.Lock()
	if g.open {
		g.mu.Unlock()
		return true
	}
	if g.wake == nil {
		g.wake = make(chan struct{})
	}
	wake := g.wake
	g.mu.Unlock()
	timer := time.NewTimer(most)
	defer timer.Stop()
	select {
	case <-wake:
		return true
	case <-timer.C:
	case <-ctx.Done():
	}
	return false
}

// backoff is the time until the next attempt.
type backoff time.Duration

// wait waits for as long as the error says, or else longer than the last time.
func (b *backoff) wait(ctx context.Context, err error) {
	*b = min(max(2**b, backoff(500*time.Millisecond)), backoff(maxRetry))
	pause := time.Duration(*b)
	if retry := (*RetryError)(nil); errors.As(err, &retry) {
		pause = retry.After
	}
	sleep(ctx, pause)
}

func sleep(ctx context.Context, pause time.Duration) {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

func encoded(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("%T cannot be encoded: %v", v, err))
	}
	return b
}

// decoded reads what encoded wrote.
func decoded[T any](b []byte) (v T) {
	if err := json.Unmarshal(b, &v); err != nil {
		panic(fmt.Sprintf("a row of the gateway's database is not a %T: %v", v, err))
	}
	return v
}
