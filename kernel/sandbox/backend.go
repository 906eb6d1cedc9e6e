// Package sandbox is the engine that the tiers of isolation share: it makes sandboxes, seals them, holds them to their
// limits and ends them. What differs between tiers is behind [Tier]; packages namespace and landlock are the two
// tiers.
//
// A sandbox begins as one Python process, pid 1, from package runner. It first isolates itself and waits (parked),
// then takes what belongs to a session and gives up every privilege (sealed), and from then on starts processes on
// request. This package talks to it over a packet socket, puts it into a control group, and checks its claims from
// outside.
package sandbox

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"talaria/kernel"
	"talaria/kernel/cgroup"
)

const (
	defaultOwnUID     = 1899999999 // owns the sandboxes that the backend makes for its own use
	defaultRenewAfter = 200
	defaultRenewEvery = 30 * time.Minute
)

// Config says where a backend keeps things. Root and LibDir are required.
type Config struct {
	Root   string // the directory of all sessions; each Spec's Workspace and Packages lie below it
	LibDir string // where the embedded Python is written
	// MountRoots are the directories whose folders sessions may mount; their paths must be free of links. Missing ones
	// are left out, with a log entry.
	MountRoots []string
	CacheDir   string // for caches that all sandboxes of an environment share, read-only; empty: none
	// Instance names the control groups and working directories of this program, which it sweeps; two programs that
	// run at the same time on the same Root must not share it. Default: made from Root.
	Instance string
	// CgroupRoot is the path, as in /proc/self/cgroup, of the group below which all others are made; default: this
	// process's own group in each hierarchy.
	CgroupRoot string
	// RenewAfter is the number of sandboxes, and RenewEvery the time, after which a fork server is replaced: all forks
	// of one server have the same hash seed and addresses. Defaults: 200 and 30 minutes.
	RenewAfter int
	RenewEvery time.Duration
	// OwnUID owns the sandboxes that the backend makes for probing and for filling caches and, as root, the outer user
	// namespaces of all sandboxes. The id below it is for processes that end those of a session. Neither must be
	// anybody else's. Default 1899999999.
	OwnUID int
	Log    *slog.Logger
}

// Backend makes sandboxes. It is safe for concurrent use.
type Backend struct {
	cfg         Config
	tier        Tier
	groups      *cgroup.Groups
	library     library
	confinement confinement
	owned       bool // user namespaces of sandboxes belong to cfg.OwnUID

	ctx     context.Context // ends with Close
	cancel  context.CancelFunc
	keeping sync.WaitGroup // the goroutines that keep environments warm
	// working is held while there is a sandbox of cfg.OwnUID: without namespaces, it may end all processes of its user.
	working sync.Mutex

	mu     sync.Mutex // guards the fields below
	live   map[string]*Sandbox
	own    map[string]bool // directories of sandboxes that belong to no session
	warm   map[string]*zygotes
	closed bool
}

var (
	_ kernel.Backend = (*Backend)(nil)
	_ kernel.Warmer  = (*Backend)(nil)

	_ kernel.DirMaker = (*Backend)(nil)
)

// New makes a backend of a tier: it validates cfg and writes the embedded Python to LibDir. It starts nothing.
func New(cfg Config, tier Tier) (*Backend, error) {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.RenewAfter == 0 {
		cfg.RenewAfter = defaultRenewAfter
	}
	if cfg.RenewEvery == 0 {
		cfg.RenewEvery = defaultRenewEvery
	}
	if cfg.OwnUID == 0 {
		cfg.OwnUID = defaultOwnUID
	}
	for _, dir := range []*string{&cfg.Root, &cfg.LibDir} {
		real, err := realDir(*dir)
		if err != nil {
			return nil, fmt.Errorf("isolation: %w", err)
		}
		*dir = real
	}
	for _, visible := range []string{"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc"} {
		if within(cfg.Root, visible) {
			return nil, fmt.Errorf("isolation: %s lies in %s, which every sandbox sees; "+
				"choose another state directory", cfg.Root, visible)
		}
	}
	if cfg.Instance == "" {
		sum := sha256.Sum256([]byte(cfg.Root))
		cfg.Instance = hex.EncodeToString(sum[:6])
	}
	if !validInstance(cfg.Instance) {
		return nil, fmt.Errorf("isolation: %q cannot name a control group", cfg.Instance)
	}
	groups, err := cgroup.Find(cfg.CgroupRoot, cfg.Instance)
	if err != nil {
		return nil, fmt.Errorf("isolation: %w", err)
	}
	confinement, err := findConfinement(tier)
	if err != nil {
		return nil, fmt.Errorf("isolation: %w", err)
	}
	b := &Backend{
		cfg:         cfg,
		tier:        tier,
		groups:      groups,
		confinement: confinement,
		owned:       ownable(tier),
		live:        make(map[string]*Sandbox),
		own:         make(map[string]bool),
		warm:        make(map[string]*zygotes),
	}
	b.cfg.MountRoots = existing(cfg.MountRoots, func(root string, err error) {
		cfg.Log.Warn("a mount root does not exist, so nothing can be mounted from it", "root", root, "err", err)
	})
	b.ctx, b.cancel = context.WithCancel(context.Background())
	dir, err := writeLibrary(cfg.LibDir)
	if err != nil {
		return nil, fmt.Errorf("isolation: %w", err)
	}
	b.library = newLibrary(dir)
	return b, nil
}

func (b *Backend) killerUID() int { return b.cfg.OwnUID - 1 }

// Name returns the name of the tier.
func (b *Backend) Name() string { return b.tier.Name() }

// Create makes a sandbox and returns when it is parked. One that is not fresh is forked from the environment's fork
// server if there is one, see Warm; otherwise an interpreter is started for it, which takes longer.
func (b *Backend) Create(ctx context.Context, env kernel.Environment, fresh bool) (kernel.Sandbox, error) {
	if !fresh {
		if s := b.createForked(ctx, env); s != nil {
			return s, nil
		}
	}
	s, err := b.create(ctx, env)
	if err != nil {
		return nil, fmt.Errorf("create sandbox: %w", err)
	}
	return s, nil
}

func (b *Backend) create(ctx context.Context, env kernel.Environment) (*Sandbox, error) {
	return b.start(ctx, env, "park")
}

// start starts an interpreter in new namespaces, as op says: see Sandbox.build.
func (b *Backend) start(ctx context.Context, env kernel.Environment, op string) (*Sandbox, error) {
	if b.ctx.Err() != nil {
		return nil, fs.ErrClosed
	}
	if err := b.confinement.missing(b.tier); err != nil {
		return nil, err
	}
	if !filepath.IsAbs(env.Python) {
		return nil, fmt.Errorf("the interpreter %q is not an absolute path", env.Python)
	}
	for _, prefix := range env.Prefix {
		if within(b.cfg.Root, prefix) {
			return nil, fmt.Errorf("the environment's directory %s holds the sessions' files; "+
				"choose another state directory", prefix)
		}
	}
	if err := b.library.pid1.compile(ctx, env); err != nil {
		return nil, err
	}
	cache, err := b.cacheDir(env)
	if err != nil {
		return nil, err
	}
	s, err := newSandbox(b, env)
	if err != nil {
		return nil, err
	}
	if err := s.launch(); err != nil {
		return nil, errors.Join(err, s.removeScratch())
	}
	err = b.library.compile(ctx, env) // the rest, which pid 1 does not import until it is told to do something
	if err == nil {
		err = s.build(ctx, op, cache)
	}
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func (b *Backend) remember(s *Sandbox) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.live[s.id] = s
}

// forget drops a sandbox that has ended completely.
func (b *Backend) forget(s *Sandbox) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.live, s.id)
}

// Close ends keepers and fork servers, and with them all forked sandboxes, and returns when none is left. The owner of
// each sandbox still has to close it. Close is idempotent. A closed backend makes no more sandboxes.
func (b *Backend) Close() error {
	b.mu.Lock()
	b.closed = true
	b.mu.Unlock()
	b.cancel()
	b.keeping.Wait()
	return nil
}

// realDir makes a directory and returns its path without symbolic links.
func realDir(path string) (string, error) {
	if !filepath.IsAbs(path) {
		return "", fmt.Errorf("%q is not an absolute path", path)
	}
	if err := os.MkdirAll(path, 0o755); err != nil {
		return "", err
	}
	return filepath.EvalSymlinks(path)
}

// validInstance reports whether a control group may have this name.
func validInstance(name string) bool {
	return name == filepath.Base(name) && !strings.HasPrefix(name, ".")
}

// within reports whether path is dir or lies below it. Both are absolute and clean.
func within(path, dir string) bool {
	return path == dir || strings.HasPrefix(path, strings.TrimSuffix(dir, "/")+"/")
}
