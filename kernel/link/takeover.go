package link

import (
	"context"
	"fmt"

	"talaria/kernel/command"
)

// start serves a connection that begins by starting a kernel.
func (s *server) start(c *conn, first request) {
	var in startBody
	err := first.decode(&in)
	if err == nil && s.cfg.protocol.common(Versions{in.Protocol, in.Protocol}) == 0 {
		err = errProtocol
	}
	files := 0
	for _, here := range []bool{in.Workspace, in.Packages} {
		if here {
			files++
		}
	}
	if err == nil && files != len(c.files) {
		err = fmt.Errorf("start: %d directories came, %d are announced", len(c.files), files)
	}
	k := s.newKernelConn(c, in.Key)
	var had holder
	if err == nil {
		had, err = s.begin(k, in.Spec.Beside != "")
	}
	if err != nil {
		k.cancel()
		_ = c.answer(first.N, nil, err)
		return
	}
	defer s.release()
	if in.Protocol < (command.AnswerInstall{}).Spec().Since { // its server would not know what to do about a request
		in.Spec.NoInstalls = "the server is of a version that cannot do that"
	}
	if in.Protocol < (command.AnswerAfter{}).Spec().Since {
		in.Spec.NoAfter = "checkpoints can only be asked for from outside: the server is of an earlier version"
	}
	took := c.files
	if in.Protocol < (command.AnswerTool{}).Spec().Since {
		in.Spec.NoTools = "tools cannot be called here: the server is of an earlier version"
	}
	if in.Workspace {
		in.Spec.Workspace, took = took[0], took[1:]
	}
	if in.Packages {
		in.Spec.Packages = took[0]
	}
	ctx, cancel := context.WithCancel(k.ctx)
	k.start.cancel, k.start.done = cancel, make(chan struct{})
	k.others.Go(func() {
		defer close(k.start.done)
		info, err := s.host.Start(ctx, in.Key, in.Env, in.Spec)
		c.closeFiles()
		k.start.ok = err == nil
		lease := s.begun(k, had, err == nil)
		k.start.told = c.answer(first.N, startReply{Lease: lease, Info: info}, err) == nil
	})
	k.serve()
}

// begin reserves the key for a start. A host that takes no new kernels takes those that run beside one that it has.
func (s *server) begin(k *kernelConn, beside bool) (had holder, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch had = s.holders[k.key]; {
	case s.closing:
		return had, command.ErrHostClosed
	case s.retired && !beside:
		return had, errRetired
	case had.conn != nil && !isClosed(had.conn.done):
		return had, command.ErrKernelExists
	}
	s.starting++
	s.leases++
	s.holders[k.key] = holder{s.leases, k}
	s.count(1)
	return had, nil
}

// begun completes what begin began.
func (s *server) begun(k *kernelConn, had holder, ok bool) (lease uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.starting--
	now := s.holders[k.key]
	if now.conn == k && !ok {
		delete(s.holders, k.key)
		if had.lease != 0 {
			s.holders[k.key] = had
		}
	}
	return now.lease
}

// attach serves a connection that begins by taking over a kernel.
func (s *server) attach(c *conn, first request) {
	var in attachBody
	err := first.decode(&in)
	if err == nil && s.cfg.protocol.common(Versions{in.Protocol, in.Protocol}) == 0 {
		err = errProtocol
	}
	if err != nil {
		_ = c.answer(first.N, nil, err)
		return
	}
	k := s.newKernelConn(c, in.Key)
	lease, err := s.take(k, in.Lease)
	if err != nil {
		k.cancel()
		_ = c.answer(first.N, nil, err)
		return
	}
	defer s.release()
	a, err := s.host.Attach(k.ctx, in.Key)
	if err != nil {
		k.finish()
		s.drop(k)
		_ = c.answer(first.N, nil, err)
		return
	}
	if c.answer(first.N, attachReply{Lease: lease, Attachment: a}, nil) != nil {
		k.cancel()
	}
	k.serve()
}

// take makes k the connection of its kernel: it cuts the previous one off and waits until nothing of it is obeyed any
// more. With a lease it fails if another connection has come since the lease was given.
func (s *server) take(k *kernelConn, lease uint64) (uint64, error) {
	s.mu.Lock()
	old := s.holders[k.key]
	if lease != 0 && old.lease != lease {
		s.mu.Unlock()
		return 0, ErrTakenOver
	}
	s.leases++
	lease = s.leases
	s.holders[k.key] = holder{lease, k}
	s.count(1)
	s.mu.Unlock()
	if old.conn != nil {
		old.conn.cut()
	}
	return lease, nil
}

// release ends a connection that begin or take let in.
func (s *server) release() {
	s.mu.Lock()
	s.count(-1)
	s.mu.Unlock()
	s.check()
}

// drop forgets who held a key that is no longer known.
func (s *server) drop(k *kernelConn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.holders[k.key].conn == k {
		delete(s.holders, k.key)
	}
}
