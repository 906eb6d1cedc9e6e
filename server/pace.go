package server

import (
	"errors"
	"sync"
	"time"
)

const (
	// stall is how long a client may take no byte at all before it is given up.
	stall = time.Minute
	// piece is how much is written under one deadline, so that a slow client that takes bytes is never cut off.
	piece = 64 << 10
)

var errCut = errors.New("cut off")

// pacer sets write deadlines that move as bytes are taken, until it is cut: then every write fails, also one that
// waits. It is safe for concurrent use.
type pacer struct {
	setDeadline func(time.Time) error

	mu    sync.Mutex // guards all below, and the order of calls of setDeadline
	limit time.Time  // an earlier deadline, or zero
	dead  bool
}

// write passes p on in pieces.
func (p *pacer) write(write func([]byte) (int, error), data []byte) (written int, err error) {
	for {
		if err := p.extend(); err != nil {
			return written, err
		}
		n, err := write(data[:min(len(data), piece)])
		written += n
		data = data[n:]
		if err != nil || len(data) == 0 {
			return written, err
		}
	}
}

func (p *pacer) extend() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.dead {
		return errCut
	}
	deadline := time.Now().Add(stall)
	if !p.limit.IsZero() && p.limit.Before(deadline) {
		deadline = p.limit
	}
	return p.setDeadline(deadline)
}

// bound makes all writes end at t, also one that waits; zero takes the bound away.
func (p *pacer) bound(t time.Time) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.limit = t
	if p.dead {
		return nil
	}
	return p.setDeadline(t)
}

// cut fails all writes from now on.
func (p *pacer) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.dead = true
	_ = p.setDeadline(time.Unix(1, 0)) // fails only when there is nothing left to cut
}
