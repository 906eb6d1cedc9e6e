package main

import (
	"bufio"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"talaria/api"
	"talaria/kernel"
	"talaria/kernel/host"
	"talaria/kernel/link"
	"talaria/kernel/python"
	"talaria/store"
)

// hostStart bounds the start of a host, its try of a sandbox included.
const hostStart = time.Minute

func hostCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "host [-- SERVE-FLAG…]",
		Short: "Run the kernels of a server, so that they survive its restarts",
		Long: `Run the kernels of a server, so that they survive its restarts.

talaria serve starts a host itself if none is running, so you need this command only for service managers and
containers. A host exits on SIGTERM, on talaria host stop, or when no server has connected for --orphan-ttl; its
kernels exit with it. A connected server first saves the variables of kernels that are not running a cell.

With --supervise, the command runs the server instead: it restarts the server whenever it exits, and reaps orphaned
processes. Use it as the entry point of a container, so that kernels survive a crash of the server. Arguments after --
are passed to serve.`,
		Example: `  talaria host list
  talaria host stop
  talaria host --supervise -- --addr 0.0.0.0:8765`,
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := load(cmd)
			if err != nil {
				return err
			}
			if supervised, _ := cmd.Flags().GetBool("supervise"); supervised {
				return supervise(cmd.Context(), cmd, c, args)
			}
			if len(args) > 0 {
				return fmt.Errorf("unknown argument %q; flags for serve require --supervise", args[0])
			}
			ready, _ := cmd.Flags().GetInt("ready-fd")
			environment := func() (kernel.Environment, error) { return probedEnvironment(cmd.Context(), c) }
			if given, _ := cmd.Flags().GetBool("environment-stdin"); given {
				environment = func() (kernel.Environment, error) { return readEnvironment(cmd.InOrStdin()) }
			}
			return runHost(cmd.Context(), c, sync.OnceValues(environment), cmd.ErrOrStderr(), ready)
		},
	}
	f := cmd.Flags()
	addHostFlags(f)
	f.String("python", "", "interpreter to test a sandbox with (default: the best one found)")
	addLogFlags(f)
	f.Bool("supervise", false, "run the server, and restart it whenever it exits")
	f.Int("ready-fd", 0, "file descriptor to write a line to when the host is ready")
	f.Bool("environment-stdin", false, "read the description of that interpreter from standard input, in JSON")
	_ = f.MarkHidden("ready-fd")
	_ = f.MarkHidden("environment-stdin")
	cmd.AddCommand(hostListCommand(), hostStopCommand())
	return cmd
}

// addHostFlags adds what serve hands on to the host that it starts.
func addHostFlags(f *pflag.FlagSet) {
	d := defaults()
	f.Int("pool", d.Pool, "idle kernels to keep ready for each environment; 0: none")
	f.Duration("orphan-ttl", d.OrphanTTL, "exit when no server connects for this long")
	f.Duration("interrupt-grace", d.InterruptGrace, "time between the interrupt at a timeout and the kill")
	f.String("tier", "", "isolation tier, namespace or landlock (default: the best that works)")
	f.String("min-tier", d.MinTier, "minimum acceptable isolation tier, namespace or landlock")
	f.StringSlice("mount-roots", nil, "directories of this machine whose folders sessions may mount")
}

// poolSize is the size of a host's pool, for which a negative number means none.
func poolSize(n int) int {
	if n == 0 {
		return -1
	}
	return n
}

// listHosts lists the hosts of the command's state directory.
func listHosts(cmd *cobra.Command) (config, []link.HostInfo, error) {
	c, err := load(cmd)
	if err != nil {
		return c, nil, err
	}
	list, err := link.List(hostsDir(c))
	return c, list, err
}

func hostStopCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "stop",
		Short: "Stop the hosts of a state directory and all of their kernels",
		Long: `Stop the hosts of a state directory and all of their kernels.

The variables of kernels that are not running a cell are saved first, even if no server is running, unless the session has
on_idle: drop; the session's next cell restores them. Running cells end.`,
		Example: `  talaria host stop
  talaria host stop --quick`,
		Args: arguments(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, list, err := listHosts(cmd)
			if err != nil {
				return err
			}
			stopped := []string{}
			for _, h := range list {
				if h.Alive {
					stopped = append(stopped, h.ID)
				}
			}
			if len(stopped) == 0 {
				return printStopped(cmd, c, stopped)
			}
			if err := ownedByMe(c.StateDir); err != nil { // what is saved belongs to who saves it
				return err
			}
			if quick, _ := cmd.Flags().GetBool("quick"); !quick {
				if err := hibernateAndStop(cmd.Context(), c, configFile(cmd), cmd.ErrOrStderr()); err != nil {
					fmt.Fprintf(cmd.ErrOrStderr(), "warning: variables may be lost: %v\n", err)
				}
			}
			if err := context.Cause(cmd.Context()); err != nil {
				return err
			}
			if err := link.StopHosts(cmd.Context(), hostsDir(c)); err != nil {
				return err
			}
			return printStopped(cmd, c, stopped)
		},
	}
	addJSON(cmd)
	cmd.Flags().Bool("quick", false, "save variables only if a server is running")
	return cmd
}

// printStopped says which hosts were stopped.
func printStopped(cmd *cobra.Command, c config, hosts []string) (err error) {
	switch {
	case asJSON(cmd):
		return printJSON(cmd.OutOrStdout(), map[string]any{"state_dir": c.StateDir, "stopped": hosts})
	case len(hosts) == 0:
		_, err = fmt.Fprintln(cmd.OutOrStdout(), "no host uses", c.StateDir)
	default:
		_, err = fmt.Fprintln(cmd.OutOrStdout(), "stopped the kernels of", c.StateDir)
	}
	return err
}

// hibernateAndStop does what a server does when it is told to end with its kernels. A server that runs does so itself once its hosts
// are told to end; then this does nothing.
func hibernateAndStop(ctx context.Context, c config, configFile string, stderr io.Writer) (err error) {
	c.LogLevel = slog.LevelWarn.String()
	log, err := newLog(stderr, c)
	if err != nil {
		return err
	}
	db, err := openStore(ctx, c, log)
	if errors.Is(err, store.ErrLocked) {
		return nil
	}
	if err != nil {
		return err
	}
	defer closing(&err, db.Close)
	i, err := openInstance(ctx, c, configFile, db, log)
	if err != nil {
		return err
	}
	defer closing(&err, i.closeRest)
	return i.end(ctx)
}

// ownedByMe reports an error if a state directory belongs to another user.
func ownedByMe(dir string) error {
	info, err := os.Stat(dir)
	if err != nil {
		return err
	}
	if owner, ok := info.Sys().(*syscall.Stat_t); ok && int(owner.Uid) != os.Geteuid() {
		return fmt.Errorf("%s belongs to the user with the id %d; run this as that user", dir, owner.Uid)
	}
	return nil
}

func hostListCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the hosts of a state directory",
		Args:  arguments(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, list, err := listHosts(cmd)
			if err != nil {
				return err
			}
			if asJSON, _ := cmd.Flags().GetBool("json"); asJSON {
				return printHostsJSON(cmd.OutOrStdout(), list)
			}
			w := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
			fmt.Fprintln(w, "HOST\tPROCESS\tVERSION\tSTARTED\tKERNELS")
			for _, h := range list {
				pid := "ended"
				if h.Alive {
					pid = strconv.Itoa(h.PID)
				}
				started := "-" // it never was ready
				if !h.StartedAt.IsZero() {
					started = h.StartedAt.Format(time.DateTime)
				}
				fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%d\n", h.ID, pid, cmp.Or(h.Version, "-"), started, len(h.Kernels))
			}
			return w.Flush()
		},
	}
	cmd.Flags().Bool("json", false, "print JSON")
	return cmd
}

func printHostsJSON(w io.Writer, list []link.HostInfo) error {
	type one struct {
		ID        string   `json:"id"`
		PID       int      `json:"pid"`
		Alive     bool     `json:"alive"`
		Version   string   `json:"version"`
		StartedAt api.Time `json:"started_at"`
		Kernels   int      `json:"kernels"`
	}
	all := []one{}
	for _, h := range list {
		all = append(all, one{h.ID, h.PID, h.Alive, h.Version, api.At(h.StartedAt), len(h.Kernels)})
	}
	b, err := api.Marshal(all)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "%s\n", b)
	return err
}

// hostsLog is the log that all hosts write to which a server starts, in their directory.
const hostsLog = "log"

func hostsDir(c config) string { return filepath.Join(c.StateDir, "hosts") }

// instanceName names what a host makes on the machine: it begins with what tells its state directory from others.
func instanceName(c config, host string) string {
	sum := sha256.Sum256([]byte(sessionsDir(c)))
	return hex.EncodeToString(sum[:6]) + "-" + host
}

func sessionsDir(c config) string { return filepath.Join(c.StateDir, "sessions") }

// probedEnvironment is what a host tries its sandboxes with if no server says what it has found.
func probedEnvironment(ctx context.Context, c config) (kernel.Environment, error) {
	env, _, err := python.DiscoverEnvironment(ctx, python.EnvironmentConfig{Name: "probe", Python: c.Python, Engine: python.EngineStdlib})
	return env, err
}

// readEnvironment waits for what the server that started this host finds meanwhile.
func readEnvironment(from io.Reader) (env kernel.Environment, err error) {
	if err = json.NewDecoder(from).Decode(&env); err != nil {
		err = fmt.Errorf("the server that started this host sent no environment: %w", err)
	}
	return env, err
}

// runHost runs kernels until ctx ends, or it is told to end. It tries its sandboxes with the environment.
func runHost(
	ctx context.Context, c config, environment func() (kernel.Environment, error), stderr io.Writer, readyFD int,
) (err error) {
	var ready *os.File
	if readyFD > 0 {
		ready = os.NewFile(uintptr(readyFD), "ready")
		syscall.CloseOnExec(readyFD)
		defer ready.Close()
	}
	log, err := newLog(stderr, c)
	if err != nil {
		return err
	}
	folder, err := link.NewFolder(hostsDir(c))
	if err != nil {
		return err
	}
	defer closing(&err, folder.Close)
	if err := os.Symlink(filepath.Join("..", hostsLog), folder.Log()); err != nil { // its end is told when the host dies
		return err
	}
	instance := instanceName(c, folder.ID)
	backend, findings, err := isolate(ctx, c, environment, instance, log)
	if err != nil {
		printFindings(stderr, findings)
		if len(findings) == 0 { // nothing was tried, so there is nothing that another host would have to sweep
			err = errors.Join(err, os.RemoveAll(folder.Path))
		}
		return err
	}
	if backend.Name() != tiers[0] {
		log.Warn("isolation is weaker than it could be; "+program+" doctor says why and how to fix it", "tier", backend.Name())
	}
	runUID := 0
	if os.Geteuid() == 0 {
		runUID = c.runUID()
	}
	kernels := host.NewHost(host.HostConfig{
		Backend: backend, Log: log, InterruptGrace: c.InterruptGrace, SpoolDir: folder.Spool(), Pool: poolSize(c.Pool), RunUID: runUID,
	})
	return link.Serve(ctx, link.ServerConfig{
		Folder: folder, Host: kernels, Build: hostBuild(c), Version: fullVersion(), Instance: instance, OrphanTTL: c.OrphanTTL,
		Tier: backend.Name(), SweepDead: backend.SweepInstance, Release: backend.Close, Log: log,
		Ready: func() {
			if ready != nil {
				fmt.Fprintln(ready, folder.ID)
			}
			if err := notifyManager(); err != nil {
				log.Warn("tell the service manager that the host is ready", "error", err)
			}
		},
	})
}

// spawner starts a host that outlives this process: with a session of its own, its output in the log of all hosts, and
// nothing of the server's in its environment variables. environment blocks until it is known what the host is to try its sandboxes
// with; the host starts meanwhile.
func spawner(c config, configFile string, environment func() (kernel.Environment, error)) func(context.Context) error {
	return func(ctx context.Context) error {
		if err := spawnHost(ctx, c, configFile, environment); err != nil {
			return fmt.Errorf("start talaria host: %w", err)
		}
		return nil
	}
}

func spawnHost(ctx context.Context, c config, configFile string, environment func() (kernel.Environment, error)) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(hostsDir(c), 0o700); err != nil {
		return err
	}
	path := filepath.Join(hostsDir(c), hostsLog)
	output, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer output.Close()
	begin, err := output.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	read, write, err := os.Pipe()
	if err != nil {
		return err
	}
	defer read.Close()
	args := []string{"host", "--state-dir", c.StateDir, "--ready-fd", "3", "--environment-stdin", "--pool", strconv.Itoa(c.Pool),
		"--orphan-ttl", c.OrphanTTL.String(), "--interrupt-grace", c.InterruptGrace.String(), "--log-level", c.LogLevel, "--log-format", c.LogFormat}
	if len(c.MountRoots) > 0 {
		args = append(args, "--mount-roots", strings.Join(c.MountRoots, ","))
	}
	if c.Tier != "" {
		args = append(args, "--tier", c.Tier)
	}
	args = append(args, "--min-tier", c.MinTier)
	if configFile != "" {
		args = append(args, "--config", configFile)
	}
	cmd := exec.Command(self, args...)
	cmd.Dir = "/"
	cmd.Env = hostEnvironment()
	cmd.Stdout, cmd.Stderr = output, output
	cmd.ExtraFiles = []*os.File{write}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	err = cmd.Start()
	write.Close()
	if err != nil {
		return err
	}
	env, notFound := environment()
	if notFound == nil {
		_ = json.NewEncoder(stdin).Encode(env) // a host that does not read it has ended, which is told below
	}
	_ = stdin.Close()
	if notFound != nil {
		ctx = context.WithoutCancel(ctx) // without an environment, the host ends and removes its folder
	}
	ctx, cancel := context.WithTimeout(ctx, hostStart)
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	ready := make(chan bool, 1)
	go func() {
		line, err := bufio.NewReader(read).ReadString('\n')
		ready <- err == nil && line != ""
	}()
	select {
	case ok := <-ready:
		if ok {
			return nil
		}
	case <-ctx.Done():
		_ = cmd.Process.Kill()
	}
	err = errors.Join(<-ended, ctx.Err())
	if notFound != nil {
		return notFound
	}
	if err == nil {
		err = errors.New("it exited immediately")
	}
	return fmt.Errorf("%w\n%s", err, lastWords(path, begin))
}

// hostEnvironment is what of this process's environment a host needs: no token, and nothing of the server's own.
func hostEnvironment() []string {
	var kept []string
	for _, name := range []string{"PATH", "HOME", "TMPDIR", "LANG", "XDG_STATE_HOME", "XDG_RUNTIME_DIR", "TALARIA_PROFILE", "TALARIA_TRACE"} {
		if value, ok := os.LookupEnv(name); ok {
			kept = append(kept, name+"="+value)
		}
	}
	return kept
}

// lastWords is what a log has from a position, at most its last 4 KiB.
func lastWords(path string, from int64) string {
	b, err := os.ReadFile(path)
	if err != nil || from > int64(len(b)) {
		return ""
	}
	b = b[from:]
	return strings.TrimSpace(string(b[max(0, len(b)-4<<10):]))
}

// notifyManager tells systemd, or another service manager that started this process with NOTIFY_SOCKET, that it is ready.
func notifyManager() error {
	path := os.Getenv("NOTIFY_SOCKET")
	if path == "" {
		return nil
	}
	conn, err := net.Dial("unixgram", path) // a leading @ is the abstract name space, in both
	if err != nil {
		return err
	}
	_, err = conn.Write([]byte("READY=1"))
	return errors.Join(err, conn.Close())
}
