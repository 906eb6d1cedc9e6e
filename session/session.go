package session

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"sync"
	"time"

	jsonv2 "github.com/go-json-experiment/json"

	"talaria/api"
	"talaria/kernel"
	"talaria/kernel/command"
	"talaria/kernel/disk"
	"talaria/kernel/python"
	"talaria/kernel/record"
	"talaria/kernel/workspace"
	"talaria/session/access"
	"talaria/session/files"
	"talaria/session/notebook"
	"talaria/session/packages"
	"talaria/session/processes"
	"talaria/session/settings"
	"talaria/session/transcript"
	"talaria/store"
)

// Session is one durable session. All of its methods are safe for concurrent use.
//
// One goroutine, in loop.go, starts and ends kernels, hands out executions and takes records; every other method
// writes what it must through the journal and wakes it. The state of each subject is a type in the file of that subject,
// which says who may touch it: the session's goroutine, the holder of mu, or anybody, under a lock of its own.
type Session struct {
	m         *Manager
	n         int64 // its number in the database
	id        string
	owner     string
	clientID  string
	uid       int
	env       kernel.Environment
	isolation api.IsolationMode
	variables map[string]string
	secrets   map[string]string
	mounts    []api.Mount
	hooks     []api.Tool // webhooks
	servers   []string   // the MCP servers whose tools cells may call
	redact    *transcript.Redactor
	dir       *disk.Workspace
	main      *Session // beside.go; nil unless it runs in the sandbox of that one
	besideID  string   // that one's id for clients, or ""
	folder    string   // where its kernels begin then, or ""
	log       *slog.Logger

	loop                   // loop.go: the session's goroutine
	deleted  chan struct{} // closed when the session is deleted
	unloaded chan struct{} // closed when the session is unloaded

	// The parts of the session have locks of their own. components.go makes them, but for what a summary needs of the first three.
	journal       *Journal      // journal.go: the log of events
	known         *knownFiles   // filesnapshot.go: the files that the log knows
	guard         guard         // repeatguard.go
	executions    *Executions   // executions.go
	approvals     *Approvals    // approvals.go
	tools         *Tools        // tools.go: what cells may call, and open calls
	interpreter   *Interpreter  // introspection.go
	out           *outputHome   // output.go
	variablesFile variablesFile // savedvariables.go
	files         *files.Files
	packages      *packages.Packages
	notebook      *notebook.Notebook
	access        *access.Access
	terminals     *processes.Terminals
	programs      *processes.Programs

	mu           sync.Mutex // guards the fields below; never held across I/O
	name         string
	metadata     map[string]string
	limits       api.Limits
	network      api.Network
	kernelState  // kernel.go
	queueState   // queue.go
	useState     // reaper.go
	spending     // spending.go
	approvalMode api.ApprovalMode
	checkpoints  checkpoints       // checkpoints.go
	onIdle       api.OnIdle        // "": as the operator says
	saved        *savedVariables   // hibernate.go; nil if there are none
	notRestored  []api.NotRestored // when the present kernel got saved variables
	pending      *api.PendingInput
	gone         bool                    // being deleted, or deleted
	deleting     chan struct{}           // closed when the newest attempt to delete the session has ended
	beside       map[*Session]bool       // the loaded sessions in its sandbox; true: it needs this one's kernel, see holdMain
	frozen       bool                    // the workspace is read-only, since the state disk is nearly full
	stopCopying  context.CancelCauseFunc // ends the copying of a cell's files; nil when none are copied
	residence                            // unload.go
}

// newSession loads the session of a row. Its goroutine is not started.
func (m *Manager) newSession(ctx context.Context, r store.Session) (*Session, error) {
	if r.Beside != 0 {
		row, err := m.cfg.Store.SessionNumber(ctx, r.Beside)
		if errors.Is(err, store.ErrNotFound) {
			return nil, ErrDeleted
		}
		if err != nil {
			return nil, err
		}
		main, err := m.load(ctx, row.N, row.ID)
		if err != nil {
			return nil, err
		}
		return m.sessionBeside(r, main), nil
	}
	dir, err := m.cfg.Disk.Load(r.ID, r.UID, r.Limits.DiskBytes)
	if err != nil {
		return nil, err
	}
	s, err := m.sessionIn(ctx, r, dir)
	if err != nil {
		return nil, errors.Join(err, dir.Close())
	}
	return s, nil
}

// sessionBeside is newSession for one beside main. It takes over the caller's use of main.
func (m *Manager) sessionBeside(r store.Session, main *Session) *Session {
	s := m.sessionOf(r)
	s.prepare(r)
	s.main, s.folder, s.dir, s.known = main, r.Folder, main.dir, main.known
	s.makeParts(r, main.packages.Dir(), workspace.Snapshot{})
	s.joinMain()
	s.share() // now, so that no later change is missed
	return s
}

// sessionIn is newSession with its workspace, which it takes over unless there is an error.
func (m *Manager) sessionIn(ctx context.Context, r store.Session, dir *disk.Workspace) (*Session, error) {
	if m.crashed {
		if _, mended := m.mended.LoadOrStore(r.ID, true); !mended {
			if err := dir.RemoveUploads(ctx); err != nil {
				m.cfg.Log.Warn("unfinished uploads remain in a workspace", "session", r.ID, "error", err)
			}
		}
	}
	packagesDir, err := workspace.Open(filepath.Join(m.cfg.SessionsDir, r.ID, workspace.PackagesFolder))
	if err != nil {
		return nil, err
	}
	var snapshot workspace.Snapshot
	if b, err := m.cfg.Store.Snapshot(ctx, r.N); err == nil && b != nil {
		if err := snapshot.UnmarshalBinary(b); err != nil {
			m.cfg.Log.Warn("the snapshot of a workspace cannot be read; all of its files are treated as new", "session", r.ID)
		}
	}
	s := m.sessionOf(r)
	s.prepare(r)
	s.dir = dir
	s.makeParts(r, packagesDir, snapshot)
	return s, nil
}

// prepare adds what a summary does not need, and the files do not matter to.
func (s *Session) prepare(r store.Session) {
	cfg := &s.m.cfg
	secrets := slices.Collect(maps.Values(r.Secrets))
	s.redact = transcript.NewRedactor(transcript.Rules{
		Values: append(secrets, transcript.Sensitive(r.Env)...), Expressions: cfg.Redact, Known: cfg.RedactKnown,
	})
	s.log = cfg.Log.With("session", r.ID)
	var err error
	if s.saved, err = decodeSaved(r.SavedVariables); err != nil {
		s.log.Error("the saved variables of a session cannot be read; it begins without them", "error", err)
	}
}

// sessionOf makes the session of a row without its files: good for its summary.
func (m *Manager) sessionOf(r store.Session) *Session {
	s := &Session{
		m: m, n: r.N, id: r.ID, owner: r.Owner, clientID: r.ClientID, besideID: r.BesideID, uid: r.UID, env: m.environment(r.Environment),
		isolation: api.IsolationMode(r.Isolation), variables: r.Env, secrets: r.Secrets, mounts: r.Mounts, hooks: r.Tools, servers: r.MCPServers,
		journal: newJournal(r, m.blobs, &m.events), unloaded: make(chan struct{}),
		loop: newLoop(store.StateReason{State: r.State, Reason: r.Reason}), deleted: make(chan struct{}),
		name: r.Name, metadata: r.Metadata, limits: m.operator.Complete(r.Limits), network: r.Network,
		kernelState: kernelState{
			state: r.State, reason: r.Reason, generation: r.Generation, wakes: r.Wakes, kernelStarted: r.KernelStarted,
			restartReason: r.RestartReason, layers: r.Layers, tier: m.tierOf(r.Handle),
			executionCount: r.ExecutionCount, lateBytes: r.LateBytes,
		},
		queueState:   queueState{open: map[string]*execution{}},
		guard:        guard{mode: r.Guard},
		approvalMode: cmp.Or(r.Approvals, api.ApprovalsOff),
		checkpoints:  checkpoints{set: m.operator.CheckpointsOf(r.Checkpoints)}, onIdle: r.OnIdle,
		spending: spending{budgets: r.Budgets, spent: r.Spent, createdAt: r.CreatedAt},
		useState: useState{idleMS: r.IdleTimeoutMS, lastActive: r.LastActiveAt},
	}
	s.known = &knownFiles{looking: make(chan struct{}, 1)}
	s.known.bytes.Store(r.DiskBytes)
	return s
}

// ID returns the session's id, which is unique for its owner.
func (s *Session) ID() string { return s.clientID }

// Serial returns the id that the server made for the session. No other session has or had it.
func (s *Session) Serial() string { return s.id }

// Info returns the session as clients see it. ctx bounds the reading of its usage.
func (s *Session) Info(ctx context.Context) api.Session {
	info := s.summary()
	if key, measurable := s.measurable(); measurable {
		if u, err := command.Ask(ctx, s.m.cfg.Host, key, command.ReadUsage{}); err == nil {
			addUsage(&info, u)
		}
	}
	return info
}

// measurable returns the key of the kernel, and whether its usage can be read now: a host would answer only when a kernel that is
// starting has started.
func (s *Session) measurable() (record.Key, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.key(), s.state == api.StateIdle || s.state == api.StateBusy
}

// addUsage adds to info what its kernel uses.
func addUsage(info *api.Session, u kernel.Usage) {
	info.Usage.MemoryBytes, info.Usage.PeakMemoryBytes = u.MemoryBytes, u.PeakMemoryBytes
	if info.State == api.StateBusy { // what is known from the last cell's end is exact
		info.Usage.DiskBytes = u.DiskBytes
	}
	info.Usage.CPUSeconds = u.CPU.Seconds()
	info.Usage.PIDs = u.PIDs
	for _, p := range u.Processes {
		info.Usage.Processes = append(info.Usage.Processes, api.Process{PID: int64(p.PID), Name: p.Name})
	}
}

// summary returns the session without the usage of its processes.
func (s *Session) summary() api.Session {
	s.mu.Lock()
	defer s.mu.Unlock()
	k, last := s.journal.figures()
	info := api.Session{
		ID: s.clientID, Name: s.name, State: s.state, Reason: s.reason, Environment: s.env.Name,
		Isolation: api.Isolation{Tier: s.tier, Layers: s.layers}, Beside: s.besideID,
		Limits: s.limits, Budgets: s.left(), Network: s.network, Mounts: append([]api.Mount{}, s.mounts...), Guard: s.guard.setting(), Approvals: s.approvalMode,
		Checkpoints: s.checkpointSettings(), OnIdle: s.whenIdle(),
		MCPServers:   append([]string(nil), s.servers...),
		IdleTimeoutS: float64(s.idleMS) / 1000, ReapAt: s.reapAt(), Metadata: s.metadata,
		ExecutionCount: s.executionCount, LogID: k.logID, FirstSeq: k.firstSeq, LastSeq: last, PendingInput: s.pending,
		Kernel: api.Kernel{Generation: s.generation, Python: s.env.Version, Engine: s.kernelEngine(), StartedAt: millis(s.kernelStarted)},
		Usage: api.Usage{
			DiskBytes: s.known.bytes.Load(), LogBytes: k.logBytes, ArtifactBytes: k.artifactBytes, Processes: []api.Process{},
		},
		CreatedAt: api.Millis(s.createdAt), LastActiveAt: api.Millis(s.lastActive),
	}
	return info
}

func millis(ms *int64) *api.Time {
	if ms == nil {
		return nil
	}
	t := api.Millis(*ms)
	return &t
}

// kernelEngine is the engine of the present kernel, or of the next one where that is not known. mu is held.
func (s *Session) kernelEngine() string { return cmp.Or(s.engine, s.env.Engine, python.EngineStdlib) }

// Metadata returns the session's metadata. The caller must not change it.
func (s *Session) Metadata() map[string]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.metadata
}

// Deleted is closed when the session is deleted.
func (s *Session) Deleted() <-chan struct{} { return s.deleted }

// Attach registers a client that can answer input(), until detach is called.
func (s *Session) Attach() (detach func()) {
	s.mu.Lock()
	s.attached++
	s.mu.Unlock()
	var once sync.Once
	return func() {
		once.Do(func() {
			s.mu.Lock()
			s.attached--
			s.mu.Unlock()
		})
	}
}

// Hold keeps the kernel from ending for want of use until release is called, which counts as use. It may be called more than once.
func (s *Session) Hold() (release func()) {
	s.mu.Lock()
	s.held++
	s.armReaper()
	s.mu.Unlock()
	return sync.OnceFunc(func() {
		s.mu.Lock()
		s.held--
		s.mu.Unlock()
		_ = s.touch(context.Background()) // it fails for a session that is deleted
	})
}

// Keep records that the session is used, which postpones its reaping.
func (s *Session) Keep(ctx context.Context) error { return s.touch(ctx) }

// key names the present or last kernel. The caller holds s.mu.
func (s *Session) key() record.Key {
	return record.Key{Session: s.id, Generation: s.generation + s.wakes} // a host knows nothing of wakes
}

// settings returns what the session is, as a request would ask for it, but for the field builtin_tools.
func (s *Session) settings() settings.Settings {
	s.mu.Lock()
	defer s.mu.Unlock()
	return settings.Settings{
		Name: s.name, Environment: s.env, Isolation: s.isolation, Limits: s.limits, IdleMS: s.idleMS, Env: s.variables, Secrets: s.secrets,
		Metadata: s.metadata, Mounts: s.mounts, Network: s.network, Packages: s.packages.Requirements(), Guard: s.guard.setting(),
		Approvals: s.approvalMode, Budgets: s.budgets, Checkpoints: s.checkpoints.set, OnIdle: s.onIdle, BuiltinTools: s.tools.builtin,
		Tools: s.hooks, Servers: s.servers,
	}
}

// kernelKey names the present or last kernel.
func (s *Session) kernelKey() record.Key {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.key()
}

func kernelLimits(l api.Limits) kernel.Limits {
	return kernel.Limits{
		MemoryBytes: l.MemoryBytes, CPUs: l.CPUs, PIDs: l.PIDs, DiskBytes: l.DiskBytes,
		TmpBytes: max(l.MemoryBytes/4, 16<<20),
	}
}

// touch records that the session was used, which postpones its reaping.
func (s *Session) touch(ctx context.Context) error { return s.journal.commit(ctx, s.touched()) }

// touched returns the change that touch commits.
func (s *Session) touched() change {
	now := time.Now().UnixMilli()
	return change{
		progress: store.Progress{LastActive: &now},
		done:     func() { s.mu.Lock(); defer s.mu.Unlock(); s.used(now) },
	}
}

// used postpones the reaping. The caller holds s.mu.
func (s *Session) used(now int64) {
	s.lastActive = max(s.lastActive, now)
	s.armReaper()
}

// Input answers the question that a cell waits on; the first answer wins.
func (s *Session) Input(ctx context.Context, r api.InputRequest) error {
	s.mu.Lock()
	p, key := s.pending, s.key()
	if p == nil || (r.RequestID != nil && *r.RequestID != p.RequestID) {
		s.mu.Unlock()
		return api.Errorf(api.CodeNoInputPending, "no input is requested, or the request has already been answered")
	}
	s.mu.Unlock()
	answer := command.AnswerInput{RequestID: p.RequestID, Value: r.Value}
	err := command.Tell(ctx, s.m.cfg.Host, key, answer)
	if errors.Is(err, command.ErrNoInputPending) || errors.Is(err, command.ErrNoKernel) {
		return api.Errorf(api.CodeNoInputPending, "the input request is no longer open")
	}
	if err != nil { // it is still open
		return fmt.Errorf("answer the question: %w", err)
	}
	s.mu.Lock()
	if s.pending == p {
		s.pending = nil
	}
	s.mu.Unlock()
	return s.touch(ctx)
}

// tierOf returns the isolation tier of the kernel with this handle, or of new kernels if handle is nil.
func (m *Manager) tierOf(handle []byte) string {
	var h kernel.Handle
	if handle == nil || jsonv2.Unmarshal(handle, &h) != nil {
		return m.cfg.Tier
	}
	return cmp.Or(h.Backend, m.cfg.Tier)
}

// Clean returns a text without escape sequences, and without the secrets that are removed from what models read.
func (s *Session) Clean(text string) string { return s.redact.Clean(text) }

// Redacted returns a text without the secrets that are removed from what models read.
func (s *Session) Redacted(text string) string { return s.redact.Text(text) }
