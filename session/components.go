package session

import (
	"context"
	"time"

	"talaria/api"
	"talaria/kernel"
	"talaria/kernel/workspace"
	"talaria/session/access"
	"talaria/session/files"
	"talaria/session/notebook"
	"talaria/session/packages"
	"talaria/session/processes"
	"talaria/session/toolspec"
	"talaria/store"
)

// makeParts makes the parts of a session that is being loaded, and gives each what it needs of the session. A part comes after
// those that it is given.
func (s *Session) makeParts(r store.Session, packagesDir *workspace.Dir, snapshot workspace.Snapshot) {
	m, cfg := s.m, &s.m.cfg
	builtin, err := toolspec.CheckBuiltin(r.BuiltinTools)
	if err != nil {
		s.log.Warn("a session's built-in tools cannot be read; it has none")
	}
	s.journal.retain, s.journal.release, s.journal.limit = s.retain, s.Release, s.logLimit
	if s.main == nil {
		s.known.connect(s, snapshot)
	}
	s.guard.journal, s.guard.log = s.journal, s.log
	s.approvals = newApprovals(s)
	s.tools = newTools(s, builtin)
	s.tools.addRemote(r)
	s.executions = &Executions{sessionID: s.clientID, journal: s.journal, tools: s.tools, redact: s.redact, open: s.openExecution}
	s.interpreter = &Interpreter{host: cfg.Host, kernel: s.askable, touch: s.touch}
	s.out = &outputHome{
		session: s.id, artifacts: cfg.Artifacts, log: s.log, isDiskLow: m.reserve.low.Load, spare: m.spare, makeRoom: s.makeRoom,
	}
	s.variablesFile = variablesFile{host: cfg.Host, dir: s.dir, name: savedFile, artifacts: cfg.Artifacts, spare: m.spare}
	if s.main != nil {
		s.variablesFile.name += "-" + s.id
	}
	s.files = files.New(files.Config{
		Dir: s.dir, Owner: s.owner, Session: s.id, Watches: &m.watches, Spare: m.spare, Limit: s.diskLimit, Changed: s.known.note,
		Deleted: s.deleted, ErrDeleted: ErrDeleted,
	})
	folder, beside := s.id, (*packages.Packages)(nil)
	if s.main != nil {
		folder, beside = s.main.id, s.main.packages
	}
	s.packages = packages.New(packages.Session{
		Config: cfg.Packages, ID: folder, SessionsDir: cfg.SessionsDir, Dir: packagesDir, Beside: beside, UID: s.uid, Environment: s.env, TZ: cfg.TZ,
		Requirements: r.Packages, Host: cfg.Host, Log: s.log, Limits: s.presentLimits, Spare: m.spare, Startable: s.hasEnvironment,
		Approve: s.approveInstall, Record: s.installed, Insist: insist, Retain: s.retain, Release: s.Release,
	})
	s.notebook = notebook.New(notebook.Config{
		Store: cfg.Store, Session: s.n, Python: s.env.Version, LastSeq: s.journal.LastSeq, ReadError: s.journal.readError,
		Execution: s.executions.Get, ExecutionAt: s.executions.At, Commit: s.commitDocument, Spare: m.spare,
	})
	s.access = access.New(access.Config{Store: cfg.Store, Session: s.n, ReadError: s.journal.readError, Commit: s.commitUse})
	s.terminals, s.programs = processes.New(processes.Kernel{
		Host: cfg.Host, Key: s.kernelKey, Start: s.needKernel, Used: s.usedAt, Touch: s.touch,
	})
}

// Journal returns the session's log of events, to be read.
func (s *Session) Journal() *Journal { return s.journal }

// Approvals returns the session's questions to people.
func (s *Session) Approvals() *Approvals { return s.approvals }

// Tools returns the tools that the session's cells may call.
func (s *Session) Tools() *Tools { return s.tools }

// Interpreter returns what asks the interpreter of the session's kernel.
func (s *Session) Interpreter() *Interpreter { return s.interpreter }

// Executions returns the session's executions, to be read.
func (s *Session) Executions() *Executions { return s.executions }

// Notebook returns the session's notebook: its document, and its exchange with notebook files.
func (s *Session) Notebook() *notebook.Notebook { return s.notebook }

// Access returns the session's links and tokens, which let others than its owner in.
func (s *Session) Access() *access.Access { return s.access }

// Files returns the files of the session's workspace.
func (s *Session) Files() *files.Files { return s.files }

// Terminals returns the shells in the session's sandbox.
func (s *Session) Terminals() *processes.Terminals { return s.terminals }

// Programs returns the programs in the session's sandbox that clients have started.
func (s *Session) Programs() *processes.Programs { return s.programs }

// logLimit returns limits.log_bytes, or 0 for a session that is being deleted: its log goes as a whole.
func (s *Session) logLimit() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.gone {
		return 0
	}
	return s.limits.LogBytes
}

// diskLimit returns limits.disk_bytes.
func (s *Session) diskLimit() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.limits.DiskBytes
}

// presentLimits returns the session's limits as kernels have them.
func (s *Session) presentLimits() kernel.Limits {
	s.mu.Lock()
	defer s.mu.Unlock()
	return kernelLimits(s.limits)
}

// installed writes down how an installation ended.
func (s *Session) installed(ctx context.Context, executionID string, e api.PackageInstalled) error {
	return s.journal.commit(ctx, change{drafts: []draft{{executionID: executionID, body: e}}})
}

// usedAt postpones the reaping, and writes nothing down.
func (s *Session) usedAt(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.used(now.UnixMilli())
}

// commitUse makes a change that counts as use of the session.
func (s *Session) commitUse(ctx context.Context, write func(*store.Tx) error) error {
	c := s.touched()
	c.also = write
	return s.journal.commit(ctx, c)
}

// commitDocument commits a change of the session's document, and the event that announces it.
func (s *Session) commitDocument(ctx context.Context, write func(*store.Tx) error, announced api.DocumentChanged) error {
	c := s.touched()
	c.before, c.drafts = write, []draft{{body: announced}}
	return s.journal.commit(ctx, c)
}
