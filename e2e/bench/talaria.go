package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"talaria/api"
	"talaria/client"
)

const talariaName = "Talaria"

// ordinaryUser runs the servers that must not be root's where whoever measures is root. Every Linux system has it.
const ordinaryUser = "nobody"

// talaria starts servers of this repository.
type talaria struct {
	binary string // a copy that no build replaces while it runs
	engine string
	temp   string
	as     account
}

// newTalaria copies the program into temp, where the account can run it.
func newTalaria(binary, engine, temp string, as account) (*talaria, error) {
	bytes, err := os.ReadFile(binary)
	if err != nil {
		return nil, fmt.Errorf("read the program: %w; build it with make build", err)
	}
	path := filepath.Join(temp, "talaria")
	if err := os.WriteFile(path, bytes, 0o755); err != nil {
		return nil, err
	}
	return &talaria{path, engine, temp, as}, os.Chmod(path, 0o755)
}

func (d *talaria) name() string { return talariaName }

func (d *talaria) start(ctx context.Context, f flavour) (server, error) {
	root, err := os.MkdirTemp(d.temp, "state-")
	if err == nil {
		err = os.Chmod(root, 0o755)
	}
	if err != nil {
		return nil, err
	}
	s := &talariaServer{driver: d, root: root, flavour: f, as: d.as, token: client.NewID(), fronts: &http.Client{Transport: &http.Transport{}}}
	if f.ordinary && s.as.credential == nil && os.Getuid() == 0 {
		if s.as, err = lookUp(ordinaryUser); err != nil {
			return nil, err
		}
	}
	for name, path := range map[string]*string{"state": &s.state, "home": &s.home, "tmp": &s.tmp} {
		if *path, err = s.as.folder(root, name); err != nil {
			return nil, err
		}
	}
	if err := s.restart(ctx); err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

// talariaServer is a server on a state directory of its own.
type talariaServer struct {
	driver                 *talaria
	flavour                flavour
	as                     account
	token                  string
	root, state, home, tmp string
	program                *program
	url                    string         // of the present start
	client                 *client.Client // of the present start
	fronts                 *http.Client   // of clients of other protocols
}

// restart starts the server on its state directory, and returns when sessions can be made.
func (s *talariaServer) restart(ctx context.Context) error {
	program, url, err := launch(ctx, command{
		args: []string{s.driver.binary, "serve", "--state-dir", s.state, "--addr", "127.0.0.1:0",
			"--idle-timeout", "0", "--log-level", "warn"},
		env:   append(s.environment(), "TALARIA_TOKEN="+s.token),
		dir:   s.home,
		files: s.flavour.files,
		as:    s.as.credential,
		ready: func(line string) (string, bool) {
			url, ok := strings.CutPrefix(line, "open ")
			return strings.TrimSuffix(url, "/"), ok
		},
	})
	if err != nil {
		return err
	}
	s.program, s.url, s.client = program, url, client.New(url, s.token)
	if err := s.client.Ready(ctx); err != nil {
		return fmt.Errorf("the server has printed its address but is not ready: %w", err)
	}
	return nil
}

func (s *talariaServer) environment() []string {
	env := []string{"PATH=" + os.Getenv("PATH"), "HOME=" + s.home, "TMPDIR=" + s.tmp, "TALARIA_ENGINE=" + s.driver.engine}
	if dir := os.Getenv("TALARIA_PROFILE"); dir != "" {
		env = append(env, "TALARIA_PROFILE="+dir)
	}
	if s.flavour.noPool {
		env = append(env, "TALARIA_POOL=0")
	}
	if s.flavour.trace != "" {
		env = append(env, "TALARIA_TRACE="+s.flavour.trace)
	}
	if s.flavour.redact != "" {
		env = append(env, "TALARIA_REDACT="+s.flavour.redact)
	}
	if s.flavour.names != "" {
		env = append(env, "TALARIA_NETWORK__NAME_SERVER="+s.flavour.names, "TALARIA_NETWORK__ALLOWED=127.0.0.0/8")
	}
	return env
}

func (s *talariaServer) about(ctx context.Context) (string, error) {
	stats, err := s.client.Stats(ctx)
	if err != nil {
		return "", err
	}
	who := "as root"
	if os.Getuid() != 0 || s.as.credential != nil {
		who = "as an ordinary user"
	}
	return fmt.Sprintf("Talaria %s, %s, isolation %s, engine %s, %s", stats.Version, who, stats.Isolation.Tier,
		stats.Environments[0].Engine, poolText(stats.Pool.Target)), nil
}

func poolText(target int64) string {
	if target == 0 {
		return "no ready kernels"
	}
	return fmt.Sprintf("%d ready kernels", target)
}

// settle waits until the pool is full. No event tells that, so it asks.
func (s *talariaServer) settle(ctx context.Context) error {
	again := time.NewTicker(10 * time.Millisecond)
	defer again.Stop()
	for {
		stats, err := s.client.Stats(ctx)
		if err != nil {
			return err
		}
		if s.flavour.noPool && stats.Pool.Target != 0 {
			return fmt.Errorf("the server keeps %d kernels ready though TALARIA_POOL is 0", stats.Pool.Target)
		}
		if stats.Pool.Ready >= stats.Pool.Target {
			return nil
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			return fmt.Errorf("%d of %d kernels are ready: %w", stats.Pool.Ready, stats.Pool.Target, context.Cause(ctx))
		}
	}
}

func (s *talariaServer) create(ctx context.Context) (session, error) {
	if s.flavour.jupyter {
		return (&jupyterServer{url: s.url + "/jupyter", token: s.token, http: s.fronts}).create(ctx)
	}
	if s.flavour.e2b {
		return s.createE2B(ctx)
	}
	made, err := s.client.CreateSession(ctx, api.SessionRequest{})
	return &talariaSession{s, made.ID}, err
}

// own are the server and the host of its kernels.
func (s *talariaServer) own() []process {
	return slices.DeleteFunc(descendants(os.Getpid()), func(p process) bool { return p.name != "talaria" })
}

func (s *talariaServer) kill() error {
	s.program.kill()
	return nil
}

// close ends the server and its host. What is still there afterwards is killed, and is an error.
func (s *talariaServer) close() error {
	var errs []error
	if s.program != nil {
		errs = append(errs, s.program.end(os.Interrupt))
	}
	left := awaitEnd(descendants(os.Getpid()), endTime/4)
	if slices.ContainsFunc(left, func(p process) bool { return p.name == "talaria" }) {
		errs = append(errs, s.stopHost())
		left = awaitEnd(descendants(os.Getpid()), endTime/4)
	}
	if len(left) > 0 {
		errs = append(errs, fmt.Errorf("the server left processes behind: %v", left))
		killAll(left)
	}
	if s.client != nil {
		s.client.HTTP.CloseIdleConnections()
		s.fronts.CloseIdleConnections()
	}
	return errors.Join(append(errs, os.RemoveAll(s.root))...)
}

func (s *talariaServer) stopHost() error {
	ctx, cancel := context.WithTimeout(context.Background(), endTime)
	defer cancel()
	if out, err := s.command(ctx, "host", "stop").CombinedOutput(); err != nil {
		return fmt.Errorf("stop the host: %w: %s", err, out)
	}
	return nil
}

// owner makes a further owner and returns its token.
func (s *talariaServer) owner(ctx context.Context, name string) (string, error) {
	out, err := s.command(ctx, "token", "create", "--owner", name).CombinedOutput()
	words := strings.Fields(string(out))
	if err != nil || len(words) == 0 {
		return "", fmt.Errorf("make a second owner: %w: %s", err, out)
	}
	return words[len(words)-1], nil
}

// command is the program with arguments, about this server.
func (s *talariaServer) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, s.driver.binary, append(args, "--state-dir", s.state)...)
	cmd.Env, cmd.Dir = s.environment(), s.home
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: s.as.credential}
	return cmd
}
