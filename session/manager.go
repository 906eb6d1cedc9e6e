package session

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/singleflight"

	"talaria/api"
	"talaria/kernel"
	"talaria/kernel/command"
	"talaria/kernel/disk"
	"talaria/store"
)

// Manager has all sessions of one state directory. It is safe for concurrent use.
type Manager struct {
	cfg       Config
	startedAt api.Time
	cancel    context.CancelFunc
	tasks     sync.WaitGroup
	closing   chan struct{}
	events    atomic.Int64 // committed since the start
	ended     atomic.Int64 // executions, since the start
	loading   singleflight.Group
	owners    *owners
	reserve   reserve
	crashed   bool // the server before did not end in order
	closeOnce sync.Once
	closeErr  error

	mu       sync.Mutex          // guards what is below
	sessions map[string]*Session // by server-made id, those that were asked for
	lastN    int64               // the number of the newest session
	uids     map[int]bool        // in use
}

// Open takes over the state directory: it reports what an earlier server left running as dead, and begins to sweep.
// ctx bounds the opening.
func Open(ctx context.Context, cfg Config) (*Manager, error) {
	if len(cfg.Environments) == 0 {
		return nil, errors.New("no Python environment is configured")
	}
	if cfg.Disk == nil {
		var err error
		if cfg.Disk, err = disk.Open(ctx, disk.Config{Root: cfg.SessionsDir, Mode: disk.Watched}); err != nil {
			return nil, err
		}
	}
	if cfg.Packages.Index == nil && cfg.Packages.Off == "" {
		cfg.Packages.Off = "it has no package index"
	}
	background, cancel := context.WithCancel(context.Background())
	m := &Manager{
		cfg: cfg, startedAt: api.Now(), cancel: cancel, closing: make(chan struct{}),
		sessions: map[string]*Session{}, uids: map[int]bool{}, owners: newOwners(),
	}
	if err := m.recover(ctx); err != nil {
		cancel()
		return nil, fmt.Errorf("take over the sessions of the last server: %w", err)
	}
	if m.lookAtReserve(); m.spare() == nil {
		m.setBallast()
	}
	m.tasks.Go(func() { m.watchReserve(background) })
	m.tasks.Go(func() { m.sweepArtifacts(background) })
	return m, nil
}

// Close leaves the kernels and all that waits to the next server, and marks the state as left in order. It is
// idempotent, and does nothing after Shutdown.
func (m *Manager) Close(ctx context.Context) error { return m.end(ctx, (*Session).detach) }

// Shutdown ends every kernel, writes what became of it, and marks the state as left in order. It is idempotent, and
// does nothing after Close.
func (m *Manager) Shutdown(ctx context.Context) error { return m.end(ctx, (*Session).shutdown) }

func (m *Manager) end(ctx context.Context, each func(*Session, context.Context) error) error {
	m.closeOnce.Do(func() {
		close(m.closing)
		m.cancel()
		m.tasks.Wait()
		m.mu.Lock()
		all := slices.Collect(maps.Values(m.sessions))
		m.mu.Unlock()
		errs := make([]error, len(all))
		var wg sync.WaitGroup
		for i, s := range all {
			wg.Go(func() { errs[i] = each(s, ctx) })
		}
		wg.Wait()
		m.closeErr = errors.Join(append(errs, m.cfg.Store.End(ctx))...)
	})
	return m.closeErr
}

// Closing is closed when the server begins to shut down.
func (m *Manager) Closing() <-chan struct{} { return m.closing }

func (m *Manager) isClosing() bool {
	select {
	case <-m.closing:
		return true
	default:
		return false
	}
}

// Ready reports why sessions cannot be made, or nil.
func (m *Manager) Ready() error {
	if m.isClosing() {
		return ErrClosing
	}
	return m.hostReady()
}

// hostReady reports why no kernel can be started now, or nil.
func (m *Manager) hostReady() error {
	if h, ok := m.cfg.Host.(Readier); ok {
		return h.Ready()
	}
	return nil
}

// environment is the one of that name. It has the name only where the operator has taken it out of the configuration:
// sessions of it can be used but for what needs a new kernel.
func (m *Manager) environment(name string) kernel.Environment {
	for _, e := range m.cfg.Environments {
		if e.Name == name {
			return e
		}
	}
	return kernel.Environment{Name: name}
}

// hasEnvironment reports why no kernel can be started in the session's environment, or nil.
func (s *Session) hasEnvironment() error {
	if s.env.Python != "" || s.env.Version != "" {
		return nil
	}
	return api.Errorf(api.CodeKernelStart,
		"the environment %q is not in the operator's configuration any more; the files and the log are kept: put it back, or "+
			"make a new session in one of %s", s.env.Name, s.m.environmentNames())
}

// Create makes a session and begins to start its kernel.
func (m *Manager) Create(ctx context.Context, owner string, req api.SessionRequest) (*Session, error) {
	set, err := m.check(req)
	if err != nil {
		return nil, err
	}
	s, err := m.make(ctx, owner, req.ID, set)
	if errors.Is(err, store.ErrExists) {
		return nil, api.Errorf(api.CodeSessionExists, "you have a session %q already; PUT gets it, DELETE ends it", *req.ID)
	}
	return s, err
}

// Ensure returns the owner's session of that id, made if it is not there. A field of the request that is otherwise in
// the session is a conflict.
func (m *Manager) Ensure(ctx context.Context, owner, id string, req api.SessionRequest) (s *Session, created bool, err error) {
	if !api.ValidID(id) {
		return nil, false, invalidID("the session's id", id)
	}
	if req.ID != nil && *req.ID != id {
		return nil, false, invalid("id %.140q in the body is not %q of the path", *req.ID, id)
	}
	set, err := m.check(req)
	if err != nil {
		return nil, false, err
	}
	for {
		s, err := m.Get(owner, id)
		if err == nil {
			if field := s.conflictingField(req, set); field != "" {
				return nil, false, api.Errorf(api.CodeSessionConflict,
					"session %q exists with another %s; leave the field out, PATCH it, or delete the session", id, field)
			}
			return s, false, nil
		}
		if !errors.Is(err, ErrDeleted) {
			return nil, false, err
		}
		s, err = m.make(ctx, owner, &id, set)
		if !errors.Is(err, store.ErrExists) {
			return s, err == nil, err
		}
	}
}

// make makes the session's folder, row and first event. [store.ErrExists] where the owner has one of that id.
func (m *Manager) make(ctx context.Context, owner string, clientID *string, set settings) (*Session, error) {
	if err := m.Ready(); err != nil {
		return nil, err
	}
	if err := m.spare(); err != nil {
		return nil, err
	}
	if err := m.room(ctx); err != nil {
		return nil, err
	}
	if _, err := m.findMounts(set.mounts); err != nil {
		return nil, err
	}
	if err := m.takeSession(owner); err != nil {
		return nil, err
	}
	s, err := m.makeCounted(ctx, owner, clientID, set)
	if err != nil {
		m.owners.add(owner, ownerUse{sessions: -1, kernels: -1})
	}
	return s, err
}

func (m *Manager) makeCounted(ctx context.Context, owner string, clientID *string, set settings) (*Session, error) {
	row := store.Session{
		ID: newID(), Owner: owner, Name: set.name, Environment: set.environment.Name, Isolation: string(set.isolation),
		Limits: set.limits, IdleTimeoutMS: set.idleMS, Env: set.env, Secrets: set.secrets, Metadata: set.metadata, Mounts: set.mounts, Network: set.network,
		Packages: set.packages,
		State:    api.StateStarting, Generation: 1, LogID: newID(), FirstSeq: 1,
		CreatedAt: time.Now().UnixMilli(), Layers: []string{},
	}
	row.LastActiveAt = row.CreatedAt
	row.ClientID = row.ID
	if clientID != nil {
		row.ClientID = *clientID
	}
	row.N, row.UID = m.number()
	s, err := m.allocate(row)
	if err != nil {
		m.freeUID(row.UID)
		return nil, err
	}
	if !m.hold(s) { // before anybody can find the row
		return nil, errors.Join(ErrClosing, s.release(context.WithoutCancel(ctx)))
	}
	c := change{
		before: func(tx *store.Tx) error { return tx.InsertSession(row) },
		drafts: []draft{{body: api.SessionStateEvent{State: api.StateStarting}}},
	}
	if len(set.packages) > 0 { // the first execution installs them
		code, silent := installCode(set.packages), true
		r, err := s.newRun(api.ExecutionRequest{Code: &code, Silent: &silent}, false)
		if err == nil {
			err = s.takeQueued(int64(len(code)))
		}
		if err != nil {
			return nil, errors.Join(err, s.release(context.WithoutCancel(ctx)))
		}
		c.add(s.queued(r))
	}
	if err := s.commit(context.WithoutCancel(ctx), c); err != nil {
		return nil, errors.Join(err, s.release(context.WithoutCancel(ctx)))
	}
	s.begin()
	if len(set.packages) == 0 {
		s.startSoon()
	}
	m.cfg.Log.Info("session created", "session", row.ID, "owner", owner)
	return s, nil
}

// number gives a new session its number and, where sessions have user ids of their own, the lowest free one.
func (m *Manager) number() (n int64, uid int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.lastN++
	if m.cfg.UIDBase > 0 {
		for uid = m.cfg.UIDBase; m.uids[uid]; uid++ {
		}
		m.uids[uid] = true
	}
	return m.lastN, uid
}

func (m *Manager) freeUID(uid int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.uids, uid)
}

// release removes what a session has on the machine, once its row is gone.
func (s *Session) release(ctx context.Context) error {
	s.m.mu.Lock()
	delete(s.m.sessions, s.id)
	s.m.mu.Unlock()
	s.known.scanning.Lock()
	defer s.known.scanning.Unlock()
	err := errors.Join(s.dir.Discard(), s.packages.Close(), s.m.cfg.Disk.Delete(ctx, s.id))
	if err == nil {
		s.m.freeUID(s.uid) // or its next owner would have these files
	}
	return err
}

// hold keeps a session that is made or loaded. It reports false where the server ends: nobody would end the session then.
func (m *Manager) hold(s *Session) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.isClosing() {
		return false
	}
	m.sessions[s.id] = s
	return true
}

// room refuses a session past the operator's number of kernels.
func (m *Manager) room(ctx context.Context) error {
	if m.cfg.MaxSessions == 0 {
		return nil
	}
	counts, err := m.cfg.Store.SessionStates(ctx)
	if err != nil {
		return err
	}
	live := counts[api.StateStarting] + counts[api.StateIdle] + counts[api.StateBusy]
	if live >= m.cfg.MaxSessions {
		return api.Errorf(api.CodeSessionLimit,
			"%d sessions have a kernel, the operator's most; delete one, or wait for an idle one to be reaped", live)
	}
	return nil
}

func (m *Manager) allocate(row store.Session) (*Session, error) {
	ctx := context.Background()
	dir, err := m.cfg.Disk.Create(ctx, row.ID, row.UID, row.Limits.DiskBytes)
	if err != nil {
		return nil, err
	}
	s, err := m.sessionIn(ctx, row, dir)
	if err != nil {
		return nil, errors.Join(err, dir.Discard(), m.cfg.Disk.Delete(ctx, row.ID))
	}
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

// Get is the owner's session of that id, or [ErrDeleted].
func (m *Manager) Get(owner, id string) (*Session, error) {
	ctx := context.Background()
	row, err := m.cfg.Store.Session(ctx, owner, id)
	if errors.Is(err, store.ErrNotFound) {
		return nil, api.Errorf(api.CodeSessionNotFound, "you have no session %.140q", id)
	}
	if err != nil {
		return nil, err
	}
	return m.loaded(ctx, row)
}

// loaded is the one Session of the row. Loading one does not hold up the others.
func (m *Manager) loaded(ctx context.Context, row store.Session) (*Session, error) {
	if s := m.known(row.ID); s != nil {
		return s, nil
	}
	s, err, _ := m.loading.Do(row.ID, func() (any, error) {
		if s := m.known(row.ID); s != nil {
			return s, nil
		}
		s, err := m.newSession(context.WithoutCancel(ctx), row) // others may wait for it too
		if err != nil {
			return nil, err
		}
		if !m.hold(s) {
			return nil, errors.Join(ErrClosing, s.dir.Close(), s.packages.Close())
		}
		return s, nil
	})
	if err != nil {
		return nil, err
	}
	return s.(*Session), nil
}

func (m *Manager) known(id string) *Session {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.sessions[id]
}

// Filter selects sessions.
type Filter struct {
	State    api.SessionState // "": any
	Metadata map[string]string
	Search   string // in the name or the id; "": any
	Page     api.PageQuery
}

// List lists the owner's sessions, newest first.
func (m *Manager) List(ctx context.Context, owner string, f Filter) (api.Page[api.Session], error) {
	return page(f.Page, func(before int64, limit int) ([]api.Session, []int64, error) {
		rows, err := m.cfg.Store.Sessions(ctx, store.SessionFilter{
			Owner: owner, State: f.State, Metadata: f.Metadata, Search: f.Search, Before: before, Limit: limit,
		})
		if err != nil {
			return nil, nil, err
		}
		items, numbers := make([]api.Session, len(rows)), make([]int64, len(rows))
		var usages sync.WaitGroup
		defer usages.Wait() // also where a session cannot be loaded
		for i, row := range rows {
			s, err := m.loaded(ctx, row)
			if err != nil {
				return nil, nil, err
			}
			numbers[i] = row.N
			usages.Go(func() { items[i] = s.Info(ctx) })
		}
		return items, numbers, nil
	})
}

// Delete ends the session: its kernel, its workspace and its log go. What ran ends died and what waited cancelled,
// reason deleted, for those who wait on it.
func (m *Manager) Delete(ctx context.Context, owner, id string) error {
	s, err := m.Get(owner, id)
	if err != nil {
		return err
	}
	s.mu.Lock()
	first := !s.gone
	s.gone = true
	s.endCollecting()
	s.mu.Unlock()
	if !first {
		return api.Errorf(api.CodeSessionNotFound, "you have no session %.140q", id)
	}
	return s.remove(context.WithoutCancel(ctx))
}

func (s *Session) remove(ctx context.Context) error {
	err := s.do(ctx, func(own context.Context) error {
		if err := s.stop(own, reasonDeleted); err != nil {
			return err
		}
		s.mustCommit(own, s.cancelQueue(reasonDeleted))
		s.cancel(ErrDeleted)
		return nil
	})
	if err != nil {
		s.mu.Lock()
		s.gone = false // it can be tried again
		s.mu.Unlock()
		return fmt.Errorf("end the session's kernel: %w", err)
	}
	<-s.stopped
	s.journal.finish(ErrDeleted)
	close(s.deleted)
	err = s.m.cfg.Store.Do(ctx, store.Write{Apply: func(tx *store.Tx) error { return tx.DisownSession(s.n) }})
	if err != nil {
		return err
	}
	s.log.Info("session deleted")
	s.mu.Lock()
	s.countState(s.state, api.StateDead)
	s.mu.Unlock()
	s.m.owners.add(s.owner, ownerUse{sessions: -1})
	return errors.Join(s.release(ctx), s.m.forget(ctx, s.n))
}

// forget removes what the database has of a disowned session, in steps that nobody has to wait for long, and then the
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
	m.removeUnused(ctx, digests)
	return nil
}
