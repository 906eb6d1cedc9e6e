package session

import (
	"context"
	"errors"
	"time"

	"talaria/api"
	"talaria/kernel/command"
	"talaria/kernel/trace"
	"talaria/session/packages"
	"talaria/session/settings"
	"talaria/store"
)

// Create creates a session and begins to start its kernel. The caller releases the session.
func (m *Manager) Create(ctx context.Context, owner string, req api.SessionRequest) (*Session, error) {
	set, err := m.operator.Check(req)
	if err != nil {
		return nil, err
	}
	s, err := m.make(ctx, making{owner: owner, clientID: req.ID, set: set})
	if errors.Is(err, store.ErrExists) {
		return nil, api.Errorf(api.CodeSessionExists, "you already have a session %q; use PUT to get it, or DELETE to end it", *req.ID)
	}
	return s, err
}

// Ensure returns the owner's session with that id, and creates it if it does not exist. The policy says what happens
// to an existing session; with "", a field of the request that differs from the session is a conflict. The caller
// releases the session.
func (m *Manager) Ensure(ctx context.Context, owner, id string, req api.SessionRequest, policy api.IfExists) (s *Session, created bool, err error) {
	if !api.ValidID(id) {
		return nil, false, settings.InvalidID("the session's id", id)
	}
	if req.ID != nil && *req.ID != id {
		return nil, false, api.Invalid("id %.140q in the body differs from %q in the path", *req.ID, id)
	}
	if policy == api.IfExistsKeep {
		if s, err := m.Get(owner, id); err == nil {
			return s, false, nil // whatever the body says, also what has become invalid since
		}
	}
	set, err := m.operator.Check(req)
	if err != nil {
		return nil, false, err
	}
	for {
		s, err := m.Get(owner, id)
		if err == nil {
			if err := s.accept(ctx, req, set, policy); err != nil {
				s.Release()
				return nil, false, err
			}
			return s, false, nil
		}
		if !errors.Is(err, ErrDeleted) {
			return nil, false, err
		}
		s, err = m.make(context.WithoutCancel(ctx), making{owner: owner, clientID: &id, set: set})
		if !errors.Is(err, store.ErrExists) {
			return s, err == nil, err
		}
	}
}

// accept makes an existing session answer a PUT, as the policy says.
func (s *Session) accept(ctx context.Context, req api.SessionRequest, set settings.Settings, policy api.IfExists) error {
	switch policy {
	case api.IfExistsKeep:
		return nil
	case api.IfExistsApply:
		return s.apply(ctx, req, set)
	}
	if field := s.settings().Conflict(req, set); field != "" {
		return api.Errorf(api.CodeSessionConflict,
			"session %q already exists with a different %s; leave it out, PATCH it, use ?if_exists=keep or apply, or delete the session", s.clientID, field)
	}
	return nil
}

// apply changes the session to what a PUT asks for, as PATCH would. Fields that PATCH cannot change must not differ.
func (s *Session) apply(ctx context.Context, req api.SessionRequest, set settings.Settings) error {
	fixed := req
	fixed.Limits, fixed.Network, fixed.IdleTimeoutS = nil, nil, nil
	fixed.Guard, fixed.Approvals, fixed.Budgets, fixed.Checkpoints, fixed.OnIdle = nil, nil, nil, nil, nil
	if field := s.settings().Conflict(fixed, set); field != "" {
		return api.Errorf(api.CodeSessionConflict, "session %q exists with a different %s, which cannot change; leave it out, or delete the session", s.clientID, field)
	}
	return s.Update(ctx, api.SessionPatch{
		Name: req.Name, Metadata: req.Metadata, Limits: req.Limits, Network: req.Network, IdleTimeoutS: req.IdleTimeoutS,
		Guard: req.Guard, Approvals: req.Approvals, Budgets: req.Budgets, Checkpoints: req.Checkpoints, OnIdle: req.OnIdle,
	})
}

// making says what session to make.
type making struct {
	owner    string
	clientID *string // nil: the one that the server makes
	set      settings.Settings
	// fill, if it is not nil, gives the session its files before anybody finds it, and returns the change that is committed first;
	// then the session has no kernel until it is used.
	fill   func(*Session) (change, error)
	main   *Session // that it is beside; nil for none
	folder string   // where its kernels begin then
}

// make creates the session's folder, row and first event. It returns [store.ErrExists] if the owner has a session with
// that id.
func (m *Manager) make(ctx context.Context, as making) (*Session, error) {
	if err := m.Ready(ctx); err != nil {
		return nil, err
	}
	if err := m.spare(); err != nil {
		return nil, err
	}
	use := ownerUse{sessions: 1}
	if as.fill == nil {
		use.kernels = 1
	}
	if _, err := m.operator.FindMounts(as.set.Mounts); err != nil {
		return nil, err
	}
	if err := m.takeSession(as.owner, use); err != nil {
		return nil, err
	}
	s, err := m.makeCounted(ctx, as)
	if err != nil {
		m.owners.add(as.owner, ownerUse{sessions: -use.sessions, kernels: -use.kernels})
	}
	return s, err
}

// makeCounted makes a session that is counted already.
func (m *Manager) makeCounted(ctx context.Context, as making) (*Session, error) {
	trace.Step("request received")
	set, fill := as.set, as.fill
	row := store.Session{
		ID: newID(), Owner: as.owner, Name: set.Name, Environment: set.Environment.Name, Isolation: string(set.Isolation),
		Limits: set.Limits, IdleTimeoutMS: set.IdleMS, Env: set.Env, Secrets: set.Secrets, Metadata: set.Metadata, Mounts: set.Mounts, Network: set.Network,
		Packages: set.Packages, BuiltinTools: set.Builtin, Tools: set.Tools, MCPServers: set.Servers, Guard: set.Guard, Approvals: set.Approvals, Budgets: set.Budgets, Checkpoints: set.Checkpoints, OnIdle: set.OnIdle,
		State: api.StateStarting, Generation: 1, LogID: newID(), FirstSeq: 1,
		CreatedAt: time.Now().UnixMilli(), Layers: []string{},
	}
	if fill != nil {
		row.State = api.StateHibernated
	}
	row.LastActiveAt = row.CreatedAt
	row.ClientID = row.ID
	if as.clientID != nil {
		row.ClientID = *as.clientID
	}
	s, err := m.allocate(&row, as)
	if err != nil {
		return nil, err
	}
	trace.Step("workspace allocated")
	s.guard.isNew()
	if !m.hold(s) { // before anybody can find the row
		return nil, errors.Join(ErrClosing, s.removeFiles(context.WithoutCancel(ctx)))
	}
	c := change{before: func(tx *store.Tx) error { return tx.InsertSession(row) }}
	if fill != nil {
		filled, err := fill(s)
		if err != nil {
			return nil, errors.Join(err, s.removeFiles(context.WithoutCancel(ctx)))
		}
		c.add(filled)
	}
	c.drafts = append(c.drafts, draft{body: api.SessionStateEvent{State: row.State}})
	if len(set.Packages) > 0 { // the first execution installs them; a session that is filled has its packages
		code, silent := packages.InstallCode(set.Packages), true
		r, err := s.newExecution(api.ExecutionRequest{Code: &code, Silent: &silent}, false)
		if err == nil {
			err = s.takeQueued(int64(len(code)))
		}
		if err != nil {
			return nil, errors.Join(err, s.removeFiles(context.WithoutCancel(ctx)))
		}
		c.add(s.queued(r))
	}
	if err := s.journal.commit(context.WithoutCancel(ctx), c); err != nil {
		s.mu.Lock()
		s.freeQueued(s.queuedBytes)
		s.mu.Unlock()
		return nil, errors.Join(err, s.removeFiles(context.WithoutCancel(ctx)))
	}
	trace.Step("session committed")
	s.begin()
	if fill == nil && len(set.Packages) == 0 && as.main == nil { // otherwise see CreateBeside
		s.startSoon()
	}
	m.cfg.Log.Info("session created", "session", row.ID, "owner", as.owner)
	return s, nil
}

// number gives a new session its number.
func (m *Manager) number() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.lastN++
	return m.lastN
}

// takeUID returns the lowest free user id if sessions have user ids of their own, or 0.
func (m *Manager) takeUID() (uid int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.cfg.UIDBase > 0 {
		for uid = m.cfg.UIDBase; m.uids[uid]; uid++ {
		}
		m.uids[uid] = true
	}
	return uid
}

func (m *Manager) freeUID(uid int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.uids, uid)
}

// allocate numbers the row and returns the session, with a workspace unless it is beside another one. The caller releases it.
func (m *Manager) allocate(row *store.Session, as making) (*Session, error) {
	ctx := context.Background()
	row.N = m.number()
	if as.main != nil {
		row.UID, row.Beside, row.BesideID, row.Folder = as.main.uid, as.main.n, as.main.clientID, as.folder
		as.main.retain() // on its goroutine, so it does not leave
		s := m.sessionBeside(*row, as.main)
		s.retain()
		return s, nil
	}
	row.UID = m.takeUID()
	dir, err := m.cfg.Disk.Create(ctx, row.ID, row.UID, row.Limits.DiskBytes)
	if err != nil {
		m.freeUID(row.UID)
		return nil, err
	}
	s, err := m.sessionIn(ctx, *row, dir)
	if err != nil {
		m.freeUID(row.UID)
		return nil, errors.Join(err, dir.Discard(), m.cfg.Disk.Delete(ctx, row.ID))
	}
	s.retain()
	return s, nil
}

// firstKernel starts the first kernel of a new session. On the session's goroutine.
func (s *Session) firstKernel(ctx context.Context) {
	s.mu.Lock()
	gone := s.gone
	s.mu.Unlock()
	if gone || s.running {
		return
	}
	err := s.startKernel(ctx)
	switch {
	case err == nil, ctx.Err() != nil:
	case errors.Is(err, command.ErrUnresponsive):
		time.AfterFunc(retryPause, s.startSoon)
	default:
		s.failStart(ctx, nil, err)
	}
}
