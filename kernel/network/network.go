package network

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"sync"
	"sync/atomic"
)

// Config is what a [Network] needs.
type Config struct {
	Policy         Policy
	MaxConnections int           // open at a time; 0: DefaultMaxConnections
	MaxBytes       int64         // in both directions together, over the life of the network; 0: any number
	Resolver       *net.Resolver // nil: this machine's
	Denied         func(Denial)  // is told what was refused, or some of it; must not block
	Log            *slog.Logger
}

// DefaultMaxConnections is how many connections a session may have open if nothing is configured.
const DefaultMaxConnections = 256

// Network is the egress of one session. Its methods are safe for concurrent use.
type Network struct {
	cfg     Config
	rules   atomic.Pointer[Policy]
	names   *names
	denials denials
	ctx     context.Context // ends with Close
	cancel  context.CancelCauseFunc
	bytes   atomic.Int64
	work    sync.WaitGroup // every goroutine

	mu     sync.Mutex
	closed bool
	open   map[*connection]struct{}
	ends   []func() // close what was attached
}

// ErrClosed reports that a network was closed.
var ErrClosed = errors.New("the network is closed")

// New makes a network with nothing attached to it.
func New(cfg Config) *Network {
	if cfg.MaxConnections <= 0 {
		cfg.MaxConnections = DefaultMaxConnections
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	n := &Network{cfg: cfg, names: newNames(), open: map[*connection]struct{}{}}
	n.denials.tell = func(d Denial) {
		n.cfg.Log.Info("network denied", "what", d.What, "target", d.Target, "why", d.Why)
		if n.cfg.Denied != nil {
			n.cfg.Denied(d)
		}
	}
	n.rules.Store(&cfg.Policy)
	n.ctx, n.cancel = context.WithCancelCause(context.Background())
	return n
}

// SetPolicy sets the policy for new connections, and ends open connections that it does not permit.
func (n *Network) SetPolicy(p Policy) {
	n.rules.Store(&p)
	n.mu.Lock()
	var ended []*connection
	for c := range n.open {
		if p.permits(c.to) != "" || !c.reached(p) {
			ended = append(ended, c)
		}
	}
	n.mu.Unlock()
	for _, c := range ended {
		n.deny("connection to", c.to.String(), changed)
		c.abort()
	}
}

func (n *Network) policy() Policy { return *n.rules.Load() }

// TellAgain makes refusals that were already reported be reported once more. The kernel calls it for each cell, so
// that the user of a cell reads what that cell was refused.
func (n *Network) TellAgain() { n.denials.again() }

// Bytes returns how many bytes have passed in both directions.
func (n *Network) Bytes() int64 { return n.bytes.Load() }

// Close ends everything and waits until nothing is running. It is idempotent.
func (n *Network) Close() {
	n.mu.Lock()
	ends := n.ends
	n.closed, n.ends = true, nil
	open := n.open
	n.open = map[*connection]struct{}{}
	n.mu.Unlock()
	n.cancel(ErrClosed)
	for c := range open {
		c.abort()
	}
	for _, end := range ends {
		end()
	}
	n.work.Wait()
}

// attach keeps end for Close.
func (n *Network) attach(end func()) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		return ErrClosed
	}
	n.ends = append(n.ends, end)
	return nil
}

func (n *Network) deny(what, target, why string) {
	n.denials.add(Denial{Target: clip(target), What: what, Why: why})
}

// clip bounds the text that a session can make us report.
func clip(s string) string {
	if len(s) > 300 {
		return s[:300] + "…"
	}
	return s
}

// AttachDevice makes a TCP/IP stack answer on a TUN device, whose one end is file. It owns file from now on.
func (n *Network) AttachDevice(file *os.File) error {
	s, err := newStack(n, file)
	if err != nil {
		return errors.Join(err, file.Close())
	}
	if err := n.attach(s.close); err != nil {
		s.close()
		return err
	}
	return nil
}
