// Package index is the one way of installers to a package index. The server itself talks to the index that the operator
// configured; what installs packages for a session sees a simple index of ours (PEP 503 and 691) on a socket, in which
// every project and every file goes through the operator's lists, and from which no credentials can be read. Files are
// checked against the hashes of the index and kept in one cache.
package index

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"sync"
	"time"

	"talaria/kernel/network"
)

// Name is the host name at which installers find the index.
const Name = "index.talaria.internal"

// Defaults of a [Config].
const (
	DefaultCacheBytes = 5 << 30
	DefaultFileBytes  = 2 << 30
	DefaultTimeout    = 30 * time.Second
)

// Config is what an [Index] needs. URL and CacheDir are required.
type Config struct {
	URL                string   // of the simple index; it may carry a user and a password
	Username, Password string   // instead of those of URL
	Hosts              []string // further hosts that may be no public ones, as package network lists them
	Allow, Deny        []string // names of projects, or beginnings of names and *; Deny wins, no Allow allows all
	CacheDir           string   // is made where it is missing, and belongs to this index alone
	CacheBytes         int64    // 0: DefaultCacheBytes
	FileBytes          int64    // the largest file; 0: DefaultFileBytes
	Timeout            time.Duration
	Proxy              func(*http.Request) (*url.URL, error) // nil: as the environment says
	Log                *slog.Logger
}

// Index is a simple index for installers. Its methods are safe for concurrent use.
type Index struct {
	cfg    Config
	base   *url.URL // without user, with a / at its end
	lists  lists
	up     *upstream
	pages  pages
	room   chan struct{} // for reading a page, which may take a lot of memory
	cache  *cache
	log    *slog.Logger
	server *http.Server
	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	work   sync.WaitGroup // downloads and requests

	mu         sync.Mutex
	closed     bool
	admissions map[string]*admission // by token
	downloads  map[string]*download  // by digest
}

// New checks a configuration and starts nothing. Its errors have no credentials in them.
func New(cfg Config) (*Index, error) {
	base, err := url.Parse(cfg.URL)
	if err != nil || base.Scheme != "http" && base.Scheme != "https" || base.Hostname() == "" {
		return nil, errors.New("packages.index must be the http or https URL of a simple index")
	}
	if cfg.Username == "" && base.User != nil {
		cfg.Username = base.User.Username()
	}
	if cfg.Password == "" && base.User != nil {
		cfg.Password, _ = base.User.Password()
	}
	base.User, base.RawQuery, base.Fragment = nil, "", ""
	base = base.JoinPath("/")
	if cfg.CacheDir == "" {
		return nil, errors.New("the package index needs a directory for its cache")
	}
	if cfg.CacheBytes < 0 || cfg.FileBytes < 0 || cfg.Timeout < 0 {
		return nil, errors.New("the limits of the package index cannot be negative")
	}
	l, err := newLists(cfg.Allow, cfg.Deny)
	if err != nil {
		return nil, err
	}
	hosts, err := network.ParseRules(cfg.Hosts)
	if err != nil {
		return nil, fmt.Errorf("packages.hosts: %w", err)
	}
	if cfg.CacheBytes == 0 {
		cfg.CacheBytes = DefaultCacheBytes
	}
	if cfg.FileBytes == 0 {
		cfg.FileBytes = DefaultFileBytes
	}
	if cfg.Timeout == 0 {
		cfg.Timeout = DefaultTimeout
	}
	if cfg.Proxy == nil {
		cfg.Proxy = http.ProxyFromEnvironment
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	ix := &Index{
		cfg: cfg, base: base, lists: l, log: cfg.Log,
		up:         newUpstream(base, cfg.Username, cfg.Password, network.Public{Rules: hosts}, cfg.Proxy, cfg.Timeout),
		room:       make(chan struct{}, 4),
		cache:      &cache{dir: cfg.CacheDir, limit: cfg.CacheBytes},
		admissions: map[string]*admission{}, downloads: map[string]*download{},
	}
	ix.ctx, ix.cancel = context.WithCancel(context.Background())
	ix.server = &http.Server{
		Handler: ix, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: time.Minute, MaxHeaderBytes: 16 << 10,
		ErrorLog: slog.NewLogLogger(cfg.Log.Handler(), slog.LevelDebug),
	}
	return ix, nil
}

// Serve answers on a listener, which it closes, until Close. It returns nil then.
func (ix *Index) Serve(l net.Listener) error {
	if err := ix.server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve the package index: %w", err)
	}
	return nil
}

// Close ends all requests and waits for them. It is idempotent.
func (ix *Index) Close() {
	ix.mu.Lock()
	ix.closed = true
	ix.mu.Unlock()
	ix.cancel()
	_ = ix.server.Close()
	ix.work.Wait()
	ix.up.close()
}

// begin counts a piece of work, unless the index is closed.
func (ix *Index) begin() bool {
	ix.mu.Lock()
	defer ix.mu.Unlock()
	if !ix.closed {
		ix.work.Add(1)
	}
	return !ix.closed
}

// Admit lets one installation in. Its token is the first element of the paths of its requests; release ends these and
// waits for them, may be called more than once, and must be called.
func (ix *Index) Admit() (token string, release func()) {
	random := make([]byte, 16)
	_, _ = rand.Read(random) // never fails
	a := &admission{since: time.Now(), room: make(chan struct{}, maxRequests)}
	a.ctx, a.cancel = context.WithCancel(ix.ctx)
	token = hex.EncodeToString(random)
	ix.mu.Lock()
	ix.admissions[token] = a
	ix.mu.Unlock()
	return token, func() {
		ix.mu.Lock()
		delete(ix.admissions, token)
		ix.mu.Unlock()
		a.end()
	}
}

// URL is where the installation with a token finds the index.
func URL(token string) string { return "http://" + Name + "/" + token + "/simple/" }

func (ix *Index) admission(token string) *admission {
	ix.mu.Lock()
	defer ix.mu.Unlock()
	return ix.admissions[token]
}
