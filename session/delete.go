package session

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"talaria/api"
	"talaria/store"
)

// Delete ends the session and removes its kernel, its workspace and its log. For clients that wait, a running execution
// ends as died and queued ones as cancelled, with the reason deleted.
func (m *Manager) Delete(ctx context.Context, owner, id string) error {
	s, err := m.Get(owner, id)
	if errors.Is(err, fs.ErrNotExist) {
		return m.deleteLost(context.WithoutCancel(ctx), owner, id)
	}
	if err != nil {
		return err
	}
	defer s.Release()
	if s.beginDelete() != nil {
		return api.Errorf(api.CodeSessionNotFound, "you have no session %.140q", id)
	}
	return s.delete(context.WithoutCancel(ctx))
}

// deleteLost deletes a session that cannot be loaded, since its folder is gone.
func (m *Manager) deleteLost(ctx context.Context, owner, id string) error {
	n, serial, err := m.cfg.Store.FindSession(ctx, owner, id)
	if err == nil {
		_, err, _ = m.loading.Do("delete "+serial, func() (any, error) {
			row, err := m.cfg.Store.SessionNumber(ctx, n)
			if err == nil {
				err = m.cfg.Store.Do(ctx, store.Write{Apply: func(tx *store.Tx) error { return tx.DisownSession(n) }})
			}
			if err != nil {
				return nil, err
			}
			use := ownerUse{sessions: -1}
			if hasKernel(row.State) {
				use.kernels = -1
			}
			m.owners.add(owner, use)
			return nil, errors.Join(m.cfg.Disk.Delete(ctx, serial), m.forget(ctx, n))
		})
	}
	if errors.Is(err, store.ErrNotFound) { // somebody else has deleted it
		return ErrDeleted
	}
	return err
}

// beginDelete begins an attempt to delete the session, which delete ends. If another one has begun, it returns what is closed when that
// one ends, and begins none.
func (s *Session) beginDelete() (other <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.gone {
		return s.deleting
	}
	s.gone, s.deleting = true, make(chan struct{})
	s.endCollecting()
	s.abandonCheckpoint()
	return nil
}

// delete carries out what beginDelete began.
func (s *Session) delete(ctx context.Context) error {
	s.mu.Lock()
	ended := s.deleting
	s.mu.Unlock()
	defer close(ended)
	if err := s.deleteBeside(ctx); err != nil {
		s.undelete()
		return fmt.Errorf("delete the sessions beside it: %w", err)
	}
	return s.remove(ctx)
}

// undelete says that an attempt to delete the session has failed, and can be repeated.
func (s *Session) undelete() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gone = false
	s.armReaper()
	s.wakeUp() // cells may wait
}

func (s *Session) remove(ctx context.Context) error {
	err := s.do(ctx, func(own context.Context) error {
		if err := s.stop(own, reasonDeleted); err != nil {
			return err
		}
		c := s.cancelQueue(reasonDeleted)
		c.add(change{also: func(tx *store.Tx) error { return tx.DisownSession(s.n) }})
		if !s.mustCommit(own, c) {
			return ErrClosing
		}
		s.cancel(ErrDeleted)
		return nil
	})
	if err != nil {
		s.undelete()
		return err
	}
	<-s.stopped
	s.tools.close()
	s.journal.finish(ErrDeleted)
	close(s.deleted)
	s.log.Info("session deleted")
	s.mu.Lock()
	s.countState(s.state, api.StateDead)
	s.mu.Unlock()
	s.m.owners.add(s.owner, ownerUse{sessions: -1})
	return errors.Join(s.removeFiles(ctx), s.m.forget(ctx, s.n))
}

// removeFiles removes the files of a session whose row is gone, and the session from memory.
func (s *Session) removeFiles(ctx context.Context) error {
	s.m.drop(s)
	if s.main != nil {
		s.leaveMain()
		return nil
	}
	s.known.scanning.Lock()
	defer s.known.scanning.Unlock()
	err := errors.Join(s.dir.Discard(), s.packages.Close(), s.m.cfg.Disk.Delete(ctx, s.id))
	if err == nil && s.nothingRuns(ctx) {
		s.m.freeUID(s.uid) // otherwise the id's next owner would have these files, or these processes could signal the owner's
	}
	return err
}

// nothingRuns reports whether the session's user runs nothing, if a session has a user of its own.
func (s *Session) nothingRuns(ctx context.Context) bool {
	if s.uid == 0 || s.m.cfg.UserProcesses == nil {
		return true
	}
	// One that died by itself may still be ending.
	_ = s.m.cfg.Host.Stop(ctx, s.kernelKey(), reasonDeleted)
	left, err := s.m.cfg.UserProcesses(s.uid)
	if err != nil || len(left) > 0 {
		s.log.Error("processes of a deleted session may be left; no other session gets its user id before the server restarts",
			"uid", s.uid, "pids", left, "error", err)
		return false
	}
	return true
}

// forget removes a disowned session from the database, in steps that delay other writes only briefly, and then the
// blobs that no other session refers to.
func (m *Manager) forget(ctx context.Context, n int64) error {
	digests, err := m.cfg.Store.SessionDigests(ctx, n)
	if err != nil {
		return fmt.Errorf("list a deleted session's artifacts: %w", err)
	}
	for more := true; more; {
		err := m.cfg.Store.Do(ctx, store.Write{Apply: func(tx *store.Tx) (err error) { more, err = tx.EmptySession(n); return err }})
		if err != nil {
			return fmt.Errorf("remove a deleted session's log: %w", err)
		}
	}
	err = m.cfg.Store.Do(ctx, store.Write{Apply: func(tx *store.Tx) error { return tx.DeleteSession(n) }})
	if err != nil {
		return fmt.Errorf("remove a deleted session: %w", err)
	}
	m.blobs.removeSoon(digests)
	return nil
}
