package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"talaria/kernel"
	"talaria/kernel/landlock"
	"talaria/kernel/link"
	"talaria/kernel/python"
	"talaria/session/index"
	"talaria/session/packages"
)

// packageConfig is how sessions install packages.
type packageConfig struct {
	Enabled      bool     `config:"enabled"`
	Index        string   `config:"index"` // "": the one that the default environment's pip takes
	Username     string   `config:"username"`
	PasswordFile string   `config:"password_file"`
	Hosts        []string `config:"hosts"` // further ones that files may come from, though they are not public
	Allow        []string `config:"allow"`
	Deny         []string `config:"deny"`
	MaxBytes     int64    `config:"max_bytes"`
	CacheBytes   int64    `config:"cache_bytes"`
	TimeoutS     float64  `config:"timeout_s"`
}

func defaultPackages() packageConfig {
	return packageConfig{
		Enabled: true, MaxBytes: packages.DefaultBytes, CacheBytes: index.DefaultCacheBytes, TimeoutS: packages.DefaultTimeout.Seconds(),
	}
}

func (p packageConfig) check() error {
	if p.MaxBytes <= 0 || p.CacheBytes < 0 || p.TimeoutS <= 0 {
		return errors.New("packages.max_bytes and packages.timeout_s must be above 0, packages.cache_bytes at least 0")
	}
	if p.PasswordFile != "" && p.Username == "" {
		return errors.New("packages.password_file needs packages.username")
	}
	_, err := index.New(p.config(first(p.Index, "http://to.be.asked/"), "", "unused"))
	return err
}

// finding tells whether sessions of an environment can install packages, and from where, without credentials.
func (p packageConfig) finding(ctx context.Context, env kernel.Environment) kernel.Finding {
	f := kernel.Finding{Name: "packages in " + env.Name, OK: true}
	if !p.Enabled {
		f.Detail = "disabled by packages.enabled: false"
		return f
	}
	from, err := python.PackageIndex(ctx, env)
	switch {
	case errors.Is(err, python.ErrNoPip):
		f.OK, f.Detail, f.Remedy = false, "sessions cannot install packages, because this environment has no pip", "install it there (on Debian: apt-get install python3-pip)"
		return f
	case p.Index != "":
		from = p.Index
	case err != nil:
		f.OK, f.Detail, f.Remedy = false, err.Error(), "configure packages.index"
		return f
	}
	f.Detail = "sessions install them from an index"
	if u, err := url.Parse(from); err == nil {
		f.Detail = "sessions install them from " + u.Host
	}
	return f
}

// config is what the index at an address is given.
func (p packageConfig) config(url, password, stateDir string) index.Config {
	return index.Config{
		URL: url, Username: p.Username, Password: password, Hosts: p.Hosts, Allow: p.Allow, Deny: p.Deny,
		CacheDir: filepath.Join(stateDir, "packages"), CacheBytes: p.CacheBytes, FileBytes: p.MaxBytes,
	}
}

// packageIndex opens the way to the package index when it is needed, and serves it to installers.
type packageIndex struct {
	c   config
	env kernel.Environment
	log *slog.Logger

	mu     sync.Mutex
	opened *index.Index
	serves sync.WaitGroup
}

// session is the sessions' part of the configuration.
func (p *packageIndex) session(tier string) packages.Config {
	s := packages.Config{
		Index: p.open, Socket: p.socket(), MaxBytes: p.c.Packages.MaxBytes,
		Timeout: time.Duration(p.c.Packages.TimeoutS * float64(time.Second)),
	}
	switch {
	case !p.c.Packages.Enabled:
		s.Off = "its operator has switched that off (packages.enabled)"
	case tier == landlock.Tier:
		s.Off = "in tier " + tier + " an installer cannot have a network"
	}
	return s
}

func (p *packageIndex) socket() string { return filepath.Join(p.c.StateDir, "packages.sock") }

// open is the index, which is asked for its address the first time.
func (p *packageIndex) open(ctx context.Context) (packages.Index, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.opened != nil {
		return p.opened, nil
	}
	from := p.c.Packages
	if from.Index == "" {
		var err error
		if from.Index, err = python.PackageIndex(ctx, p.env); err != nil {
			return nil, err
		}
	}
	password := ""
	if from.PasswordFile != "" {
		b, err := os.ReadFile(from.PasswordFile)
		if err != nil {
			return nil, fmt.Errorf("read packages.password_file: %w", err)
		}
		password = strings.TrimRight(string(b), "\r\n")
	}
	c := from.config(from.Index, password, p.c.StateDir)
	c.Log = p.log
	ix, err := index.New(c)
	if err != nil {
		return nil, err
	}
	if err := os.Remove(p.socket()); err != nil && !errors.Is(err, fs.ErrNotExist) { // of the last server
		return nil, err
	}
	l, err := link.Listen(p.socket()) // nobody else gets into the state directory
	if err != nil {
		return nil, err
	}
	p.serves.Go(func() {
		if err := ix.Serve(l); err != nil {
			p.log.Error("serve the package index", "error", err)
		}
	})
	p.opened = ix
	return ix, nil
}

// close ends what open began.
func (p *packageIndex) close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.opened == nil {
		return nil
	}
	p.opened.Close()
	p.serves.Wait()
	return nil
}
