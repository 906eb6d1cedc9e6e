package session

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
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

// Packages says how sessions install packages.
type Packages struct {
	// Off is why they cannot; "": they can.
	Off string
	// Index opens the way to the package index, when it is needed for the first time and after an error.
	Index func(context.Context) (PackageIndex, error)
	// Socket is where that index is served, for installers.
	Socket   string
	MaxBytes int64         // of all of a session's packages
	Timeout  time.Duration // of one installation
}

// PackageIndex serves the packages that sessions may have to their installers. [index.Index] is one.
type PackageIndex interface {
	// Admit gives one installation a token, the first element of its paths, until it is released.
	Admit() (token string, release func())
}

// The defaults of an operator who configures nothing.
const (
	DefaultPackageBytes   = 4 << 30
	DefaultPackageTimeout = 10 * time.Minute
)

const (
	currentLayer = "current" // the link to the layer in force, in the packages folder
	stagedLayer  = "layer"   // the new one, in the stage
	// relayedBytes are shown of what one installer prints.
	relayedBytes = 256 << 10
	installerTmp = 512 << 20

	installerTalks = "\n[further output of the installer was left out]\n"
)

//go:embed installer.py
var installer string

var (
	errInstallStopped = errors.New("the installation was interrupted; nothing was changed")
	errInstallCut     = errors.New("the server is restarting; nothing was changed: install again")
)

// packages are what a session has installed, in a folder with one layer of them in force, and the installation that runs.
// Only installations change the folder while a kernel runs, one at a time, and the session's goroutine without one.
type packages struct {
	dir *workspace.Dir
	// requirements are those that the session was created with.
	requirements []string

	mu         sync.Mutex    // guards installing
	installing *installation // the newest one, which may have ended; nil before the first
}

// begin makes i the newest installation and returns the one before it, or nil.
func (p *packages) begin(i *installation) (before *installation) {
	p.mu.Lock()
	defer p.mu.Unlock()
	before, p.installing = p.installing, i
	return before
}

// newest returns the newest installation, or nil.
func (p *packages) newest() *installation {
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

// beginInstall installs what a kernel asks for, in the background. On the session's goroutine.
func (s *Session) beginInstall(key record.Key, executionID, ask string, change record.PackageChange) {
	ctx, cancel := context.WithCancelCause(context.Background())
	i := &installation{key: key, ask: ask, change: change, cancel: cancel, done: make(chan struct{})}
	before := s.packages.begin(i)
	s.retain() // on the session's goroutine, so it does not leave
	go func() {
		defer s.Release()
		defer close(i.done)
		defer cancel(nil)
		if before != nil {
			<-before.done // nobody waits for it now
		}
		s.installFor(ctx, i, executionID)
	}()
}

// cancelInstall stops the installation that was asked for by that id, or any if it is "": nobody waits for it any longer.
func (s *Session) cancelInstall(ask string) {
	if i := s.packages.newest(); i != nil && (ask == "" || i.ask == ask) {
		i.cancel(errInstallStopped)
	}
}

// endInstall stops the installation that runs, if one does, and returns when nothing of it is left.
func (s *Session) endInstall(cause error) {
	if i := s.packages.newest(); i != nil {
		i.cancel(cause)
		<-i.done
	}
}

// installFor installs, writes down how that ended, and answers the kernel.
func (s *Session) installFor(ctx context.Context, i *installation, executionID string) {
	changed, err := s.install(ctx, i, executionID)
	result := command.InstallResult{Packages: changed}
	if err != nil {
		result.Error = s.installError(ctx, err)
	}
	written := s.journal.commit(context.WithoutCancel(ctx), change{drafts: []draft{{executionID: executionID, body: api.PackageInstalled{
		Requirements: append([]string{}, i.change.Requirements...), OK: err == nil,
	}}}})
	if written != nil {
		s.log.Error("record an installation", "error", written)
	}
	answer := command.AnswerInstall{RequestID: i.ask, Result: result}
	err = insist(ctx, func() error { return command.Tell(context.WithoutCancel(ctx), s.m.cfg.Host, i.key, answer) })
	if err != nil {
		s.log.Debug("answer an installation", "error", err) // nobody waits for it now
	}
}

// installError returns err as the client sees it.
func (s *Session) installError(ctx context.Context, err error) string {
	var told *api.Error
	switch cause := context.Cause(ctx); {
	case cause != nil:
		return cause.Error()
	case errors.As(err, &told):
		return told.Detail
	case errors.Is(err, python.ErrNoPip):
		return err.Error()
	}
	s.log.Error("install packages", "error", err)
	return "the installer could not be started; the cause is in the server's log"
}

// install has an installer make the session's next layer, if a person approves that where one has to, and puts it in
// force. On an error nothing has changed.
func (s *Session) install(ctx context.Context, i *installation, executionID string) ([]command.Package, error) {
	asked := i.change
	if err := s.m.spare(); err != nil {
		return nil, err
	}
	if err := s.m.installs(); err != nil {
		return nil, err
	}
	if err := checkRequirements("this", asked.Requirements); err != nil {
		return nil, err
	}
	if err := s.approveInstall(ctx, executionID, asked); err != nil {
		return nil, err
	}
	from, err := s.m.cfg.Packages.Index(ctx)
	if err != nil {
		return nil, err
	}
	token, release := from.Admit()
	defer release()
	if err := s.clearStage(); err != nil {
		return nil, err
	}
	stage, err := workspace.CreateStage(s.m.cfg.SessionsDir, s.id, s.uid)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err := errors.Join(stage.Close(), s.clearStage()); err != nil {
			s.log.Warn("remove a stage", "error", err)
		}
	}()
	code, err := installerCode(index.URL(token), asked)
	if err != nil {
		return nil, err
	}
	if err := s.runInstaller(ctx, i, stage, code); err != nil {
		return nil, err
	}
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	return s.putInForce(ctx)
}

// installerCode is the cell that an installer runs.
func installerCode(index string, c record.PackageChange) (string, error) {
	order, err := api.Marshal(map[string]any{
		"index": index, "remove": c.Remove, "requirements": append([]string{}, c.Requirements...), "upgrade": c.Upgrade,
		"reinstall": c.Reinstall, "no_deps": c.NoDeps, "pre": c.Pre, "quiet": c.Quiet,
	})
	if err != nil {
		return "", err
	}
	return "import json\nORDER = json.loads(" + strconv.QuoteToASCII(string(order)) + ")\n" + installer, nil
}

// runInstaller runs the code in a kernel of its own, which has nothing of the session but its packages and its limits,
// and can reach nothing but the index. It returns when no process of it is left.
func (s *Session) runInstaller(ctx context.Context, i *installation, stage *workspace.Dir, code string) (err error) {
	if err := s.hasEnvironment(); err != nil {
		return err
	}
	s.mu.Lock()
	limits := kernelLimits(s.limits)
	s.mu.Unlock()
	limits.DiskBytes = min(limits.DiskBytes, s.m.cfg.Packages.MaxBytes)
	limits.TmpBytes = installerTmp
	host, key := s.m.cfg.Host, record.Key{Session: newID(), Generation: 1}
	_, err = host.Start(ctx, key, s.env, kernel.Spec{
		UID: s.uid, Workspace: stage.File(), Packages: s.packages.dir.File(), TZ: s.m.cfg.TZ, Limits: limits, Hostname: "talaria",
		Strict: true, NoInstalls: "this is an installer", NoTools: "an installer calls no tools", NoAfter: "an installer has no checkpoints", Network: kernel.Network{
			Mode: string(api.NetworkAllow), Hosts: map[string]string{index.Name: "unix:" + s.m.cfg.Packages.Socket},
		},
	})
	if err != nil {
		return err
	}
	defer func() {
		err = errors.Join(err, insist(context.Background(), func() error {
			return host.Stop(context.WithoutCancel(ctx), key, "installed")
		}))
		host.Ack(key, ^uint64(0))
	}()
	run := command.Execution{ID: newID(), Code: code, Silent: true, Timeout: s.m.cfg.Packages.Timeout}
	if err := command.Tell(ctx, host, key, run); err != nil {
		return err
	}
	return s.followInstaller(ctx, i, key, limits)
}

// followInstaller relays what an installer prints until it has ended, and returns how.
func (s *Session) followInstaller(ctx context.Context, i *installation, key record.Key, limits kernel.Limits) error {
	f := installerOutput{limits: limits, timeout: s.m.cfg.Packages.Timeout}
	for last := uint64(0); ; {
		batch, err := s.m.cfg.Host.Next(ctx, key, last)
		if err != nil {
			return fmt.Errorf("follow the installer: %w", err)
		}
		for _, r := range batch {
			last = r.KSeq
			f.take(r.Body)
		}
		if err := s.relay(ctx, i, &f); err != nil {
			return err
		}
		if f.over {
			return f.failure
		}
		s.m.cfg.Host.Ack(key, last)
	}
}

// relay sends what the installer printed to the kernel that waits for the installation. Text that the kernel does not
// read now is sent again with the next text.
func (s *Session) relay(ctx context.Context, i *installation, f *installerOutput) error {
	if f.unsent == "" {
		return nil
	}
	err := command.Tell(ctx, s.m.cfg.Host, i.key, command.InstallOutput{RequestID: i.ask, Text: f.unsent})
	switch {
	case err == nil:
		f.unsent = ""
	case ctx.Err() != nil, errors.Is(err, command.ErrNoInstallPending), errors.Is(err, command.ErrNoKernel):
		return errInstallStopped
	default:
		s.log.Debug("relay what an installer printed", "error", err)
	}
	return nil
}

// installerOutput is what the records of an installer have reported so far.
type installerOutput struct {
	limits  kernel.Limits
	timeout time.Duration

	printed int    // bytes
	unsent  string // that are to be relayed
	over    bool
	failure error
}

func (f *installerOutput) take(body record.Body) {
	switch b := body.(type) {
	case record.Stream:
		f.print(b.Text)
	case record.Raised:
		f.failure = failed("%s", b.Error.Evalue)
		if b.Error.Ename != "SystemExit" {
			f.failure = failed("the installer failed: %s: %s", b.Error.Ename, b.Error.Evalue)
		}
		if b.Limit != nil {
			f.failure = pastLimit(b.Limit, f.limits)
		}
	case record.Finished:
		f.over = true
		switch {
		case b.Status == record.TimedOut:
			f.failure = failed("the installation took longer than %v (packages.timeout_s in the server's configuration); nothing was changed", f.timeout)
		case b.Status != record.OK && f.failure == nil:
			f.failure = failed("the installer ended as %s", b.Status)
		}
	case record.Died:
		f.over = true
		f.failure = failed("the installer died (%s); nothing was changed", b.Reason)
		if b.Limit != nil {
			f.failure = pastLimit(b.Limit, f.limits)
		}
	}
}

// print keeps text to be relayed, up to the bound on all of it.
func (f *installerOutput) print(text string) {
	before := f.printed
	f.printed += len(text)
	switch {
	case f.printed <= relayedBytes:
		f.unsent += text
	case before <= relayedBytes:
		f.unsent += installerTalks
	}
}

func failed(format string, args ...any) error {
	return api.Errorf(api.CodeInvalidRequest, format, args...)
}

func pastLimit(hit *record.LimitHit, limits kernel.Limits) error {
	if hit.Name == "disk_bytes" {
		return failed("the packages need more than %d MiB, the limit for a session's packages (packages.max_bytes in the "+
			"server's configuration, or the session's disk_bytes); nothing was changed", limits.DiskBytes>>20)
	}
	return failed("the installer reached the session's %s (%d); nothing was changed: raise the limit, or choose packages that "+
		"need no build", hit.Name, hit.Value)
}

// putInForce makes the staged layer the session's, and returns what changed. Without a staged layer, nothing did.
func (s *Session) putInForce(ctx context.Context) ([]command.Package, error) {
	dir, err := workspace.Open(filepath.Join(s.m.cfg.SessionsDir, s.id))
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	before, err := s.packages.dir.Target(currentLayer)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	number, _ := strconv.Atoi(before)
	layer := fmt.Sprintf("%04d", number+1)
	if err := s.packages.dir.Remove(ctx, layer); err != nil && !errors.Is(err, fs.ErrNotExist) { // of a server that was killed
		return nil, err
	}
	entry, err := dir.Rename(workspace.StageFolder+"/"+stagedLayer, workspace.PackagesFolder+"/"+layer)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, err
	case entry.Kind != workspace.Directory:
		return nil, failed("the installer left no folder")
	}
	changed := difference(s.installed(before), s.installed(layer))
	if err := s.packages.dir.Point(currentLayer, layer); err != nil {
		return nil, errors.Join(err, s.packages.dir.Remove(ctx, layer))
	}
	if before != "" {
		if err := s.packages.dir.Remove(ctx, before); err != nil {
			s.log.Warn("remove the packages that were replaced", "error", err)
		}
	}
	return changed, nil
}

// distribution matches the name of an installed package's metadata folder.
var distribution = regexp.MustCompile(`^([A-Za-z0-9][A-Za-z0-9._]*)-([A-Za-z0-9][A-Za-z0-9.!+_]*)\.dist-info$`)

// installed returns the versions of the packages in a layer, by name.
func (s *Session) installed(layer string) map[string]string {
	versions := map[string]string{}
	if layer == "" {
		return versions
	}
	major, rest, _ := strings.Cut(s.env.Version, ".")
	minor, _, _ := strings.Cut(rest, ".")
	entries, err := s.packages.dir.List(layer + "/lib/python" + major + "." + minor + "/site-packages")
	if err != nil {
		s.log.Debug("list a layer", "error", err)
	}
	for _, e := range entries {
		if m := distribution.FindStringSubmatch(e.Path[strings.LastIndexByte(e.Path, '/')+1:]); m != nil {
			versions[m[1]] = m[2]
		}
	}
	return versions
}

// difference returns the packages that are new, have another version, or were removed.
func difference(before, after map[string]string) []command.Package {
	var changed []command.Package
	for name, version := range after {
		if before[name] != version {
			changed = append(changed, command.Package{Name: name, Version: version})
		}
	}
	for name := range before {
		if _, kept := after[name]; !kept {
			changed = append(changed, command.Package{Name: name})
		}
	}
	return changed
}

// clear removes all packages. No kernel of the session runs.
func (p *packages) clear(ctx context.Context) error {
	entries, err := p.dir.List("")
	if err != nil {
		return fmt.Errorf("remove the session's packages: %w", err)
	}
	for _, e := range entries {
		if err := p.dir.Remove(ctx, e.Path); err != nil {
			return fmt.Errorf("remove the session's packages: %w", err)
		}
	}
	return nil
}

// clearStage removes what an installation left behind.
func (s *Session) clearStage() error {
	dir, err := workspace.Open(filepath.Join(s.m.cfg.SessionsDir, s.id))
	if err != nil {
		return err
	}
	defer dir.Close()
	if err := dir.Remove(context.Background(), workspace.StageFolder); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
