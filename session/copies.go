package session

import (
	"context"
	"errors"
	"fmt"
	"time"

	"talaria/kernel/machine"
	"talaria/store"
)

// copiesShare is the part of the machine's memory, as a divisor, that the copies of all interpreters may take by default.
const copiesShare = 8

// copyCost is about what a copy of an interpreter takes before either side writes to its memory: page tables, and what the fork
// itself writes to. The host cannot tell it from what the interpreter shares with others.
const copyCost = 3 << 20

// endCopyWait bounds the wait for a session that has something else to do.
const endCopyWait = 5 * time.Second

// copiesBound is what the copies of all interpreters may take.
func (m *Manager) copiesBound(ctx context.Context) int64 {
	if m.cfg.CopiesBytes > 0 {
		return m.cfg.CopiesBytes
	}
	figures, _ := machine.Read(ctx, m.cfg.SessionsDir) // 0 is no bound: where no memory can be read, none can be shared out
	return figures.MemoryBytes / copiesShare
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
	for {
		var total, since int64
		var longest *Session
		for _, s := range m.all() {
			s.mu.Lock()
			held, last := s.checkpoints.held, s.lastActive
			s.mu.Unlock()
			total += held
			if held > 0 && !spared[s] && (longest == nil || last < since) {
				longest, since = s, last
			}
		}
		if total <= m.copies || m.copies == 0 || longest == nil {
			return
		}
		waiting, cancel := context.WithTimeout(ctx, endCopyWait)
		err := longest.do(waiting, longest.endOldestCopy)
		cancel()
		switch {
		case errors.Is(err, ErrClosing):
			return
		case err != nil && !errors.Is(err, errNoCopy) && !errors.Is(err, ErrDeleted):
			m.cfg.Log.Warn("end a copy of an interpreter", "error", err)
		}
		spared[longest] = err != nil
	}
}

var errNoCopy = errors.New("no copy can be ended")

// endOldestCopy leaves the oldest live checkpoint without a name its files only, or returns errNoCopy. On the session's goroutine.
func (s *Session) endOldestCopy(ctx context.Context) error {
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
	err = s.commit(context.WithoutCancel(ctx), s.copyEnded(*oldest, "server_memory", fmt.Sprintf(
		"the copy of the interpreter was ended: those of all sessions took more than %d bytes, and nobody had used this session for the longest time", s.m.copies)))
	if err != nil {
		return err
	}
	s.dropCopies(context.WithoutCancel(ctx), []store.Checkpoint{*oldest})
	s.mu.Lock()
	defer s.mu.Unlock()
	s.checkpoints.held -= s.checkpoints.held / copies // as if all took the same
	return nil
}
