package session

import (
	"context"
	"errors"
	"time"

	"talaria/api"
	"talaria/kernel/cgroup"
	"talaria/kernel/command"
	"talaria/kernel/machine"
)

const (
	// The reserve of memory, if none is configured, is a twentieth of it, within these bounds.
	leastMemoryReserve = 128 << 20
	mostMemoryReserve  = 1 << 30
	// restBefore is how long nobody has used a kernel that hibernates for want of memory.
	restBefore = 10 * time.Second
)

// memoryLeft is how much memory this process and all that it starts may use. It is safe for concurrent use.
type memoryLeft struct {
	bounds cgroup.MemoryBounds
}

// read returns the memory of the machine and what is left of it, or the limit of a control group above this process and what that
// leaves, whichever is less. Both are in bytes.
func (m memoryLeft) read(ctx context.Context) (total, left int64, err error) {
	if total, left, err = machine.Memory(ctx); err != nil {
		return 0, 0, err
	}
	limit, rest, ok, err := m.bounds.Read()
	if ok {
		total, left = min(total, limit), min(left, rest)
	}
	return total, left, err
}

// watchMemory looks at the memory until ctx ends, and has kernels hibernate that nobody uses when less than the reserve is left.
func (m *Manager) watchMemory(ctx context.Context) {
	keepLooking(ctx, func() time.Duration { return m.lookAtMemory(ctx) })
}

// lookAtMemory compares the memory that is left with the reserve, gives some back if it is less, and returns when to look again. Memory
// counts as filling as fast as a disk.
func (m *Manager) lookAtMemory(ctx context.Context) time.Duration {
	total, left, err := m.memory.read(ctx)
	if err != nil {
		m.cfg.Log.Debug("look at the memory", "error", err)
		return mostLook
	}
	reserve := m.cfg.MemoryReserve
	if reserve == 0 {
		reserve = min(max(total/20, leastMemoryReserve), mostMemoryReserve)
	}
	low := left < reserve
	if low != m.lowMemory {
		m.lowMemory = low
		if low {
			m.cfg.Log.Warn("little memory is left: kernels that nobody uses hibernate, the longest unused first", "left", left, "reserve", reserve)
		} else {
			m.cfg.Log.Info("there is enough memory again", "left", left, "reserve", reserve)
		}
	}
	switch {
	case !low:
		return lookAgain(left - reserve)
	case m.giveMemoryBack(ctx):
		return leastLook
	}
	return mostLook
}

// giveMemoryBack has one kernel hibernate, the one that nobody has used for the longest time, or ends a copy of an interpreter if no kernel
// can. It reports false if there is nothing left that it can do.
func (m *Manager) giveMemoryBack(ctx context.Context) bool {
	s := m.longestUnused(func(s *Session) bool { return s.stays != s.lastActive && s.canGiveWay() })
	if s == nil {
		return m.endCopy(ctx, map[*Session]bool{}, "the server had little memory left") == nil
	}
	s.mu.Lock()
	s.stays = s.lastActive // one attempt, until it is used again
	s.mu.Unlock()
	waiting, cancel := context.WithTimeout(ctx, otherWait)
	defer cancel()
	err := s.do(waiting, s.giveWay)
	if err != nil && !errors.Is(err, ErrClosing) && !errors.Is(err, ErrDeleted) {
		s.log.Warn("an idle kernel cannot hibernate, though little memory is left", "error", err)
	}
	return true
}

// canGiveWay reports whether the kernel may hibernate for want of memory: nobody has used it for a while, and its session lets idle
// kernels hibernate. The caller holds s.mu.
func (s *Session) canGiveWay() bool {
	return s.reapAt() != nil && s.whenIdle() == api.OnIdleHibernate && time.Since(time.UnixMilli(s.lastActive)) >= restBefore
}

// giveWay has the kernel hibernate if it still may, and no terminal is open and no program runs beside it. On the session's goroutine.
func (s *Session) giveWay(ctx context.Context) error {
	s.mu.Lock()
	may := s.canGiveWay()
	s.mu.Unlock()
	if !may {
		return nil
	}
	programs, err := s.programs.List(ctx)
	if err != nil || len(programs) > 0 {
		return err
	}
	terminals, err := s.terminals.List(ctx)
	if err != nil || len(terminals) > 0 {
		return err
	}
	saved, err := s.hibernate(ctx)
	if errors.Is(err, command.ErrUnresponsive) {
		return nil // the host's heartbeat says so
	}
	if err == nil {
		s.log.Info("an idle kernel hibernates for lack of memory", "bytes", saved.Bytes, "not_saved", len(saved.NotSaved))
	}
	return err
}
