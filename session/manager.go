package session

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/singleflight"

	"talaria/api"
	"talaria/kernel"
	"talaria/kernel/cgroup"
	"talaria/kernel/disk"
	"talaria/session/access"
	"talaria/session/files"
	"talaria/session/settings"
	"talaria/store"
)

// Manager manages all sessions of one state directory. It is safe for concurrent use.
type Manager struct {
	cfg       Config
	operator  *settings.Operator
	startedAt api.Time
	cancel    context.CancelFunc
	tasks     sync.WaitGroup
	closing   chan struct{}
	events    atomic.Int64 // committed since the start
	ended     atomic.Int64 // executions, since the start
	loading   singleflight.Group
	owners    *owners
	blobs     *blobs
	reserve   reserve
	watches   files.Watches
	memory    memoryLeft
	lowMemory bool  // less than the reserve was left; only watchMemory touches it
	copies    int64 // bytes that copies of interpreters may take together; 0: no bound
	ending    endingSlots
	unasked   chan struct{} // holds one value while a checkpoint that nobody asked for is made, and for a while after that
	crashed   bool          // the previous server did not end cleanly
	recovered atomic.Bool   // the sessions that the previous server left are taken over
	mended    sync.Map      // after a crash: the ids of sessions whose unfinished uploads were removed
	closeOnce sync.Once
	closeErr  error

	mu       sync.Mutex          // guards the fields below
	sessions map[string]*Session // the loaded ones, by server-made id
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
		cfg.Packages.Off = "no package index is configured"
	}
	background, cancel := context.WithCancel(context.Background())
	m := &Manager{
		cfg: cfg, startedAt: api.Now(), cancel: cancel, closing: make(chan struct{}),
		operator: operatorOf(cfg),
		blobs:    &blobs{artifacts: cfg.Artifacts, store: cfg.Store, log: cfg.Log, unused: make(chan []string, maxUnused)},
		sessions: map[string]*Session{}, uids: map[int]bool{}, owners: newOwners(), unasked: make(chan struct{}, 1),
	}
	cfg.Artifacts.Spare = m.spare
	var err error
	if m.memory.bounds, err = cgroup.FindMemoryBounds(); err != nil {
		m.cfg.Log.Warn("limits of memory above this process are not watched", "error", err)
	}
	m.copies = m.copiesBound(ctx)
	if err := m.recover(ctx); err != nil {
		cancel()
		return nil, fmt.Errorf("take over the sessions of the last server: %w", err)
	}
	m.recovered.Store(true)
	if m.lookAtReserve(); m.spare() == nil {
		m.setBallast()
	}
	m.tasks.Go(func() { m.watchReserve(background) })
	m.tasks.Go(func() { m.watchMemory(background) })
	m.tasks.Go(func() { m.blobs.sweep(background) })
	m.tasks.Go(func() { m.unloadUnused(background) })
	return m, nil
}

// operatorOf returns the part of the configuration that says what sessions may be.
func operatorOf(cfg Config) *settings.Operator {
	o := &settings.Operator{
		Environments: cfg.Environments, Defaults: cfg.Defaults, Ceilings: cfg.Ceilings, IdleTimeout: cfg.IdleTimeout, Checkpoints: cfg.Checkpoints,
		Network: cfg.Network, NoNetwork: cfg.NoNetwork, MountRoots: cfg.MountRoots, NoMounts: cfg.NoMounts, Packages: cfg.Packages,
	}
	if cfg.Remote.Webhooks != nil {
		o.CheckHook = cfg.Remote.Webhooks.Check
	}
	if cfg.Remote.Servers != nil {
		o.MCPServers = cfg.Remote.Servers.Names
	}
	return o
}

// DefaultLimits returns the limits of a session that asks for none.
func (m *Manager) DefaultLimits() api.Limits { return m.operator.DefaultLimits() }

// InstallsPackages reports whether sessions may install packages.
func (m *Manager) InstallsPackages() bool { return m.cfg.Packages.Allowed() == nil }

// Close leaves the kernels and everything that waits to the next server, and marks the state as left cleanly. It is
// idempotent, and does nothing after Shutdown.
func (m *Manager) Close(ctx context.Context) error { return m.end(ctx, (*Session).detach) }

// Shutdown ends every kernel, records its end, and marks the state as left cleanly. Kernels that run no cell save their variables
// first; the deadline of ctx divides the time among them. It is idempotent, and does nothing after Close.
func (m *Manager) Shutdown(ctx context.Context) error { return m.end(ctx, (*Session).shutdown) }

func (m *Manager) end(ctx context.Context, each func(*Session, context.Context) error) error {
	m.closeOnce.Do(func() {
		close(m.closing)
		m.cancel()
		m.tasks.Wait()
		var mu sync.Mutex
		var errs []error
		all := m.all()
		m.ending.share(ctx, countKernels(all))
		besideFirst(all, func(s *Session) {
			err := each(s, ctx)
			mu.Lock()
			defer mu.Unlock()
			errs = append(errs, err)
		})
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

// Ready reports why sessions cannot be created, or nil. ctx bounds the start of what creates kernels, if that has to be started.
func (m *Manager) Ready(ctx context.Context) error {
	if m.isClosing() {
		return ErrClosing
	}
	return m.hostReady(ctx)
}

// hostReady reports why no kernel can be started, or nil.
func (m *Manager) hostReady(ctx context.Context) error {
	h, ok := m.cfg.Host.(Readier)
	if !ok {
		return nil
	}
	err := h.Ready(ctx)
	if err == nil || hasCode(err, api.CodeNotReady) || ctx.Err() != nil {
		return err
	}
	m.cfg.Log.Error("no kernel can be started", "error", err)
	return errNoHost
}

var errNoHost error = api.Errorf(api.CodeNotReady, "no kernel can be started now, and nothing has been changed; the operator finds the cause with talaria doctor, and in the server's log")

// environment returns the environment of that name. If it is no longer configured, the result has only its name: its
// sessions work, except for what needs a new kernel.
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
		"the environment %q is no longer in the server's configuration; the session's files and log are kept: restore it there, or "+
			"create a new session in one of %s", s.env.Name, s.m.operator.EnvironmentNames())
}

// hold registers a created or loaded session. It reports false while the server shuts down, which would not end it.
func (m *Manager) hold(s *Session) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.isClosing() {
		return false
	}
	m.sessions[s.id] = s
	return true
}

// all returns the sessions that are loaded.
func (m *Manager) all() []*Session {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Collect(maps.Values(m.sessions))
}

// countKernels counts the sessions with a kernel.
func countKernels(all []*Session) (n int) {
	for _, s := range all {
		s.mu.Lock()
		if hasKernel(s.state) {
			n++
		}
		s.mu.Unlock()
	}
	return n
}

// drop forgets a session that is unloaded or deleted.
func (m *Manager) drop(s *Session) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.sessions[s.id] == s {
		delete(m.sessions, s.id)
	}
}

// Get returns the owner's session with that id, or [ErrDeleted]. The caller releases the session.
func (m *Manager) Get(owner, id string) (*Session, error) {
	ctx := context.Background()
	n, serial, err := m.cfg.Store.FindSession(ctx, owner, id)
	if errors.Is(err, store.ErrNotFound) {
		return nil, api.Errorf(api.CodeSessionNotFound, "you have no session %.140q", id)
	}
	if err != nil {
		return nil, err
	}
	return m.load(ctx, n, serial)
}

func (m *Manager) known(id string) *Session {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.sessions[id]
}

// Visit returns what the token of a link or of a session allows; ok is false for a token that is unknown or has expired.
func (m *Manager) Visit(ctx context.Context, token string) (v access.Visit, ok bool) {
	return access.VisitOf(ctx, m.cfg.Store, token)
}

// InstallRequest returns the execution that installs packages.
func (m *Manager) InstallRequest(r api.PackagesRequest) (api.ExecutionRequest, error) {
	return m.cfg.Packages.Request(r)
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
	return PageOf(f.Page, func(before int64, limit int) ([]api.Session, []int64, error) {
		filter := store.SessionFilter{Owner: owner, State: f.State, Metadata: f.Metadata, Search: f.Search, Before: before, Limit: limit}
		for {
			items, numbers, err := m.list(ctx, filter)
			if !errors.Is(err, store.ErrNotFound) {
				return items, numbers, err
			}
		}
	})
}

// list returns what the filter selects, and the numbers. It fails with [store.ErrNotFound] if one is selected no longer a moment later.
func (m *Manager) list(ctx context.Context, filter store.SessionFilter) ([]api.Session, []int64, error) {
	numbers, ids, err := m.cfg.Store.SessionKeys(ctx, filter)
	if err != nil {
		return nil, nil, err
	}
	loaded := make([]*Session, len(ids))
	for i, id := range ids {
		if s := m.known(id); s != nil && s.retain() {
			defer s.Release()
			loaded[i] = s
		}
	}
	items := make([]api.Session, len(ids))
	if slices.Contains(loaded, nil) {
		rows, err := m.cfg.Store.Sessions(ctx, filter)
		if err != nil {
			return nil, nil, err
		}
		at := 0 // rows are in the order of ids
		for i, n := range numbers {
			for at < len(rows) && rows[at].N > n {
				at++
			}
			if loaded[i] != nil {
				continue
			}
			if at == len(rows) || rows[at].N != n {
				return nil, nil, store.ErrNotFound
			}
			items[i] = m.sessionOf(rows[at]).summary()
		}
	}
	m.describe(ctx, loaded, items)
	return items, numbers, nil
}

// Each calls do with every session of every owner, without the usage of its processes, until do returns false. serial is
// what [Session.Serial] returns.
func (m *Manager) Each(ctx context.Context, do func(owner, serial string, s api.Session) bool) error {
	rows, err := m.cfg.Store.AllSessions(ctx)
	if err != nil {
		return fmt.Errorf("list all sessions: %w", err)
	}
	for _, row := range rows {
		if !do(row.Owner, row.ID, m.sessionOf(row).summary()) {
			break
		}
	}
	return nil
}
