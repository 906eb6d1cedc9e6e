package session

import (
	"context"
	"errors"
	"time"

	"talaria/store"
)

// unloadEvery is how often unused sessions are looked for. A session is unloaded when it is found unused twice in a row.
const unloadEvery = 30 * time.Second

// residence records who needs the session in memory. Guarded by Session.mu.
//
// A session is loaded when somebody asks for it, and unloaded when nobody has used it for a while and it has no kernel
// and no work. The database has all that is needed to load it again: while a use lasts, or a write of the session is on
// its way to the database, it stays loaded.
type residence struct {
	uses   int  // clients, writes that are not settled, and work of the session itself
	unused bool // since unused sessions were looked for last
	leaves bool // it is being unloaded, and a new one is loaded from the database after that
}

// retain keeps the session loaded until [Session.Release]. It reports false for a session that is being unloaded.
func (s *Session) retain() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.leaves {
		return false
	}
	s.uses++
	s.unused = false
	return true
}

// Release declares that the caller no longer uses the session, which it got from [Manager.Create], [Manager.Ensure] or
// [Manager.Get]. It is called once for each of those.
func (s *Session) Release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.uses--
}

// unneeded reports whether everything about the session is in the database. The caller holds s.mu.
func (s *Session) unneeded() bool {
	return s.uses == 0 && !hasKernel(s.state) && len(s.open) == 0 && s.reserved == 0 && s.current == nil && len(s.queue) == 0 &&
		s.attached == 0 && !s.frozen && !s.gone
}

// unloadUnused unloads sessions that nobody uses, until ctx ends.
func (m *Manager) unloadUnused(ctx context.Context) {
	tick := time.NewTicker(unloadEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			m.unloadOnce()
		case <-ctx.Done():
			return
		}
	}
}

// unloadOnce unloads the sessions that were unused the last time and still are.
func (m *Manager) unloadOnce() {
	for _, s := range m.all() {
		tools := s.tools.inUse()
		s.mu.Lock()
		before := s.unused
		s.unused = !tools && s.unneeded()
		leaves := before && s.unused && !s.leaves
		s.leaves = s.leaves || leaves
		s.mu.Unlock()
		if leaves {
			s.unload()
		}
	}
}

// unload ends a session in memory that nobody uses, and then lets it be loaded again.
func (s *Session) unload() {
	s.started.Do(func() { s.cancel = func(error) {}; close(s.stopped) }) // it never starts
	s.cancel(ErrClosing)
	<-s.stopped
	if err := s.closeLocal(); err != nil {
		s.log.Warn("close the folder of an unused session", "error", err)
	}
	s.m.drop(s)
	close(s.unloaded)
}

// load returns the only Session with that number; the caller releases it. It fails with [ErrDeleted] if the database has none.
// Loading a session does not delay others.
func (m *Manager) load(ctx context.Context, n int64, id string) (*Session, error) {
	for {
		s := m.known(id)
		if s == nil {
			if _, err, _ := m.loading.Do(id, func() (any, error) { return nil, m.read(context.WithoutCancel(ctx), n, id) }); err != nil {
				return nil, err
			}
			continue
		}
		if s.retain() {
			return s, nil
		}
		<-s.unloaded
	}
}

// read loads a session that is not loaded. The row is read only now: the session may have been loaded, changed and
// unloaded since its caller found it.
func (m *Manager) read(ctx context.Context, n int64, id string) error {
	if m.known(id) != nil {
		return nil
	}
	row, err := m.cfg.Store.SessionNumber(ctx, n)
	if errors.Is(err, store.ErrNotFound) {
		return ErrDeleted
	}
	if err != nil {
		return err
	}
	s, err := m.newSession(ctx, row)
	if err != nil {
		return err
	}
	if !m.hold(s) {
		return errors.Join(ErrClosing, s.closeFolders())
	}
	return nil
}
