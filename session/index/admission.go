package index

import (
	"context"
	"slices"
	"sync"
	"time"
)

const (
	maxRequests = 16 // of an installation that are answered at a time
	maxReasons  = 20
)

// admission is one installation.
type admission struct {
	since  time.Time       // no page is older
	ctx    context.Context // ends with it
	cancel context.CancelFunc
	room   chan struct{}

	mu      sync.Mutex
	ended   bool
	work    sync.WaitGroup // its requests
	reasons []string
}

// enter counts a request, unless the installation has ended. leave must follow.
func (a *admission) enter(ctx context.Context) bool {
	a.mu.Lock()
	ended := a.ended
	if !ended {
		a.work.Add(1)
	}
	a.mu.Unlock()
	if ended {
		return false
	}
	select {
	case a.room <- struct{}{}:
		return true
	case <-ctx.Done():
		a.work.Done()
		return false
	}
}

func (a *admission) leave() {
	<-a.room
	a.work.Done()
}

func (a *admission) end() {
	a.mu.Lock()
	a.ended = true
	a.mu.Unlock()
	a.cancel()
	a.work.Wait()
}

// tell keeps a reason why something was not to be had, for who asks for the reasons.
func (a *admission) tell(reason string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.reasons) < maxReasons && !slices.Contains(a.reasons, reason) {
		a.reasons = append(a.reasons, reason)
	}
}

func (a *admission) told() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.reasons)
}
