package session

import (
	"context"
	"sync/atomic"
	"time"

	"talaria/api"
)

const (
	// The reserve, if none is configured, is a twentieth of the disk, within these bounds.
	leastReserve = 64 << 20
	mostReserve  = 1 << 30
	// A disk is checked as often as one that fills at fillRate needs, within these bounds.
	fillRate  = 2 << 30 // bytes per second
	leastLook = 50 * time.Millisecond
	mostLook  = time.Second
	// The reserve counts as restored when a fifth more than it is free, but at most this much more.
	reserveBack = 256 << 20
)

// reserve is the part of the state disk that new work may not use. Below it, sessions, executions, uploads and
// installations are refused, artifacts are not kept, and workspaces whose limits the operating system enforces are
// frozen; what exists can be read, what runs can write its log, and deletes give space back. The disk's ballast makes
// room for that when other programs fill the disk.
type reserve struct {
	low atomic.Bool
}

// watchReserve looks at the state disk until ctx ends.
func (m *Manager) watchReserve(ctx context.Context) {
	keepLooking(ctx, m.lookAtReserve)
	m.freeze(false) // the next server checks for itself
}

// keepLooking calls look until ctx ends, each time after the pause that the call before returned.
func keepLooking(ctx context.Context, look func() time.Duration) {
	pause := time.NewTimer(0)
	defer pause.Stop()
	for {
		select {
		case <-pause.C:
		case <-ctx.Done():
			return
		}
		pause.Reset(look())
	}
}

// lookAtReserve compares the free space with the reserve, and returns when to look again.
func (m *Manager) lookAtReserve() time.Duration {
	free, size, err := m.cfg.Disk.Room()
	if err != nil {
		m.cfg.Log.Warn("look at the state disk", "error", err)
		return mostLook
	}
	reserve := m.reserveOf(size)
	wait := lookAgain(free - reserve)
	if wait < mostLook || m.reserve.low.Load() {
		free -= m.pending()
		wait = lookAgain(free - reserve)
	}
	switch low := m.reserve.low.Load(); {
	case !low && free < reserve:
		m.reserve.low.Store(true)
		m.cfg.Log.Warn("the state disk is nearly full: no new work is accepted until there is space again", "free", free, "reserve", reserve)
	case low && free >= reserve+min(reserve/5, reserveBack):
		m.reserve.low.Store(false)
		m.cfg.Log.Info("the state disk has space again", "free", free, "reserve", reserve)
		m.setBallast()
		m.freeze(false)
	}
	if m.reserve.low.Load() {
		m.freeze(true) // at each look: a reset, a terminal or a program may have started another kernel
		if err := m.cfg.Disk.SpendBallast(m.pending()); err != nil {
			m.cfg.Log.Warn("free space on the state disk", "error", err)
		}
	}
	return wait
}

// reserveOf returns the reserve of a disk of that size.
func (m *Manager) reserveOf(size int64) int64 {
	if m.cfg.DiskReserve > 0 {
		return m.cfg.DiskReserve
	}
	return min(max(size/20, leastReserve), mostReserve)
}

// setBallast occupies a part of the reserve.
func (m *Manager) setBallast() {
	_, size, err := m.cfg.Disk.Room()
	if err == nil {
		err = m.cfg.Disk.SetBallast(m.reserveOf(size) / 2) // the server watches the other half being used up
	}
	if err != nil {
		m.cfg.Log.Warn("the state disk has no ballast, and may be full before the server notices", "error", err)
	}
}

func lookAgain(left int64) time.Duration {
	if left > 2*fillRate {
		return mostLook
	}
	return max(time.Duration(left)*mostLook/fillRate/2, leastLook)
}

// pending returns how much of the disk the workspaces will still take when they write back.
func (m *Manager) pending() (bytes int64) {
	for _, s := range m.withKernels() {
		bytes += s.dir.Pending()
		s.Release()
	}
	return bytes
}

// freeze freezes the workspaces of all sessions that have a kernel, or thaws those that are frozen.
func (m *Manager) freeze(frozen bool) {
	for _, s := range m.withKernels() {
		if err := s.freeze(frozen); err != nil {
			s.log.Warn("freeze or thaw a workspace", "frozen", frozen, "error", err)
		}
		s.Release()
	}
}

func (s *Session) freeze(frozen bool) error {
	s.mu.Lock()
	was, gone := s.frozen, s.gone
	s.mu.Unlock()
	if was == frozen || gone {
		return nil
	}
	now, err := frozen, error(nil)
	if frozen {
		now, err = s.dir.Freeze()
	} else {
		err = s.dir.Thaw()
	}
	if err == nil {
		s.mu.Lock()
		s.frozen = now
		s.mu.Unlock()
	}
	return err
}

// withKernels returns the sessions that have a kernel in a sandbox of their own, and those that are frozen. The caller releases each of them.
func (m *Manager) withKernels() (list []*Session) {
	for _, s := range m.all() {
		s.mu.Lock()
		if s.main == nil && (hasKernel(s.state) || s.frozen) {
			s.uses++ // it is not unloaded
			list = append(list, s)
		}
		s.mu.Unlock()
	}
	return list
}

// spare refuses new work while the state disk is down to its reserve.
func (m *Manager) spare() error {
	if m.reserve.low.Load() {
		return api.Errorf(api.CodeDiskFull, "the server's disk is nearly full, so it accepts no new work; existing sessions can still be read: "+
			"delete files or sessions, or ask the operator for more space")
	}
	return nil
}
