package session

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"sync"

	"talaria/api"
	"talaria/kernel/record"
	"talaria/store"
)

// A session can be beside another one: its kernels run in the sandbox of that one's kernel, the main one. They share its files, packages,
// processes, network and limits of the sandbox; the variables, the cells and the log are its own. Its kernel ends with that of the main
// session, which is not reaped before, and the session is deleted with the main session.
//
// The goroutine of a session beside another one may wait for that of the main session, never the other way around.

// BesideRequest says what a session beside another one is to be. All else is as in the main session.
type BesideRequest struct {
	Name     string
	Metadata map[string]string
	Folder   string // where its kernels begin, if it is there; "": in the workspace
}

// CreateBeside creates a session beside this one, and begins to start its kernel. The caller releases it.
func (s *Session) CreateBeside(ctx context.Context, req BesideRequest) (made *Session, err error) {
	if s.main != nil {
		return nil, api.Invalid("session %.140q is beside %.140q itself; create the session beside that one", s.clientID, s.main.clientID)
	}
	err = s.do(context.WithoutCancel(ctx), func(own context.Context) error { // not while it is being deleted
		if s.isGone() {
			return ErrDeleted
		}
		set := s.settings()
		if set.Budgets != (api.Budgets{}) {
			return api.Invalid("session %.140q has budgets, which cells of a session beside it would not count against; create another session", s.clientID)
		}
		set.Name, set.Metadata, set.Packages = req.Name, req.Metadata, nil
		set.Checkpoints.Mode = api.CheckpointsOff
		row, err := s.m.cfg.Store.SessionNumber(own, s.n)
		if err != nil {
			return err
		}
		set.Builtin = row.BuiltinTools
		made, err = s.m.make(ctx, making{owner: s.owner, set: set, main: s, folder: req.Folder})
		return err
	})
	if err == nil {
		made.startSoon() // not before: its goroutine may already wait for this one
	}
	return made, err
}

// IsBeside reports whether the session is beside that one, or with nil, beside any.
func (s *Session) IsBeside(main *Session) bool {
	return s.main != nil && (main == nil || s.main.id == main.id)
}

// Beside returns the sessions beside this one, oldest first. The caller releases each of them.
func (s *Session) Beside(ctx context.Context) (list []*Session, err error) {
	rows, err := s.m.cfg.Store.SessionsBeside(ctx, s.n)
	if err != nil {
		return nil, err
	}
	for _, row := range rows {
		one, err := s.m.load(ctx, row.N, row.ID)
		switch {
		case errors.Is(err, ErrDeleted):
		case err != nil:
			releaseAll(list)
			return nil, err
		default:
			list = append(list, one)
		}
	}
	return list, nil
}

func releaseAll(list []*Session) {
	for _, s := range list {
		s.Release()
	}
}

// loadedBeside returns the sessions beside this one that are loaded.
func (s *Session) loadedBeside() []*Session {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Keys(s.beside))
}

// joinMain makes a session that has all of its parts known to the main session.
func (s *Session) joinMain() {
	s.main.mu.Lock()
	defer s.main.mu.Unlock()
	if s.main.beside == nil {
		s.main.beside = map[*Session]bool{}
	}
	s.main.beside[s] = false
}

// leaveMain is called once, when the session is no longer loaded.
func (s *Session) leaveMain() {
	s.main.mu.Lock()
	delete(s.main.beside, s)
	s.main.mu.Unlock()
	s.main.Release()
}

// besideFirst calls do with all sessions at the same time, but with one that others are beside only after those.
func besideFirst(all []*Session, do func(*Session)) {
	beside := map[*Session]*sync.WaitGroup{} // by the main session
	for _, s := range all {
		beside[cmp.Or(s.main, s)] = new(sync.WaitGroup)
	}
	for _, s := range all {
		if s.main != nil {
			beside[s.main].Go(func() { do(s) })
		}
	}
	var doing sync.WaitGroup
	for _, s := range all {
		if s.main == nil {
			doing.Go(func() { beside[s].Wait(); do(s) })
		}
	}
	doing.Wait()
	for _, left := range beside { // whose main session is not among all
		left.Wait()
	}
}

// share takes over what belongs to the sandbox of the main session.
func (s *Session) share() {
	s.main.mu.Lock()
	network, limits, layers, mounts := s.main.network, s.main.limits, s.main.layers, s.main.mounts
	s.main.mu.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.network, s.layers, s.mounts = network, layers, mounts
	s.limits.MemoryBytes, s.limits.CPUs, s.limits.PIDs, s.limits.DiskBytes = limits.MemoryBytes, limits.CPUs, limits.PIDs, limits.DiskBytes
}

// checkShared refuses a change of what belongs to the sandbox of another session.
func (s *Session) checkShared(p api.SessionPatch) error {
	l := p.Limits
	switch {
	case s.main == nil:
		return nil
	case p.Network != nil, l != nil && (l.MemoryBytes != nil || l.CPUs != nil || l.PIDs != nil || l.DiskBytes != nil):
		return api.Invalid("the network, and limits of memory, CPU, processes and disk, belong to session %.140q, in whose sandbox this one runs; "+
			"change them there", s.main.clientID)
	case p.Checkpoints != nil:
		return s.noCheckpoints()
	}
	return nil
}

// checkBudgets refuses budgets of a session with others beside it, whose cells would not count. On the session's goroutine, on which those
// are created.
func (s *Session) checkBudgets(ctx context.Context, wanted api.Budgets) error {
	if wanted == (api.Budgets{}) || s.main != nil {
		return nil
	}
	rows, err := s.m.cfg.Store.SessionsBeside(ctx, s.n)
	if err == nil && len(rows) > 0 {
		err = api.Invalid("sessions in the sandbox of this one would not count against its budgets; delete them first")
	}
	return err
}

// noCheckpoints says why a session beside another one has no checkpoints.
func (s *Session) noCheckpoints() error {
	return api.Invalid("a session in the sandbox of another one has no checkpoints or forks; make them of session %.140q, which has the same files", s.main.clientID)
}

// holdMain keeps the main session's kernel while this session has a kernel, or starts one: it does not end for want of use, nor hibernate.
// On the session's goroutine.
func (s *Session) holdMain() {
	if s.main != nil && s.releaseMain == nil {
		s.needsMain(true)
		s.releaseMain = s.main.Hold()
	}
}

func (s *Session) needsMain(needs bool) {
	s.main.mu.Lock()
	defer s.main.mu.Unlock()
	s.main.beside[s] = needs
}

// dropMain ends what holdMain began. On the session's goroutine.
func (s *Session) dropMain() {
	if s.releaseMain != nil {
		s.needsMain(false)
		s.releaseMain()
		s.releaseMain = nil
	}
}

// cellsRun reports whether a cell runs in the session's sandbox.
func (s *Session) cellsRun() bool {
	for _, one := range append(s.loadedBeside(), s) {
		if one.isExecuting() {
			return true
		}
	}
	return false
}

// hibernateBeside saves the variables of the sessions beside this one and ends their kernels, if this one is at rest.
func (s *Session) hibernateBeside(ctx context.Context) error {
	if err := s.atRest("hibernate"); err != nil {
		return err
	}
	for _, one := range s.loadedBeside() { // one that has a kernel is loaded, and stays so
		one.mu.Lock()
		state := one.state
		one.mu.Unlock()
		if !hasKernel(state) {
			continue
		}
		_, err := one.Hibernate(ctx)
		switch {
		case err == nil, hasCode(err, api.CodeNoKernel), errors.Is(err, ErrDeleted):
		case hasCode(err, api.CodeKernelBusy):
			return one.busyBeside()
		default:
			return err
		}
	}
	return nil
}

// busyBeside is why the main session cannot hibernate while cells of this one run.
func (s *Session) busyBeside() error {
	return api.Errorf(api.CodeKernelBusy,
		"session %.140q, which runs in the sandbox of this one, is busy; hibernate when its cells have ended, or interrupt them", s.clientID)
}

// neededBeside returns a session beside this one that has a kernel or starts one, or nil. While this session's goroutine does something
// else, none starts that does not need it already: a start waits for this goroutine afterwards.
func (s *Session) neededBeside() *Session {
	s.mu.Lock()
	defer s.mu.Unlock()
	for one, needs := range s.beside {
		if needs {
			return one
		}
	}
	return nil
}

// startedBeside returns the sessions beside this one that have a kernel, or start one, other than the known ones.
func (s *Session) startedBeside(known map[*Session]record.Key) (list []*Session) {
	for _, one := range s.loadedBeside() {
		s.mu.Lock()
		needs := s.beside[one]
		s.mu.Unlock()
		if needs && one.kernelKey() != known[one] {
			list = append(list, one)
		}
	}
	return list
}

// deleteBeside deletes the sessions beside one that is being deleted.
func (s *Session) deleteBeside(ctx context.Context) error {
	if s.main != nil { // nothing is beside it
		return nil
	}
	var rows []store.Session
	err := s.do(ctx, func(own context.Context) (err error) { // after one that is being created
		rows, err = s.m.cfg.Store.SessionsBeside(own, s.n)
		return err
	})
	for _, row := range rows {
		if err == nil {
			err = s.m.deleteRow(ctx, row)
		}
	}
	return err
}

// deleteRow deletes the session of a row. If somebody else is deleting it, deleteRow waits for that: without an error, the session is gone.
func (m *Manager) deleteRow(ctx context.Context, row store.Session) error {
	for {
		s, err := m.load(ctx, row.N, row.ID)
		if errors.Is(err, ErrDeleted) {
			return nil
		}
		if err != nil {
			return err
		}
		other := s.beginDelete()
		if other == nil {
			defer s.Release()
			return s.delete(ctx)
		}
		s.Release()
		<-other
	}
}
