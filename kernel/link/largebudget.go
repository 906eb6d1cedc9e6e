package link

import (
	"context"

	"golang.org/x/sync/semaphore"
)

// largeMemory bounds what frames of more than maxFirst bytes of records take in a server, for all kernels together,
// from when they are read until their records are acknowledged. Each counts twice, for what is made from its records:
// there is room for one of the largest at a time, or for several smaller ones. A kernel waits for room on its own
// connection.
const largeMemory = 64 << 20

// largeRoom is that room. A kernel has at most one such frame, because the host learns that the frame was taken only
// when it is acknowledged; so no kernel waits for itself.
type largeRoom struct {
	ctx  context.Context // of the client
	room *semaphore.Weighted
}

func newLargeRoom(ctx context.Context) *largeRoom {
	return &largeRoom{ctx: ctx, room: semaphore.NewWeighted(largeMemory)}
}

func cost(size int) int64 { return min(2*int64(size), largeMemory) }

func (l *largeRoom) admit(size int) error { return l.room.Acquire(l.ctx, cost(size)) }
func (l *largeRoom) leave(size int)       { l.room.Release(cost(size)) }

// large reports whether encoded records arrived as a large frame.
func large(encoded []byte) bool { return len(encoded) > maxFirst }

// largeFrame is a large frame that Next returned and nobody has acknowledged.
type largeFrame struct {
	last uint64 // the number of its record
	size int
}
