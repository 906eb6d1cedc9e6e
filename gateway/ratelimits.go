package gateway

import (
	"context"
	"sync"
	"time"

	"talaria/store/chats"
)

// paces has the pace of each chat that was written to lately. It is safe for concurrent use.
type paces struct {
	tempo tempo

	mu   sync.Mutex // guards what follows
	all  map[string]pace
	last time.Time // when a message was sent to any chat
}

// loadPaces reads the stored paces.
func loadPaces(ctx context.Context, store *chats.Store, t tempo) (*paces, error) {
	p := &paces{tempo: t, all: make(map[string]pace)}
	return p, store.Do(ctx, func(tx *chats.Tx) error {
		kept, err := tx.Paces()
		for chat, body := range kept {
			p.all[chat] = decoded[pace](body)
		}
		return err
	})
}

// ready is when a message, or an album of n, may be sent.
func (p *paces) ready(c Chat, n int, preview bool) time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	return later(p.of(c.ID, now).ready(p.tempo, n, c.Group, preview, now), p.last.Add(p.tempo.all))
}

func (p *paces) of(chat string, now time.Time) pace {
	one, ok := p.all[chat]
	if !ok {
		one = p.tempo.newPace(now)
	}
	return one
}

// forget drops the paces of chats that may be written to like new ones, and returns their ids.
func (p *paces) forget() (chats []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	for chat, one := range p.all {
		if one.idle(p.tempo, now) {
			delete(p.all, chat)
			chats = append(chats, chat)
		}
	}
	return chats
}

// take counts a message that is sent now, if one may be, and returns the pace to store.
func (p *paces) take(c Chat, n int, preview bool) (pace, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	one := p.of(c.ID, now)
	if later(one.ready(p.tempo, n, c.Group, preview, now), p.last.Add(p.tempo.all)).After(now) {
		return one, false
	}
	one = one.took(p.tempo, n, c.Group, now)
	p.all[c.ID], p.last = one, now
	return one, true
}

// park records that the platform wants nothing to be sent for a while, and returns the pace to store.
func (p *paces) park(c Chat, pause time.Duration) pace {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	one := p.of(c.ID, now).park(now.Add(pause))
	p.all[c.ID] = one
	return one
}
