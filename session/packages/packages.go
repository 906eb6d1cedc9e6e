// Package packages installs packages into a session: an installer, which is a kernel of its own, makes the next layer of them, and
// one rename puts it in force.
package packages

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"sync"
	"time"

	"talaria/api"
	"talaria/kernel"
	"talaria/kernel/command"
	"talaria/kernel/python"
	"talaria/kernel/record"
	"talaria/kernel/workspace"
	"talaria/session/index"
)

// Config says how the sessions of an operator install packages.
type Config struct {
	// Off is why they cannot; "": they can.
	Off string
	// Index opens the way to the package index, when it is needed for the first time and after an error.
	Index func(context.Context) (Index, error)
	// Socket is where that index is served, for installers.
	Socket   string
	MaxBytes int64         // of all of a session's packages
	Timeout  time.Duration // of one installation
}

// Index serves the packages that sessions may have to their installers. [talaria/session/index.Index] is one.
type Index interface {
	// Admit gives one installation a token, the first element of its paths, until it is released.
	Admit() (token string, release func())
}

// The defaults of an operator who configures nothing.
const (
	DefaultBytes   = 4 << 30
	DefaultTimeout = 10 * time.Minute
)

// Allowed returns nil if sessions can install packages.
func (c Config) Allowed() error {
	if c.Off != "" {
		return api.Errorf(api.CodeForbidden, "packages cannot be installed in sessions of this server: %s", c.Off)
	}
	return nil
}

// Host is what runs installers: kernels of their own.
type Host interface {
	Start(ctx context.Context, key record.Key, env kernel.Environment, spec kernel.Spec) (command.KernelInfo, error)
	command.Doer
	Next(ctx context.Context, key record.Key, after uint64) ([]record.Record, error)
	Ack(key record.Key, kseq uint64)
	Stop(ctx context.Context, key record.Key, reason string) error
}

// Session is what packages need of their session. Its functions are safe for concurrent use.
type Session struct {
	Config      Config
	ID          string // which names the session's folder in SessionsDir
	SessionsDir string
	Dir         *workspace.Dir // of the packages; Close closes it, unless it is that of
	Beside      *Packages      // which others install into as well; nil: nobody does
	UID         int
	Environment kernel.Environment
	TZ          string
	// Requirements are those that the session was created with.
	Requirements []string
	Host         Host
	Log          *slog.Logger
	Limits       func() kernel.Limits // of the session
	Spare        func() error         // why nothing can be written to the server's disk, or nil
	Startable    func() error         // why no kernel can be started in the environment, or nil
	// Approve asks for a change if a person has to approve it. The error is nil for a yes.
	Approve func(ctx context.Context, executionID string, asked record.PackageChange) error
	// Record writes down how an installation ended.
	Record func(ctx context.Context, executionID string, e api.PackageInstalled) error
	// Insist repeats ask until the host responds or ctx ends.
	Insist func(ctx context.Context, ask func() error) error
	// Retain keeps the session loaded until Release.
	Retain  func() bool
	Release func()
}

// What ends an installation before it has changed anything, for the one who asked for it.
var (
	ErrInterrupted = errors.New("the installation was interrupted; nothing was changed")
	ErrServerEnds  = errors.New("the server is restarting; nothing was changed: install again")
)

// Packages are what a session has installed, in a folder with one layer of them in force, and the installation that runs.
// Only installations change the folder while a kernel runs, one at a time, and the session's goroutine without one.
type Packages struct {
	in   Session
	turn chan struct{} // holds a value while the folder is changed; the same for all that share the folder

	mu         sync.Mutex    // guards installing
	installing *installation // the newest one, which may have ended; nil before the first
}

// New returns the packages of a session.
func New(in Session) *Packages {
	p := &Packages{in: in, turn: make(chan struct{}, 1)}
	if in.Beside != nil {
		p.turn = in.Beside.turn
	}
	return p
}

// Dir returns the folder of the packages.
func (p *Packages) Dir() *workspace.Dir { return p.in.Dir }

// Requirements returns those that the session was created with.
func (p *Packages) Requirements() []string { return p.in.Requirements }

// File returns the folder of the packages, for a kernel. It is open until Close.
func (p *Packages) File() *os.File { return p.in.Dir.File() }

// Close releases the folder. No installation runs any more.
func (p *Packages) Close() error { return p.in.Dir.Close() }

// take waits until nobody else changes the folder; the caller calls leave.
func (p *Packages) take(ctx context.Context) error {
	select {
	case p.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (p *Packages) leave() { <-p.turn }

// begin makes i the newest installation and returns the one before it, or nil.
func (p *Packages) begin(i *installation) (before *installation) {
	p.mu.Lock()
	defer p.mu.Unlock()
	before, p.installing = p.installing, i
	return before
}

// newest returns the newest installation, or nil.
func (p *Packages) newest() *installation {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.installing
}

// installation is one that a kernel waits for.
type installation struct {
	key    record.Key
	ask    string // its id
	change record.PackageChange
	cancel context.CancelCauseFunc
	done   chan struct{}
}

// Begin installs what a kernel asks for, in the background, and answers the kernel. On the session's goroutine.
func (p *Packages) Begin(key record.Key, executionID, ask string, change record.PackageChange) {
	ctx, cancel := context.WithCancelCause(context.Background())
	i := &installation{key: key, ask: ask, change: change, cancel: cancel, done: make(chan struct{})}
	before := p.begin(i)
	p.in.Retain() // on the session's goroutine, so it does not leave
	go func() {
		defer p.in.Release()
		defer close(i.done)
		defer cancel(nil)
		if before != nil {
			<-before.done // nobody waits for it now
		}
		p.installFor(ctx, i, executionID)
	}()
}

// Cancel stops the installation that was asked for by that id, or any if it is "": nobody waits for it any longer.
func (p *Packages) Cancel(ask string) {
	if i := p.newest(); i != nil && (ask == "" || i.ask == ask) {
		i.cancel(ErrInterrupted)
	}
}

// End stops the installation that runs, if one does, and returns when nothing of it is left. cause is what its
// caller is told.
func (p *Packages) End(cause error) {
	if i := p.newest(); i != nil {
		i.cancel(cause)
		<-i.done
	}
}

// installFor installs, writes down how that ended, and answers the kernel.
func (p *Packages) installFor(ctx context.Context, i *installation, executionID string) {
	changed, err := p.install(ctx, i, executionID)
	result := command.InstallResult{Packages: changed}
	if err != nil {
		result.Error = p.installError(ctx, err)
	}
	written := p.in.Record(context.WithoutCancel(ctx), executionID, api.PackageInstalled{
		Requirements: append([]string{}, i.change.Requirements...), OK: err == nil,
	})
	if written != nil {
		p.in.Log.Error("record an installation", "error", written)
	}
	answer := command.AnswerInstall{RequestID: i.ask, Result: result}
	err = p.in.Insist(ctx, func() error { return command.Tell(context.WithoutCancel(ctx), p.in.Host, i.key, answer) })
	if err != nil {
		p.in.Log.Debug("answer an installation", "error", err) // nobody waits for it now
	}
}

// installError returns err as the client sees it.
func (p *Packages) installError(ctx context.Context, err error) string {
	var told *api.Error
	switch cause := context.Cause(ctx); {
	case cause != nil:
		return cause.Error()
	case errors.As(err, &told):
		return told.Detail
	case errors.Is(err, python.ErrNoPip):
		return err.Error()
	}
	p.in.Log.Error("install packages", "error", err)
	return "the installer could not be started; the cause is in the server's log"
}

// install has an installer make the session's next layer, if a person approves that where one has to, and puts it in
// force. On an error nothing has changed.
func (p *Packages) install(ctx context.Context, i *installation, executionID string) ([]command.Package, error) {
	asked := i.change
	if err := p.in.Spare(); err != nil {
		return nil, err
	}
	if err := p.in.Config.Allowed(); err != nil {
		return nil, err
	}
	if err := CheckRequirements("this", asked.Requirements); err != nil {
		return nil, err
	}
	if err := p.in.Approve(ctx, executionID, asked); err != nil {
		return nil, err
	}
	if err := p.take(ctx); err != nil {
		return nil, err
	}
	defer p.leave()
	from, err := p.in.Config.Index(ctx)
	if err != nil {
		return nil, err
	}
	token, release := from.Admit()
	defer release()
	if err := p.clearStage(); err != nil {
		return nil, err
	}
	stage, err := workspace.CreateStage(p.in.SessionsDir, p.in.ID, p.in.UID)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err := errors.Join(stage.Close(), p.clearStage()); err != nil {
			p.in.Log.Warn("remove a stage", "error", err)
		}
	}()
	code, err := installerCode(index.URL(token), asked)
	if err != nil {
		return nil, err
	}
	if err := p.runInstaller(ctx, i, stage, code); err != nil {
		return nil, err
	}
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	return p.putInForce(ctx)
}
