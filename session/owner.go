package session

import (
	"sync"

	"talaria/api"
)

// maxQueuedBytes bounds the code queued in one session, maxOwnerQueued the code queued in all sessions of an owner.
const (
	maxQueuedBytes = 64 << 20
	maxOwnerQueued = 256 << 20
)

// owners counts what each owner has. It is safe for concurrent use.
type owners struct {
	mu      sync.Mutex // guards the fields below
	uses    map[string]*ownerUse
	kernels int64 // of all owners
}

type ownerUse struct {
	sessions int64
	kernels  int64 // sessions that have one, or are about to
	queued   int64 // bytes of code that waits or runs
}

func newOwners() *owners { return &owners{uses: map[string]*ownerUse{}} }

// add changes what an owner has.
func (o *owners) add(owner string, change ownerUse) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.of(owner).add(change)
	o.kernels += change.kernels
	if *o.uses[owner] == (ownerUse{}) {
		delete(o.uses, owner)
	}
}

// take changes what an owner has, unless allowed says why not. kernels are those of all owners.
func (o *owners) take(owner string, change ownerUse, allowed func(now ownerUse, kernels int64) error) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	use := o.of(owner)
	if err := allowed(*use, o.kernels); err != nil {
		return err
	}
	use.add(change)
	o.kernels += change.kernels
	return nil
}

// of returns the owner's use. The caller holds mu.
func (o *owners) of(owner string) *ownerUse {
	use := o.uses[owner]
	if use == nil {
		use = &ownerUse{}
		o.uses[owner] = use
	}
	return use
}

func (u *ownerUse) add(c ownerUse) {
	u.sessions += c.sessions
	u.kernels += c.kernels
	u.queued += c.queued
}

// takeSession counts a new session, with a kernel if it is about to have one, unless there are too many.
func (m *Manager) takeSession(owner string, use ownerUse) error {
	return m.owners.take(owner, use, func(now ownerUse, kernels int64) error {
		if most := m.cfg.OwnerSessions; most > 0 && now.sessions >= most {
			return api.Errorf(api.CodeSessionLimit, "you have %d sessions, the server's limit for one owner (owner_sessions); delete some", most)
		}
		if use.kernels == 0 {
			return nil
		}
		return m.kernelAllowed(now, kernels)
	})
}

func (m *Manager) kernelAllowed(now ownerUse, kernels int64) error {
	if most := m.cfg.MaxSessions; most > 0 && kernels >= most {
		return api.Errorf(api.CodeSessionLimit,
			"%d sessions have a kernel, the server's limit (max_sessions); delete one, or wait until an idle kernel is stopped", kernels)
	}
	if most := m.cfg.OwnerKernels; most > 0 && now.kernels >= most {
		return api.Errorf(api.CodeSessionLimit,
			"%d of your sessions have a kernel, the server's limit for one owner (owner_kernels); delete one, or wait until an idle kernel is stopped", most)
	}
	return nil
}

// takeKernel counts a kernel that is about to start, unless there are too many. The session's state counts it from when the start is
// committed; the caller calls freeKernel in any case.
func (s *Session) takeKernel() error {
	err := s.m.owners.take(s.owner, ownerUse{kernels: 1}, s.m.kernelAllowed)
	if err == nil {
		s.mu.Lock()
		s.kernelTaken = true
		s.mu.Unlock()
	}
	return err
}

// freeKernel undoes takeKernel, unless the state counts the kernel.
func (s *Session) freeKernel() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.kernelTaken {
		s.kernelTaken = false
		s.m.owners.add(s.owner, ownerUse{kernels: -1})
	}
}

// takeQueued counts code that is about to wait, unless too much waits already.
func (s *Session) takeQueued(bytes int64) error {
	s.mu.Lock()
	waiting := s.queuedBytes
	s.mu.Unlock()
	if waiting+bytes > maxQueuedBytes && waiting > 0 {
		return api.Errorf(api.CodeQueueFull, "%d bytes of code are queued in this session, and the limit is %d; wait for executions to end, or interrupt",
			waiting, maxQueuedBytes)
	}
	err := s.m.owners.take(s.owner, ownerUse{queued: bytes}, func(now ownerUse, _ int64) error {
		if now.queued+bytes > maxOwnerQueued {
			return api.Errorf(api.CodeQueueFull, "%d bytes of code are queued in your sessions, and the limit is %d; wait for executions to end, or interrupt",
				now.queued, maxOwnerQueued)
		}
		return nil
	})
	if err == nil {
		s.mu.Lock()
		s.queuedBytes += bytes
		s.mu.Unlock()
	}
	return err
}

// freeQueued undoes takeQueued. The caller holds s.mu.
func (s *Session) freeQueued(bytes int64) {
	s.queuedBytes -= bytes
	s.m.owners.add(s.owner, ownerUse{queued: -bytes})
}

// hasKernel reports whether a session in this state counts as one with a kernel.
func hasKernel(state api.SessionState) bool {
	return state == api.StateStarting || state == api.StateIdle || state == api.StateBusy
}

// countState keeps the number of the owner's kernels. The caller holds s.mu.
func (s *Session) countState(from, to api.SessionState) {
	switch was, is := hasKernel(from), hasKernel(to); {
	case is && !was && s.kernelTaken:
		s.kernelTaken = false
	case is && !was:
		s.m.owners.add(s.owner, ownerUse{kernels: 1})
	case was && !is:
		s.m.owners.add(s.owner, ownerUse{kernels: -1})
	}
}
