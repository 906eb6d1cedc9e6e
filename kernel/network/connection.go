package network

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"sync"
)

// half is a connection whose two directions can be ended separately.
type half interface {
	io.ReadWriteCloser
	CloseWrite() error
}

// connection is an open connection of a session.
type connection struct {
	n  *Network
	to target

	mu    sync.Mutex // guards the fields below
	outer half       // nil until connected
	inner half       // nil until spliced
	peer  netip.Addr // of outer; not valid if it is a socket without an address, or if the name is permission enough
	ended bool       // both sides are reset, and one that comes later is reset too
}

// admit checks whether a session may have one more connection to a target, and connects to it.
func (n *Network) admit(ctx context.Context, t target) (*connection, error) {
	if why := n.policy().permits(t); why != "" {
		n.deny("connection to", t.String(), why)
		return nil, refusal(why)
	}
	c := &connection{n: n, to: t}
	n.mu.Lock()
	switch {
	case n.closed:
		n.mu.Unlock()
		return nil, ErrClosed
	case len(n.open) >= n.cfg.MaxConnections:
		n.mu.Unlock()
		n.deny("connection to", t.String(), manyOpen)
		return nil, refusal(manyOpen)
	case n.spent():
		n.mu.Unlock()
		n.deny("connection to", t.String(), manyBytes)
		return nil, refusal(manyBytes)
	}
	n.open[c] = struct{}{}
	n.mu.Unlock()
	conn, err := n.dial(ctx, t)
	if err != nil {
		n.forget(c)
		return nil, err
	}
	outer, ok := conn.(half)
	if !ok {
		n.forget(c)
		return nil, errors.Join(errors.New("no TCP connection"), conn.Close())
	}
	ended := c.connected(outer)
	if policy := n.policy(); ended || policy.permits(t) != "" || !c.reached(policy) { // the policy was changed, or the network closed, meanwhile
		c.drop()
		return nil, refusal(changed)
	}
	return c, nil
}

// connected stores the connection to the target. It reports whether that has to end at once.
func (c *connection) connected(outer half) (ended bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.outer = outer
	if conn, ok := outer.(net.Conn); ok && c.to.name != HostName {
		if to, err := netip.ParseAddrPort(conn.RemoteAddr().String()); err == nil {
			c.peer = to.Addr().Unmap()
		}
	}
	return c.ended
}

// spent reports whether the byte budget is used up.
func (n *Network) spent() bool { return n.cfg.MaxBytes > 0 && n.bytes.Load() >= n.cfg.MaxBytes }

func (n *Network) forget(c *connection) {
	n.mu.Lock()
	delete(n.open, c)
	n.mu.Unlock()
}

// reached reports whether a policy permits the address that the connection ended up at.
func (c *connection) reached(p Policy) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.peer.IsValid() || p.address(c.peer, c.to.port, c.to.name != "")
}

// abort ends both sides at once, with a reset to each.
func (c *connection) abort() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended = true
	for _, side := range []half{c.outer, c.inner} {
		if side != nil {
			reset(side)
		}
	}
}

// drop is abort for a connection that is not spliced: nothing of it remains.
func (c *connection) drop() {
	c.abort()
	c.n.forget(c)
}

func reset(h half) {
	switch conn := h.(type) {
	case interface{ SetLinger(seconds int) error }:
		_ = conn.SetLinger(0)
	case interface{ Abort() }:
		conn.Abort()
	}
	_ = h.Close()
}

// splice carries bytes both ways until both directions have ended, and closes both sides.
func (c *connection) splice(inner half) {
	defer c.n.forget(c)
	c.mu.Lock()
	c.inner = inner
	outer, ended := c.outer, c.ended
	c.mu.Unlock()
	if ended {
		reset(inner)
	}
	var both sync.WaitGroup
	both.Go(func() { c.carry(outer, inner) })
	c.carry(inner, outer)
	both.Wait()
	_ = outer.Close()
	if keeps, ok := inner.(interface{ drain() }); ok {
		keeps.drain()
	}
	_ = inner.Close()
}

var buffers = sync.Pool{New: func() any { return new([128 << 10]byte) }}

// carry copies one direction. It passes a regular end on; any other end ends the connection.
func (c *connection) carry(to, from half) {
	buffer := buffers.Get().(*[128 << 10]byte)
	defer buffers.Put(buffer)
	for {
		got, err := from.Read(buffer[:])
		if got > 0 {
			c.n.bytes.Add(int64(got))
			if c.n.spent() {
				c.n.deny("connection to", c.to.String(), manyBytes)
				c.abort()
				return
			}
			if _, err := to.Write(buffer[:got]); err != nil {
				c.abort()
				return
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			if to.CloseWrite() != nil {
				c.abort()
			}
			return
		case err != nil:
			c.abort()
			return
		}
	}
}
