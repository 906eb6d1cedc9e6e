package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"talaria/server"
	"talaria/server/e2b"
	"talaria/server/engine"
	"talaria/server/execd"
	"talaria/server/jupyter"
	"talaria/server/librechat"
)

// fronts are the further protocols over the same sessions. Each has a section of the configuration.
type fronts struct {
	E2B     front `config:"e2b"`
	Jupyter front `config:"jupyter"`
	Engine  front `config:"engine"`
	Execd   front `config:"execd"`

	LibreChat librechatFront `config:"librechat"`
	Hermes    hermesFront    `config:"hermes"`
}

// front says whether a protocol is served, and where.
type front struct {
	Enabled bool   `config:"enabled"`
	Addr    string `config:"addr"` // an address of its own in addition to its path; "": none
}

// librechatFront has also the keys that verify the tokens that LibreChat signs.
type librechatFront struct {
	front
	JWTKeys string `config:"jwt_keys"` // a file of public keys in PEM; "": none
}

func defaultFronts() fronts {
	on := front{Enabled: true}
	return fronts{E2B: on, Jupyter: on, Engine: on, Execd: on, LibreChat: librechatFront{front: on}, Hermes: hermesFront{Owner: firstOwner}}
}

// namedFront is a front as the commands show it.
type namedFront struct {
	front
	name   string // its section of the configuration
	title  string // its clients, in words for people
	prefix string // of its paths
	path   string // below the prefix or its own root, where the API begins
}

// fronts lists all fronts. The key jupyter is older than the sections, and either switches the front off.
func (c config) fronts() []namedFront {
	list := []namedFront{
		{c.Fronts.Jupyter, "jupyter", "Jupyter clients", jupyter.Prefix, ""},
		{c.Fronts.E2B, "e2b", "E2B clients", e2b.Prefix, ""},
		{c.Fronts.Engine, "engine", "one-shot engine clients", engine.Prefix, ""},
		{c.Fronts.Execd, "execd", "OpenSandbox's execd clients", execd.Prefix, ""},
		{c.Fronts.LibreChat.front, "librechat", "LibreChat", librechat.Prefix, "/v1"},
	}
	list[0].Enabled = list[0].Enabled && c.Jupyter
	return list
}

// serves reports whether the front of that name is switched on.
func (c config) serves(name string) bool {
	return slices.ContainsFunc(c.fronts(), func(f namedFront) bool { return f.name == name && f.Enabled })
}

// base is the URL that a client of the front takes: the root of its own address, where it has one.
func (f namedFront) base(c config) string {
	if f.Addr != "" {
		return "http://" + reachable(f.Addr) + f.path
	}
	return "http://" + reachable(c.Addr) + f.prefix + f.path
}

// jupyterPlaces opens the file of how far clients of Jupyter have read; without the front it is nil.
func (c config) jupyterPlaces(log *slog.Logger) (*jupyter.Places, error) {
	if !c.serves("jupyter") {
		return nil, nil
	}
	return jupyter.OpenPlaces(filepath.Join(c.StateDir, "jupyter-clients"), log)
}

// librechatKeys reads the file of keys that is configured; without one there are none.
func (c config) librechatKeys() ([]librechat.Key, error) {
	path := c.Fronts.LibreChat.JWTKeys
	if path == "" {
		return nil, nil
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("fronts.librechat.jwt_keys: %w", err)
	}
	keys, err := librechat.ParseKeys(text)
	if err != nil {
		return nil, fmt.Errorf("fronts.librechat.jwt_keys: %s: %w", path, err)
	}
	return keys, nil
}

func (c config) checkFronts() error {
	_, err := c.librechatKeys()
	found := []error{err, c.checkHermes()}
	for _, f := range c.fronts() {
		if f.Addr != "" {
			found = append(found, c.checkAddress("fronts."+f.name+".addr", f.Addr))
		}
	}
	return errors.Join(found...)
}

// frontListener is the address of a front.
type frontListener struct {
	net.Listener
	name string
}

// listenFronts opens the addresses of the fronts that have one and are switched on.
func (c config) listenFronts(ctx context.Context, log *slog.Logger) (_ []frontListener, err error) {
	var open []frontListener
	defer func() {
		if err != nil {
			closeFronts(open)
		}
	}()
	for _, f := range c.fronts() {
		if f.Addr == "" || !f.Enabled {
			continue
		}
		listener, err := listen(ctx, f.Addr)
		if err != nil {
			return open, fmt.Errorf("cannot listen on %s (%w); choose another address with fronts.%s.addr", f.Addr, reason(err), f.name)
		}
		open = append(open, frontListener{listener, f.name})
		warnOpenAddress(log, listener.Addr())
	}
	return open, nil
}

func closeFronts(open []frontListener) {
	for _, f := range open {
		f.Close() // it may be closed already
	}
}

// serveFronts serves the fronts that have an address of their own until the server is shut down or the listeners are
// closed; wait returns when all have ended.
func serveFronts(srv *server.Server, open []frontListener, log *slog.Logger) (wait func()) {
	var serving sync.WaitGroup
	for _, f := range open {
		serving.Go(func() {
			log.Info("serving", "front", f.name, "addr", f.Addr().String())
			if err := srv.ServeFront(f.name, f); !errors.Is(err, http.ErrServerClosed) && !errors.Is(err, net.ErrClosed) {
				log.Error("a front is no longer served", "front", f.name, "error", err)
			}
		})
	}
	return serving.Wait
}

// announceFronts prints the addresses of the fronts that have one of their own.
func announceFronts(log *slog.Logger, stdout io.Writer, c config, open []frontListener) {
	for _, f := range open {
		url := "http://" + reachable(f.Addr().String())
		if c.LogFormat == logJSON {
			log.Info("ready", "front", f.name, "url", url)
			continue
		}
		fmt.Fprintf(stdout, "front %s: %s/\n", f.name, url)
	}
}
