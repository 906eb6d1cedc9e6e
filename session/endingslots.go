package session

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"
)

// endingAtOnce is how many kernels save their variables at the same time when the server or their host ends. With many more than
// there are processors each would take too long.
const endingAtOnce = 4

// saveTimeAtEnd is how long each of them may take at least, however many there are.
const saveTimeAtEnd = 5 * time.Second

// endingSlots let kernels save their variables when the server or their host ends. Owners get slots in turn: those of one owner whose
// variables take long must not use up the time of all. The zero value is ready to use and safe for concurrent use.
type endingSlots struct {
	mu      sync.Mutex // guards the fields below
	long    time.Duration
	taken   int
	given   map[string]int // how many slots each owner has got since all were free
	waiting []endingWait   // first come, first
}

type endingWait struct {
	owner string
	turn  chan struct{} // closed when there is a slot
}

// share divides the time until the deadline of ctx among so many kernels, and keeps a quarter of it for their ends.
func (e *endingSlots) share(ctx context.Context, kernels int) {
	var long time.Duration
	if end, ok := ctx.Deadline(); ok {
		long = time.Until(end) * 3 / 4 * endingAtOnce / time.Duration(max(kernels, endingAtOnce))
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.long = min(long, saveTime)
}

// saveTime is how long a kernel that has a slot may take.
func (e *endingSlots) saveTime() time.Duration {
	e.mu.Lock()
	defer e.mu.Unlock()
	return max(e.long, saveTimeAtEnd)
}

// take waits for a slot, which the caller frees. ctx bounds the wait.
func (e *endingSlots) take(ctx context.Context, owner string) error {
	w := endingWait{owner, make(chan struct{})}
	e.mu.Lock()
	e.waiting = append(e.waiting, w)
	e.give()
	e.mu.Unlock()
	select {
	case <-w.turn:
		return nil
	case <-ctx.Done():
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	at := slices.Index(e.waiting, w)
	if at < 0 { // it has got one at the same moment
		return nil
	}
	e.waiting = slices.Delete(e.waiting, at, at+1)
	return context.Cause(ctx)
}

func (e *endingSlots) free() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.taken--; e.taken == 0 && len(e.waiting) == 0 {
		e.given = nil
	}
	e.give()
}

// give gives free slots to those who wait, first to an owner who has got the fewest. The caller holds mu.
func (e *endingSlots) give() {
	for e.taken < endingAtOnce && len(e.waiting) > 0 {
		next := slices.MinFunc(e.waiting, func(a, b endingWait) int { return cmp.Compare(e.given[a.owner], e.given[b.owner]) })
		at := slices.Index(e.waiting, next)
		e.waiting = slices.Delete(e.waiting, at, at+1)
		if e.given == nil {
			e.given = map[string]int{}
		}
		e.given[next.owner]++
		e.taken++
		close(next.turn)
	}
}
