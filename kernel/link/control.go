package link

import (
	"context"
	"fmt"
	"sync"

	"talaria/kernel"
	"talaria/kernel/command"
	"talaria/kernel/host"
	"talaria/kernel/record"
)

// HostStats is what a living host reports about itself.
type HostStats struct {
	ID      string         `json:"id"`
	Build   string         `json:"build"`
	Version string         `json:"version"`
	Tier    string         `json:"tier"` // of isolation
	Retired bool           `json:"retired"`
	Kernels int            `json:"kernels"`
	Pool    host.PoolStats `json:"pool"`
}

// control serves the control connection of a server, which begins with hello.
func (s *server) control(c *conn, hello request) {
	var in helloBody
	if err := hello.decode(&in); err != nil {
		_ = c.answer(hello.N, nil, err)
		return
	}
	s.mu.Lock()
	out := helloReply{
		ID: s.folder.ID, Protocol: s.cfg.protocol, Agreed: s.cfg.protocol.common(in.Protocol),
		Build: s.cfg.Build, Version: s.cfg.Version, Instance: s.cfg.Instance, Retired: s.retired,
	}
	s.mu.Unlock()
	saver := &saver{s: s}
	defer saver.ready()
	var refused error
	if out.Agreed == 0 {
		refused = mismatch(out, in.Protocol)
	} else {
		s.connected(1)
		defer s.connected(-1)
		if in.Ending {
			_ = saver.asks() // what it is told is the answer to its request
		}
	}
	ctx, cancel := context.WithCancel(s.ctx)
	var slow sync.WaitGroup
	defer slow.Wait()
	defer cancel()
	err := c.answer(hello.N, out, refused)
	for err == nil {
		var r request
		if r, err = c.readRequest(); err != nil {
			return
		}
		switch {
		case r.Op == opStop:
			err = c.answer(r.N, nil, nil)
			s.end(errStopped)
		case refused != nil:
			err = c.answer(r.N, nil, refused)
		case r.Op == opEnding:
			if refused := saver.asks(); refused != nil {
				err = c.answer(r.N, nil, refused)
				continue
			}
			slow.Go(func() {
				if keys, err := s.running(ctx); err == nil {
					_ = c.answer(r.N, keys, nil)
				}
			})
		case r.Op == opReady:
			saver.ready()
			err = c.answer(r.N, nil, nil)
		case r.Op == opSweep:
			slow.Go(func() { _ = c.answer(r.N, nil, s.sweep(ctx, r)) })
		case r.Op == opUsages:
			slow.Go(func() {
				usages, err := s.usages(ctx, r)
				_ = c.answer(r.N, usages, err)
			})
		default:
			err = s.answer(c, r)
		}
	}
}

// mismatch is the error for a server and a host that have no version in common.
func mismatch(host helloReply, server Versions) error {
	return fmt.Errorf("%w: host %s (version %s) speaks %d to %d, the server %d to %d; "+
		"run the server's version that started the host, or end the host and its kernels with \"talaria host stop\"",
		errProtocol, host.ID, host.Version, host.Protocol.Min, host.Protocol.Max, server.Min, server.Max)
}

// answer obeys a request that does not take long.
func (s *server) answer(c *conn, r request) error {
	switch r.Op {
	case opBeat:
		return c.answer(r.N, nil, nil)
	case opKernels:
		keys, err := s.host.Kernels(s.ctx)
		return c.answer(r.N, keys, err)
	case opWarm:
		var envs []kernel.Environment
		err := r.decode(&envs)
		if err == nil {
			s.host.Warm(envs)
		}
		return c.answer(r.N, nil, err)
	case opRetire:
		s.mu.Lock()
		news := !s.retired
		s.retired = true
		s.mu.Unlock()
		if news {
			s.log.Info("the host takes no new kernels")
		}
		err := c.answer(r.N, nil, nil)
		s.check()
		return err
	case opStats:
		return c.answer(r.N, s.stats(), nil)
	}
	return c.answer(r.N, nil, fmt.Errorf("the host does not know the request %q", r.Op))
}

func (s *server) usages(ctx context.Context, r request) ([]command.KernelUsage, error) {
	var keys []record.Key
	if err := r.decode(&keys); err != nil {
		return nil, err
	}
	ctx, cancel := r.context(ctx)
	defer cancel()
	return s.host.Usages(ctx, keys)
}

func (s *server) sweep(ctx context.Context, r request) error {
	var in sweepBody
	if err := r.decode(&in); err != nil {
		return err
	}
	ctx, cancel := r.context(ctx)
	defer cancel()
	if in.Instance == "" || in.Instance == s.cfg.Instance {
		return s.host.Sweep(ctx, in.Handles)
	}
	if s.cfg.SweepDead == nil {
		return nil
	}
	return s.cfg.SweepDead(ctx, in.Instance, in.Handles)
}

func (s *server) stats() HostStats {
	keys, _ := s.host.Kernels(s.ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	return HostStats{
		ID: s.folder.ID, Build: s.cfg.Build, Version: s.cfg.Version, Tier: s.cfg.Tier, Retired: s.retired, Kernels: len(keys), Pool: s.host.PoolStats(),
	}
}
