package main

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"talaria/api"
	"talaria/artifacts"
	"talaria/kernel"
	"talaria/kernel/namespace"
	"talaria/server"
	"talaria/session"
	"talaria/store"
)

// shutdownTime bounds the orderly end of the server.
const shutdownTime = 4 * time.Second

func serveCommand() *cobra.Command {
	d := defaults()
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Serve sessions over HTTP and WebSocket",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := load(cmd)
			if err != nil {
				return err
			}
			return serve(cmd.Context(), c, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	f := cmd.Flags()
	f.String("addr", d.Addr, "HOST:PORT to listen on")
	f.StringSlice("origins", nil, "further origins of pages that may use the API, such as https://chat.example.org")
	f.String("python", "", "interpreter of the default environment (default: the best that is found)")
	f.Duration("idle-timeout", d.IdleTimeout, "reap a kernel that was idle for so long; 0: never")
	f.Int64("max-sessions", 0, "how many sessions may have a kernel; 0: no limit")
	f.String("tz", d.TZ, "time zone of kernels")
	f.String("log-level", d.LogLevel, "debug, info, warn or error")
	return cmd
}

// serve runs the server until ctx ends.
func serve(ctx context.Context, c config, stdout, stderr io.Writer) (err error) {
	log, err := newLog(stderr, c.LogLevel)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(c.StateDir, 0o700); err != nil {
		return fmt.Errorf("make the state directory: %w", err)
	}
	db, err := store.Open(ctx, c.StateDir, log)
	if err != nil {
		return err
	}
	defer closing(&err, db.Close)
	token, err := firstToken(ctx, db, c)
	if err != nil {
		return err
	}
	environments, err := discover(ctx, c)
	if err != nil {
		return err
	}
	backend, err := newBackend(c, environments[0].Python, log)
	if err != nil {
		return err
	}
	if probe := backend.Probe(ctx); !probe.OK {
		printFindings(stderr, probe.Findings)
		return errors.New("this machine cannot isolate sessions; see above, and talaria doctor")
	}
	defer warm(ctx, backend, environments, log)()
	host := kernel.NewHost(kernel.HostConfig{Backend: backend, Log: log, InterruptGrace: c.InterruptGrace})
	defer closing(&err, func() error { return host.Close(context.Background()) })
	sessions, err := openSessions(ctx, c, db, host, backend.Name(), environments, log)
	if err != nil {
		return err
	}
	defer closing(&err, func() error { return sessions.Close(context.Background()) })
	srv, err := server.New(server.Config{Sessions: sessions, Tokens: db, Origins: c.Origins, Version: version, Log: log})
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", c.Addr)
	if err != nil {
		return fmt.Errorf("listen on %s: %w; pick another with --addr", c.Addr, err)
	}
	base := "http://" + reachable(listener.Addr())
	if err := writePrivate(filepath.Join(c.StateDir, "url"), base); err != nil {
		return err
	}
	fmt.Fprintf(stdout, "talaria %s: Python %s (%s), isolation %s\n", version, environments[0].Version,
		strings.Join(environments[0].Modules, ", "), backend.Name())
	fmt.Fprintf(stdout, "open %s/?token=%s\n", base, url.QueryEscape(token))
	return run(ctx, srv, listener, log)
}

// run serves until ctx ends, and then ends in order: waiting requests are answered before their connections close.
func run(ctx context.Context, srv *server.Server, listener net.Listener, log *slog.Logger) error {
	web := &http.Server{
		Handler: srv.Handler(), ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10,
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
	failed := make(chan error, 1)
	go func() { failed <- web.Serve(listener) }()
	log.Info("serving", "addr", listener.Addr().String())
	select {
	case err := <-failed:
		return fmt.Errorf("serve: %w", err)
	case <-ctx.Done():
	}
	log.Info("shutting down")
	srv.Drain()
	ending, cancel := context.WithTimeout(context.Background(), shutdownTime/2)
	defer cancel()
	if err := web.Shutdown(ending); err != nil {
		log.Warn("connections were cut off", "error", err)
		return web.Close()
	}
	return nil
}

// closing runs a close of a deferred call and keeps its error.
func closing(err *error, c func() error) { *err = errors.Join(*err, c()) }

func newLog(w io.Writer, level string) (*slog.Logger, error) {
	var l slog.Level
	if err := l.UnmarshalText([]byte(level)); err != nil {
		return nil, fmt.Errorf("log-level %q is none of debug, info, warn, error", level)
	}
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: l})), nil
}

// firstOwner is who runs the server.
const firstOwner = "admin"

// firstToken is the first owner's token: the preset one, or that of the first start.
func firstToken(ctx context.Context, db *store.Store, c config) (string, error) {
	path := filepath.Join(c.StateDir, "token")
	b, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return "", fmt.Errorf("read the token: %w", err)
	}
	kept := strings.TrimSpace(string(b))
	token := first(c.Token, kept, newToken())
	if kept != "" && kept != token { // a preset one takes its place
		if err := db.DeleteToken(ctx, kept); err != nil {
			return "", err
		}
	}
	if err := db.PutToken(ctx, token, firstOwner, true); err != nil {
		return "", err
	}
	return token, writePrivate(path, token)
}

func newToken() string {
	var b [24]byte
	rand.Read(b[:]) // never fails
	return "tal_" + base64.RawURLEncoding.EncodeToString(b[:])
}

// writePrivate writes a small file in one step, for this user only.
func writePrivate(path, text string) error {
	temp := path + ".new"
	if err := os.WriteFile(temp, []byte(text+"\n"), 0o600); err != nil {
		return err
	}
	return os.Rename(temp, path)
}

// reachable is the address as a browser on this machine takes it.
func reachable(addr net.Addr) string {
	host, port, err := net.SplitHostPort(addr.String())
	if err != nil {
		return addr.String()
	}
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return net.JoinHostPort(host, port)
}

// discover finds the configured Pythons, the default one first.
func discover(ctx context.Context, c config) ([]kernel.Environment, error) {
	wanted := append([]environment{{"default", c.Python}}, c.Environments...)
	var found []kernel.Environment
	for _, w := range wanted {
		e, _, err := kernel.DiscoverEnvironment(ctx, kernel.EnvironmentConfig{Name: w.Name, Python: w.Python})
		if err != nil {
			return nil, err
		}
		found = append(found, e)
	}
	return found, nil
}

func newBackend(c config, python string, log *slog.Logger) (*namespace.Backend, error) {
	for _, dir := range []string{"sessions", "lib", "cache"} {
		if err := os.MkdirAll(filepath.Join(c.StateDir, dir), 0o755); err != nil {
			return nil, fmt.Errorf("make the state directory: %w", err)
		}
	}
	return namespace.New(namespace.Config{
		Root:   filepath.Join(c.StateDir, "sessions"),
		LibDir: filepath.Join(c.StateDir, "lib"), CacheDir: filepath.Join(c.StateDir, "cache"),
		Python: python, Log: log,
	})
}

func openSessions(ctx context.Context, c config, db *store.Store, host *kernel.Host, tier string,
	environments []kernel.Environment, log *slog.Logger) (*session.Manager, error) {
	blobs, err := artifacts.Open(filepath.Join(c.StateDir, "artifacts"))
	if err != nil {
		return nil, err
	}
	redact, err := c.patterns()
	if err != nil {
		return nil, err
	}
	boot, err := kernel.BootID()
	if err != nil {
		return nil, err
	}
	uidBase := 0
	if os.Getuid() == 0 {
		uidBase = c.UIDBase
	}
	return session.Open(ctx, session.Config{
		Store: db, Artifacts: blobs, Host: host, Log: log, Version: version,
		SessionsDir: filepath.Join(c.StateDir, "sessions"), Environments: environments, Tier: tier, UIDBase: uidBase,
		TZ: c.TZ, BootID: boot, Defaults: api.Limits(c.Limits), Ceilings: api.Limits(c.Ceilings),
		IdleTimeout: c.IdleTimeout, MaxSessions: c.MaxSessions, InlineBytes: c.InlineBytes, Redact: redact,
	})
}

// warm fills the caches that all sessions of an environment share, while the server already serves. The function
// returned ends that and waits for it.
func warm(ctx context.Context, backend *namespace.Backend, environments []kernel.Environment,
	log *slog.Logger) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for _, e := range environments {
			if err := backend.Prepare(ctx, e); err != nil && ctx.Err() == nil {
				log.Warn("fill the caches of an environment; first charts will be slow", "environment", e.Name, "error", err)
			}
		}
	}()
	return func() {
		cancel()
		<-done
	}
}
