package client

import (
	"context"
	"sync"

	"talaria/api"
)

// maxQueued is how many bytes of events may wait for Next before the socket is no longer read.
const maxQueued = 64 << 20

// eventQueue holds events between the goroutine that reads a socket and those that call Next. It is safe for
// concurrent use.
type eventQueue struct {
	more  chan struct{} // holds a token while there may be an event to take
	room  chan struct{} // holds a token while there may be room again
	ended chan struct{} // closed by end

	mu     sync.Mutex // guards the fields below
	events []queuedEvent
	bytes  int
	err    error // why nothing more will come
}

type queuedEvent struct {
	event api.Event
	bytes int
}

func newEventQueue() *eventQueue {
	return &eventQueue{more: make(chan struct{}, 1), room: make(chan struct{}, 1), ended: make(chan struct{})}
}

// push adds an event of that size on the wire. It waits while the queue is full, until ctx ends.
func (q *eventQueue) push(ctx context.Context, e api.Event, bytes int) {
	q.mu.Lock()
	q.events = append(q.events, queuedEvent{e, bytes})
	q.bytes += bytes
	full := q.bytes > maxQueued
	q.mu.Unlock()
	signal(q.more)
	for full {
		select {
		case <-q.room:
		case <-ctx.Done():
			return
		}
		q.mu.Lock()
		full = q.bytes > maxQueued
		q.mu.Unlock()
	}
}

// next takes the oldest event, or waits for one until ctx ends. Once the queue has ended and is empty, it returns
// the reason.
func (q *eventQueue) next(ctx context.Context) (api.Event, error) {
	for {
		if e, ok, err := q.take(); ok || err != nil {
			return e, err
		}
		select {
		case <-q.more:
		case <-q.ended:
		case <-ctx.Done():
			return api.Event{}, context.Cause(ctx)
		}
	}
}

func (q *eventQueue) take() (api.Event, bool, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.events) == 0 {
		return api.Event{}, false, q.err
	}
	first := q.events[0]
	q.events[0] = queuedEvent{}
	q.events = q.events[1:]
	q.bytes -= first.bytes
	if len(q.events) > 0 {
		signal(q.more) // for the next waiting caller
	}
	if q.bytes <= maxQueued {
		signal(q.room)
	}
	return first.event, true, nil
}

// end says that nothing more will come. The first call counts.
func (q *eventQueue) end(err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.err == nil {
		q.err = err
		close(q.ended)
	}
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
