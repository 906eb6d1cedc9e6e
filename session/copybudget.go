package session

import (
	"context"
	"errors"
	"fmt"
	"time"

	"talaria/store"
)

// copiesShare is the part of the memory, as a divisor, that the copies of all interpreters may take by default.
const copiesShare = 8

// copyCost is about what a copy of an interpreter takes before either side writes to its memory: page tables, and what the fork
// itself writes to. The host cannot tell it from what the interpreter shares with others.
const copyCost = 3 << 20

// otherWait bounds the wait for a session that has something else to do than to give memory back.
const otherWait = 5 * time.Second

// copiesBound is what the copies of all interpreters may take.
func (m *Manager) copiesBound(ctx context.Context) int64 {
	if m.cfg.CopiesBytes > 0 {
		return m.cfg.CopiesBytes
	}
	total, _, err := m.memory.read(ctx)
	if err != nil {
		m.cfg.Log.Warn("the copies of interpreters have no bound", "error", err)
	}
	return total / copiesShare
}

// holds notes what the copies of the session's interpreter take in addition to it.
func (s *Session) holds(bytes int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.checkpoints.held = bytes
}

// boundCopies ends the oldest copies of the sessions that nobody has used for the longest time, until all of them together take no more
// than they may. Copies of checkpoints with a name stay. One caller at a time.
func (m *Manager) boundCopies(ctx context.Context) {
	spared := map[*Session]bool{}
	why := fmt.Sprintf("the copies of all sessions took more than %d bytes", m.copies)
	for m.copies > 0 && m.heldByCopies() > m.copies && m.endCopy(ctx, spared, why) == nil {
	}
}

// heldByCopies is about what the copies of all interpreters take.
func (m *Manager) heldByCopies() (total int64) {
	for _, s := range m.all() {
		s.mu.Lock()
		total += s.checkpoints.held
		s.mu.Unlock()
	}
	return total
}

// endCopy ends the oldest copy of the session that nobody has used for the longest time, for a reason that is for people, and returns
// errNoCopy if there is none. Sessions without a copy that can be ended are added to spared.
func (m *Manager) endCopy(ctx context.Context, spared map[*Session]bool, why string) error {
	for {
		s := m.longestUnused(func(s *Session) bool { return s.checkpoints.held > 0 && !spared[s] })
		if s == nil {
			return errNoCopy
		}
		waiting, cancel := context.WithTimeout(ctx, otherWait)
		err := s.do(waiting, func(own context.Context) error { return s.endOldestCopy(own, why) })
		cancel()
		if err == nil || errors.Is(err, ErrClosing) {
			return err
		}
		if !errors.Is(err, errNoCopy) && !errors.Is(err, ErrDeleted) {
			s.log.Warn("end a copy of the interpreter", "error", err)
		}
		spared[s] = true
	}
}

// longestUnused returns the session that nobody has used for the longest time, of those that qualify, or nil. qualifies is called with
// the session's lock held.
func (m *Manager) longestUnused(qualifies func(*Session) bool) (longest *Session) {
	var since int64
	for _, s := range m.all() {
		s.mu.Lock()
		if qualifies(s) && (longest == nil || s.lastActive < since) {
			longest, since = s, s.lastActive
		}
		s.mu.Unlock()
	}
	return longest
}

var errNoCopy = errors.New("no copy can be ended")

// endOldestCopy leaves the oldest live checkpoint without a name its files only, or returns errNoCopy. On the session's goroutine.
func (s *Session) endOldestCopy(ctx context.Context, why string) error {
	rows, err := s.m.cfg.Store.Checkpoints(ctx, s.n)
	if err != nil {
		return err
	}
	var oldest *store.Checkpoint
	copies := int64(0)
	for i, row := range rows { // newest first
		if row.Copy == "" {
			continue
		}
		copies++
		if row.Name == "" {
			oldest = &rows[i]
		}
	}
	if oldest == nil {
		return errNoCopy
	}
	err = s.journal.commit(context.WithoutCancel(ctx), copyEnded(*oldest, "server_memory",
		"the copy of the interpreter was ended: "+why+", and this session had been unused the longest"))
	if err != nil {
		return err
	}
	s.dropCopies(context.WithoutCancel(ctx), []store.Checkpoint{*oldest})
	s.mu.Lock()
	defer s.mu.Unlock()
	s.checkpoints.held -= s.checkpoints.held / copies // as if all took the same
	return nil
}
