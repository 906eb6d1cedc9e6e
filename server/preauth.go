package server

import (
	"container/list"
	"context"
	"net"
	"net/http"
	"sync"
	"time"
)

// lobby bounds the connections of all listeners on which no authenticated request is under way: a new one closes the oldest.
// A client with a token leaves the lobby during its requests. It is safe for concurrent use.
type lobby struct {
	stall time.Duration

	mu        sync.Mutex // guards the fields below and the seats of connections
	strangers bench      // never authenticated, by address
	idle      bench      // waiting for the next request of a known caller, by caller
}

// bench is a queue of connections, each of a guest: an address or a caller.
type bench struct {
	total, each int       // the most connections, in total and for one guest
	queue       list.List // of *conn, oldest first
	of          map[string]int
}

// seat is the place of a connection in the lobby. The zero value means none.
type seat struct {
	bench  *bench
	place  *list.Element
	guest  string
	caller string // whose requests came on the connection; "" for a stranger
}

// newLobby bounds the connections on both benches by total. One guest gets no more than half of a bench.
func newLobby(total int, stall time.Duration) *lobby {
	half := max(total/2, 1)
	return &lobby{
		stall:     stall,
		strangers: bench{total: total, each: half, of: map[string]int{}},
		idle:      bench{total: total, each: half, of: map[string]int{}},
	}
}

// door is a listener whose connections enter a lobby.
type door struct {
	net.Listener
	lobby *lobby
}

// Accept implements [net.Listener].
func (d door) Accept() (net.Conn, error) {
	accepted, err := d.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return d.lobby.enter(accepted), nil
}

func (l *lobby) enter(accepted net.Conn) *conn {
	c := &conn{Conn: accepted, stall: l.stall, lobby: l}
	l.mu.Lock()
	evicted := l.strangers.sit(c, addressOf(accepted.RemoteAddr().String()))
	l.mu.Unlock()
	evict(evicted)
	return c
}

// call takes a connection out of the lobby: an authenticated request of caller is under way on it.
func (l *lobby) call(c *conn, caller string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	c.seat.leave()
	c.seat.caller = caller
}

// rest takes back a connection that waits for the next request. A stranger's never left.
func (l *lobby) rest(c *conn) {
	l.mu.Lock()
	var evicted *conn
	if c.seat.bench == nil {
		evicted = l.idle.sit(c, c.seat.caller)
	}
	l.mu.Unlock()
	evict(evicted)
}

func (l *lobby) leave(c *conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	c.seat.leave()
}

func evict(c *conn) {
	if c != nil {
		_ = c.Close() // the client could have used it; there is nobody to tell
	}
}

// sit appends c, and returns the connection that has to make room for it: the guest's oldest if the guest has too
// many, else the oldest of all.
func (b *bench) sit(c *conn, guest string) (evicted *conn) {
	greedy := b.of[guest] >= b.each
	if greedy || b.queue.Len() >= b.total {
		for place := b.queue.Front(); place != nil && evicted == nil; place = place.Next() {
			if oldest := place.Value.(*conn); !greedy || oldest.seat.guest == guest {
				evicted = oldest
			}
		}
		evicted.seat.leave()
	}
	b.of[guest]++
	c.seat.bench, c.seat.guest, c.seat.place = b, guest, b.queue.PushBack(c)
	return evicted
}

func (s *seat) leave() {
	b := s.bench
	if b == nil {
		return
	}
	b.queue.Remove(s.place)
	if b.of[s.guest]--; b.of[s.guest] == 0 {
		delete(b.of, s.guest)
	}
	s.bench, s.place = nil, nil
}

type connKey struct{}

// withConn is what [http.Server.ConnContext] keeps for the requests of a connection.
func withConn(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, c)
}

// connOf returns the connection of a request, or nil if it did not come through the lobby.
func connOf(r *http.Request) *conn {
	c, _ := r.Context().Value(connKey{}).(*conn)
	return c
}

// connState is for [http.Server.ConnState].
func connState(c net.Conn, state http.ConnState) {
	if ours, ok := c.(*conn); ok && state == http.StateIdle {
		ours.lobby.rest(ours)
	}
}
