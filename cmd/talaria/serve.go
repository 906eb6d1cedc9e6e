package main

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"talaria/api"
	"talaria/artifacts"
	"talaria/kernel"
	"talaria/kernel/disk"
	"talaria/kernel/landlock"
	"talaria/kernel/link"
	"talaria/kernel/procfs"
	"talaria/kernel/python"
	"talaria/server"
	"talaria/session"
	"talaria/session/packages"
	"talaria/store"
)

// shutdownTime bounds how long waiting requests are answered for.
const shutdownTime = 4 * time.Second

// sessionsStop bounds the end of all kernels when the server ends with them. Interpreters that do not end are killed long before,
// so that only a machine that is very busy needs it, or one with many kernels to save.
const sessionsStop = time.Minute

// hostStop bounds the end of hosts with all of their kernels.
const hostStop = 30 * time.Second

func serveCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Serve sessions over HTTP and WebSocket",
		Long: `Serve sessions over HTTP and WebSocket, and print the URL of the notebook page.

Every flag is also a key of the configuration; talaria config shows the effective values. SIGTERM stops the server and
leaves its kernels running for the next one; Ctrl-C stops both.`,
		Example: `  talaria serve
  talaria serve --addr 127.0.0.1:9000 --idle-timeout 2h
  talaria serve --check`,
		Args: arguments(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := load(cmd)
			if err != nil {
				return err
			}
			if only, _ := cmd.Flags().GetBool("check"); only {
				return checkOnly(cmd, c)
			}
			if asJSON(cmd) {
				return usagef("--json requires --check; for a JSON log, use --log-format json")
			}
			return serve(cmd.Context(), c, configFile(cmd), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	addServeFlags(cmd.Flags())
	cmd.Flags().Bool("check", false, "check the configuration and the machine, and exit")
	cmd.Flags().Bool("json", false, "with --check: print JSON")
	return cmd
}

// addServeFlags adds the flags that set keys of the configuration.
func addServeFlags(f *pflag.FlagSet) {
	d := defaults()
	f.String("addr", d.Addr, "HOST:PORT to listen on")
	f.StringSlice("origins", nil, "additional origins whose pages may use the API, such as https://chat.example.org")
	f.String("python", "", "interpreter of the default environment (default: auto-detected)")
	f.String("engine", d.Engine, "engine that runs cells: ipython, stdlib, or auto (ipython if the environment has it)")
	f.Duration("idle-timeout", d.IdleTimeout, "stop idle kernels after this long; 0: never")
	f.String("on-idle", d.OnIdle, "what happens to idle kernels: hibernate (their variables are saved) or drop")
	f.String("checkpoints", d.Checkpoints, "when sessions make checkpoints by default: auto (after each cell), manual or off")
	addHostFlags(f)
	f.Int64("disk-reserve", 0, "bytes of the state disk to keep free; 0: a twentieth of it, between 64 MiB and 1 GiB")
	f.Int64("max-sessions", 0, "maximum number of sessions with a kernel; 0: no limit")
	f.String("disk", d.Disk, "how the size limit of workspaces is enforced: auto, quota, image or watched")
	f.String("tz", d.TZ, "time zone of kernels")
	addLogFlags(f)
}

func addLogFlags(f *pflag.FlagSet) {
	d := defaults()
	f.String("log-level", d.LogLevel, "debug, info, warn or error")
	f.String("log-format", d.LogFormat, "text or json")
}

// serve runs the server until ctx ends.
func serve(ctx context.Context, c config, configFile string, stdout, stderr io.Writer) (err error) {
	log, err := newLog(stderr, c)
	if err != nil {
		return err
	}
	for _, warning := range c.warnings {
		log.Warn("configuration", "warning", warning)
	}
	if err := c.checkMachine(ctx); err != nil {
		return err
	}
	if err := os.MkdirAll(c.StateDir, 0o700); err != nil {
		return fmt.Errorf("create the state directory: %w; choose another with --state-dir", err)
	}
	db, err := openStore(ctx, c, log)
	if err != nil {
		return lockedBy(c.StateDir, err)
	}
	defer closing(&err, db.Close)
	if err := forgetAddress(c.StateDir); err != nil { // a killed server's
		return err
	}
	listener, err := listen(ctx, c.Addr) // before a host is started that would stay
	if err != nil {
		return fmt.Errorf("cannot listen on %s (%w); choose another address with --addr", c.Addr, reason(err))
	}
	defer listener.Close()
	ownAddresses, err := c.listenFronts(ctx, log)
	if err != nil {
		return err
	}
	defer closeFronts(ownAddresses)
	broker, err := c.listenHermes(log)
	if err != nil {
		return err
	}
	defer broker.Close()
	warnOpenAddress(log, listener.Addr())
	i, err := openInstance(ctx, c, configFile, db, log)
	if err != nil {
		return err
	}
	defer closing(&err, func() error { return i.close(ctx) })
	for _, warning := range c.missingModules(ctx, i.environments) {
		log.Warn("configuration", "warning", warning)
	}
	batches, err := c.openBatches(ctx, db, i.sessions, log)
	if err != nil {
		return err
	}
	defer closing(&err, batches.Close)
	connections, requests, err := c.connections()
	if err != nil {
		return err
	}
	places, err := c.jupyterPlaces(log)
	if err != nil {
		return err
	}
	defer closing(&err, places.Close)
	sandboxKey, err := keepSandboxKey(c.StateDir)
	if err != nil {
		return err
	}
	librechatKeys, err := c.librechatKeys()
	if err != nil {
		return err
	}
	srv, err := server.New(server.Config{
		Sessions: i.sessions, Tokens: servedTokens{db, c.StateDir}, Origins: c.Origins, Version: release, Log: log,
		Connections: connections, OwnerRequests: requests, SecureCookies: c.CookieSecure == cookieAlways, Stall: c.ClientTimeout,
		MCP: c.MCP, Jupyter: c.serves("jupyter"), JupyterPlaces: places, E2B: c.serves("e2b"), SandboxKey: sandboxKey,
		Execd: c.serves("execd"), LibreChat: c.serves("librechat"), LibreChatKeys: librechatKeys,
		Engine: c.serves("engine"), Runs: c.programRuns(i.hosts, i.environments[0]), Batches: batches,
	})
	if err != nil {
		return err
	}
	token, err := firstToken(ctx, db, c) // now that nothing can refuse to start
	if err != nil {
		return err
	}
	base := "http://" + reachable(listener.Addr().String())
	defer closing(&err, func() error { return forgetAddress(c.StateDir) })
	if err := writePrivate(filepath.Join(c.StateDir, "url"), base); err != nil {
		return err
	}
	if err := writePrivate(filepath.Join(c.StateDir, "pid"), strconv.Itoa(os.Getpid())); err != nil {
		return err
	}
	bots, err := c.startBots(ctx, db, base, log)
	if err != nil {
		return err
	}
	defer bots.Wait()
	announceFronts(log, stdout, c, ownAddresses)
	announceHermes(log, stdout, c)
	announce(log, stdout, c, i.environments[0], i.tier, base, token)
	defer serveHermes(ctx, broker, i.sessions, log)()
	return serveUntil(ctx, srv, listener, ownAddresses, log)
}

// forgetAddress deletes what tells clients where the server is.
func forgetAddress(dir string) error {
	for _, name := range []string{"url", "pid"} {
		if err := os.Remove(filepath.Join(dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("forget the server's address: %w", err)
		}
	}
	return nil
}

// announce says that the server runs and where. The token is printed on a terminal only: elsewhere it would stay in a log.
func announce(log *slog.Logger, stdout io.Writer, c config, env kernel.Environment, tier, base, token string) {
	if tier != tiers[0] {
		log.Warn("isolation is weaker than it could be; "+program+" doctor says why and how to fix it", "tier", tier)
	}
	if c.LogFormat == logJSON {
		log.Info("ready", "version", fullVersion(), "python", env.Version, "isolation", tier, "url", base)
		return
	}
	fmt.Fprintf(stdout, "talaria %s: Python %s (%s), isolation %s\n", fullVersion(), env.Version, strings.Join(env.Modules, ", "), tier)
	if isTerminal(stdout) {
		fmt.Fprintf(stdout, "open %s/?token=%s\n", base, url.QueryEscape(token))
		return
	}
	fmt.Fprintf(stdout, "open %s/\n", base)
	fmt.Fprintf(stdout, "the page asks for a token: %s token show prints the first owner's\n", program)
}

// lockedBy names the server that has the state directory, where that is why it cannot be opened.
func lockedBy(dir string, err error) error {
	switch {
	case errors.Is(err, store.ErrLocked):
		pid, _ := given("", "", filepath.Join(dir, "pid"))
		address, _ := given("", "", filepath.Join(dir, "url"))
		if pid != "" && address != "" {
			return fmt.Errorf("%w: process %s at %s; stop it, or choose another with --state-dir", err, pid, address)
		}
		return fmt.Errorf("%w; stop it, or choose another with --state-dir", err)
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS):
		return fmt.Errorf("open the state directory %s: %w; make it writable, or choose another with --state-dir", dir, err)
	}
	return err
}

// reason is the cause of a network error, without the operation and the address that the caller names anyway.
func reason(err error) error {
	var errno syscall.Errno
	if errors.As(err, &errno) {
		return errno
	}
	var op *net.OpError
	if errors.As(err, &op) {
		return op.Err
	}
	return err
}

// checkOnly is talaria serve --check.
func checkOnly(cmd *cobra.Command, c config) error {
	warnings := append([]string{}, c.warnings...)
	defer func() {
		for _, warning := range warnings {
			fmt.Fprintln(cmd.ErrOrStderr(), "warning:", warning)
		}
	}()
	if err := c.checkMachine(cmd.Context()); err != nil {
		return err
	}
	environments, err := discover(cmd.Context(), c, "", slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	warnings = append(warnings, c.missingModules(cmd.Context(), environments)...)
	if asJSON(cmd) {
		return printJSON(cmd.OutOrStdout(), map[string]any{"valid": true, "warnings": warnings})
	}
	_, err = fmt.Fprintln(cmd.OutOrStdout(), "the configuration is valid; "+program+" doctor checks what isolation this machine can offer")
	return err
}

// serveUntil serves until ctx ends, and then ends in order: waiting requests are answered before their connections close.
func serveUntil(ctx context.Context, srv *server.Server, listener net.Listener, ownAddresses []frontListener, log *slog.Logger) error {
	ended := make(chan error, 1)
	go func() { ended <- srv.Serve(listener) }()
	log.Info("serving", "addr", listener.Addr().String())
	waitFronts := serveFronts(srv, ownAddresses, log)
	defer waitFronts()
	defer closeFronts(ownAddresses)
	select {
	case err := <-ended:
		return fmt.Errorf("serve: %w", err)
	case <-ctx.Done():
	}
	log.Info("shutting down")
	ending, cancel := context.WithTimeout(context.Background(), shutdownTime)
	defer cancel()
	if err := srv.Shutdown(ending); err != nil {
		log.Warn("connections were cut off", "error", err)
	}
	select {
	case <-ended:
	case <-ending.Done(): // what is left waits for sessions, and ends with them
	}
	return nil
}

// closing runs a close of a deferred call and keeps its error.
func closing(err *error, c func() error) { *err = errors.Join(*err, c()) }

// The values of log_format.
const (
	logText = "text"
	logJSON = "json"
)

func newLog(w io.Writer, c config) (*slog.Logger, error) {
	var level slog.Level
	if err := level.UnmarshalText([]byte(c.LogLevel)); err != nil {
		return nil, err
	}
	options := &slog.HandlerOptions{Level: level}
	if c.LogFormat == logJSON {
		return slog.New(slog.NewJSONHandler(w, options)), nil
	}
	return slog.New(slog.NewTextHandler(w, options)), nil
}

// firstOwner is who runs the server.
const firstOwner = "admin"

// minTokenLength is the least length of a preset token in bytes: a shorter one can be guessed.
const minTokenLength = 16

// checkToken refuses a preset token that can be guessed.
func checkToken(token string) error {
	if token != "" && len(token) < minTokenLength {
		return fmt.Errorf("TALARIA_TOKEN has %d characters and can be guessed; give it at least %d, as openssl rand -hex 24 does, "+
			"or leave it out, and the server creates one", len(token), minTokenLength)
	}
	return nil
}

// firstToken returns the first owner's token: the preset one, or the one of the first start.
func firstToken(ctx context.Context, db *store.Store, c config) (token string, err error) {
	path := filepath.Join(c.StateDir, "token")
	b, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return "", fmt.Errorf("read the token: %w", err)
	}
	kept := strings.TrimSpace(string(b))
	token = first(c.Token, kept, newToken())
	if err := db.PutToken(ctx, token, firstOwner, true); errors.Is(err, store.ErrTokenTaken) {
		return "", fmt.Errorf("%s cannot be the first owner's token: %w; unset it, or set it to a token of its own",
			first(c.sources["token"], path), err)
	} else if err != nil {
		return "", err
	}
	if kept != "" && kept != token { // a preset one takes its place
		if err := db.RevokeToken(ctx, store.TokenID(kept)); err != nil && !errors.Is(err, store.ErrNotFound) {
			return "", err
		}
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
func reachable(addr string) string {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return addr
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return net.JoinHostPort(host, port)
}

// discover finds the configured Pythons, the default one first. It remembers successful trials in trialsDir, if given.
func discover(ctx context.Context, c config, trialsDir string, log *slog.Logger) ([]kernel.Environment, error) {
	var found []kernel.Environment
	discovered := python.DiscoverEnvironments(ctx, c.pythons(trialsDir))
	for i, w := range c.environments() {
		d := discovered[i]
		if d.Err != nil {
			return nil, d.Err
		}
		if engine := d.Findings[len(d.Findings)-1]; !engine.OK {
			log.Warn("an environment runs without IPython", "environment", w.Name, "why", engine.Detail, "do", engine.Remedy)
		}
		e := d.Environment
		e.Preload = w.Preload
		found = append(found, e)
	}
	return found, nil
}

// missingModules warns of modules that somebody has configured to be preloaded and that an environment does not have. Kernels start
// without them.
func (c config) missingModules(ctx context.Context, environments []kernel.Environment) (warnings []string) {
	for i, env := range environments {
		key := "preload"
		if i > 0 {
			key = fmt.Sprintf("environments[%d].preload", i-1)
		}
		source := c.sources[key]
		if source == "" {
			continue
		}
		missing, err := python.Missing(ctx, env.Python, env.Preload)
		switch {
		case ctx.Err() != nil:
			return warnings
		case err != nil:
			warnings = append(warnings, fmt.Sprintf("%s: %s could not be checked: %v", source, key, err))
		case len(missing) > 0:
			warnings = append(warnings, fmt.Sprintf("%s: %s has modules that %s cannot find, so kernels start without them: %s; install them, or remove them from the list",
				source, key, env.Python, strings.Join(missing, ", ")))
		}
	}
	return warnings
}

func openSessions(ctx context.Context, c config, db *store.Store, hosts *link.Client, workspaces *disk.Store, tier string,
	environments []kernel.Environment, packages packages.Config, remote session.RemoteTools, log *slog.Logger) (*session.Manager, error) {
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
	mountRoots, err := c.mountRoots()
	if err != nil {
		return nil, err
	}
	noMounts, noNetwork := "", ""
	var userProcesses func(int) ([]int, error)
	if tier == landlock.Tier {
		userProcesses = procfs.OfUser
		noNetwork = "tier " + tier + " cannot provide a network"
		noMounts = "tier " + tier + " has no mounts; run the server where tier " + tiers[0] + " works"
	}
	return session.Open(ctx, session.Config{
		Store: db, Artifacts: blobs, Host: hosts, Log: log, Version: fullVersion(),
		SessionsDir: sessionsDir(c), Disk: workspaces, Environments: environments, Tier: tier, UIDBase: uidBase, UserProcesses: userProcesses,
		TZ: c.TZ, BootID: boot, Defaults: api.Limits(c.Limits), Ceilings: api.Limits(c.Ceilings),
		IdleTimeout: c.IdleTimeout, OnIdle: api.OnIdle(c.OnIdle), Checkpoints: api.CheckpointMode(c.Checkpoints), CopiesBytes: c.CopiesBytes,
		MaxSessions: c.MaxSessions, DiskReserve: c.DiskReserve, MemoryReserve: c.MemoryReserve, OwnerSessions: c.OwnerSessions, OwnerKernels: c.OwnerKernels, InlineBytes: c.InlineBytes,
		Redact: redact, RedactKnown: c.RedactKnown,
		MountRoots: mountRoots, NoMounts: noMounts, NoNetwork: noNetwork, Network: c.Network.bounds(),
		Packages: packages, Remote: remote,
		Pool: func(ctx context.Context) api.Pool { return poolOf(ctx, hosts, log) },
	})
}

// tierOf is the tier of the host that takes new kernels.
func tierOf(ctx context.Context, hosts *link.Client) (string, error) {
	all, err := hosts.Stats(ctx)
	if err != nil {
		return "", err
	}
	for _, host := range all {
		if !host.Retired {
			return host.Tier, nil
		}
	}
	return "", errors.New("no host accepts new kernels")
}

// poolOf counts the ready kernels of all hosts.
func poolOf(ctx context.Context, hosts *link.Client, log *slog.Logger) api.Pool {
	var pool api.Pool
	all, err := hosts.Stats(ctx)
	if err != nil {
		log.Warn("ask hosts for their pools", "error", err)
	}
	for _, host := range all {
		for _, e := range host.Pool.Environments {
			pool.Ready += int64(e.Ready)
			pool.Target += int64(e.Wanted)
		}
	}
	return pool
}
