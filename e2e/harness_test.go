// Package e2e holds the tests that drive the real binary over real sockets, with real sandboxes and the real Python
// runner. They know the program only by its commands, its client and its wire contract.
package e2e

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"talaria/client"
)

const (
	patience        = 2 * time.Minute  // how long anything may take
	programPatience = 10 * time.Minute // how long a program of many such steps may take
	startup         = 2 * time.Minute  // how long a server may take to be ready
	ending          = 2 * time.Minute  // how long a server may take to end on a busy disk; Terminate checks SIGTERM against the contract
)

// binary is the program under test.
var binary string

// TestMain builds the program once, and fails the run if the tests leave anything on the machine.
func TestMain(m *testing.M) { os.Exit(testMain(m)) }

func testMain(m *testing.M) int {
	dir, err := os.MkdirTemp("", "talaria-e2e-")
	if err != nil {
		return failed("make a directory", err)
	}
	defer os.RemoveAll(dir)
	if err := os.Chmod(dir, 0o755); err != nil { // for servers of another user
		return failed("open the directory", err)
	}
	binary = filepath.Join(dir, "talaria")
	if err := provide(binary); err != nil {
		return failed("build the program", err)
	}
	if err := adoptOrphans(); err != nil {
		return failed("adopt orphans", err)
	}
	code := m.Run()
	if left := leftovers(); len(left) > 0 {
		fmt.Fprintf(os.Stderr, "FAIL: the tests left behind:\n  %s\n", strings.Join(left, "\n  "))
		return 1
	}
	return code
}

func failed(doing string, err error) int {
	fmt.Fprintf(os.Stderr, "e2e: %s: %v\n", doing, err)
	return 1
}

// provide builds the program, or copies the one that TALARIA_BIN names to where every user may run it.
func provide(path string) error {
	if given := os.Getenv("TALARIA_BIN"); given != "" {
		bytes, err := os.ReadFile(given)
		if err != nil {
			return err
		}
		return writeProgram(path, bytes)
	}
	build := exec.Command("go", "build", "-o", path, "../cmd/talaria")
	build.Stdout, build.Stderr = os.Stderr, os.Stderr
	if err := build.Run(); err != nil {
		return err
	}
	return os.Chmod(path, 0o755)
}

// identity says which user runs a server.
type identity string

const (
	me     identity = "" // the user that runs the tests
	asRoot identity = "root"
	asUser identity = "user"
)

// ordinary is the name of the ordinary user that servers run as when the tests run as root.
const ordinary = "talaria-test"

// makingOrdinary is held while that user is looked up and, the first time on a machine, made.
var makingOrdinary sync.Mutex

// everyIdentity runs a test as root and as an ordinary user, or only as the latter if the tests do not run as root, or with -short.
func everyIdentity(t *testing.T, test func(t *testing.T, who identity)) {
	t.Helper()
	if os.Getuid() == 0 && !testing.Short() {
		t.Run(string(asRoot), func(t *testing.T) { test(t, asRoot) })
	}
	t.Run(string(asUser), func(t *testing.T) { test(t, asUser) })
}

// isolationTiers are the tiers that a server can have.
var isolationTiers = []string{"namespace", "landlock"}

// everyTier runs a test in each tier, as root and as an ordinary user. With -short it is eachTier.
func everyTier(t *testing.T, test func(t *testing.T, tier string, who identity)) {
	t.Helper()
	if testing.Short() && os.Getuid() == 0 {
		eachTier(t, test)
		return
	}
	for _, tier := range isolationTiers {
		t.Run(tier, func(t *testing.T) {
			everyIdentity(t, func(t *testing.T, who identity) { test(t, tier, who) })
		})
	}
}

// eachTier runs a test in each tier and as each user, for what does not depend on the two together: as root in tier namespace, and as
// an ordinary user in tier landlock. All four combinations run where E2E_ALL is set.
func eachTier(t *testing.T, test func(t *testing.T, tier string, who identity)) {
	t.Helper()
	if os.Getenv("E2E_ALL") != "" && !testing.Short() || os.Getuid() != 0 {
		everyTier(t, test)
		return
	}
	for tier, who := range map[string]identity{"namespace": asRoot, "landlock": asUser} {
		t.Run(tier+"/"+string(who), func(t *testing.T) { test(t, tier, who) })
	}
}

// credential returns the user to run as; nil keeps the present one.
func (who identity) credential(t *testing.T) *syscall.Credential {
	t.Helper()
	if who != asUser || os.Getuid() != 0 {
		return nil
	}
	makingOrdinary.Lock()
	defer makingOrdinary.Unlock()
	account, err := user.Lookup(ordinary)
	if errors.As(err, new(user.UnknownUserError)) {
		if out, err := exec.Command("useradd", "--system", "--no-create-home", ordinary).CombinedOutput(); err != nil {
			t.Fatalf("make the user %s: %v: %s", ordinary, err, out)
		}
		account, err = user.Lookup(ordinary)
	}
	if err != nil {
		t.Fatal(err)
	}
	uid, errUID := strconv.ParseUint(account.Uid, 10, 32)
	gid, errGID := strconv.ParseUint(account.Gid, 10, 32)
	if err := errors.Join(errUID, errGID); err != nil {
		t.Fatal(err)
	}
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
}

// options say how a server is started.
type options struct {
	as     identity
	env    []string // in addition to PATH, HOME and TMPDIR
	config string   // talaria.yaml
	args   []string
}

// manual starts servers whose sessions have the checkpoints that a test makes, and no others.
var manual = options{args: []string{"--checkpoints", "manual"}}

// Server is one server with a state directory of its own. It ends with its test.
type Server struct {
	StateDir string
	URL      string            // of the current start
	Token    string            // of the first owner
	Fronts   map[string]string // addresses of the fronts that have one of their own, by their names

	program    string // default: the program under test
	options    options
	home       string
	temp       string
	credential *syscall.Credential
	out        io.Writer

	cmd    *exec.Cmd
	exited chan struct{} // closed once cmd has ended
}

// start starts a server and waits until it is ready.
func start(t *testing.T, o options) *Server {
	t.Helper()
	s := prepare(t, o)
	s.launch(t)
	t.Cleanup(func() { s.stop(t) })
	return s
}

// prepare makes what a server needs, without starting it.
func prepare(t *testing.T, o options) *Server {
	t.Helper()
	dir := t.TempDir()
	s := &Server{options: o, credential: o.as.credential(t), out: t.Output(),
		StateDir: filepath.Join(dir, "state"), home: filepath.Join(dir, "home"), temp: filepath.Join(dir, "tmp")}
	for _, open := range []string{dir, filepath.Dir(dir)} {
		if err := os.Chmod(open, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, own := range []string{s.StateDir, s.home, s.temp} {
		if err := os.Mkdir(own, 0o700); err != nil {
			t.Fatal(err)
		}
		s.give(t, own)
	}
	if o.config != "" {
		path := filepath.Join(s.StateDir, "talaria.yaml")
		if err := os.WriteFile(path, []byte(o.config), 0o600); err != nil {
			t.Fatal(err)
		}
		s.give(t, path)
	}
	s.beginStarted(t)
	watchInstance(s.StateDir)
	return s
}

func (s *Server) give(t *testing.T, path string) {
	t.Helper()
	if s.credential == nil {
		return
	}
	if err := os.Chown(path, int(s.credential.Uid), int(s.credential.Gid)); err != nil {
		t.Fatal(err)
	}
}

// command returns a call of the program as the server's user.
func (s *Server) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, cmp.Or(s.program, binary), args...)
	cmd.Dir = s.home
	cmd.Env = append([]string{"PATH=" + systemPath, "HOME=" + s.home, "TMPDIR=" + s.temp,
		"TALARIA_ENGINE=" + cmp.Or(os.Getenv("E2E_ENGINE"), "stdlib"),
		"PIP_INDEX_URL=http://127.0.0.1:9/simple/", // tests use only package indexes that they have made
		"GORACE=" + os.Getenv("GORACE")},           // for a program built with the race detector
		s.options.env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: s.credential}
	cmd.WaitDelay = ending
	return cmd
}

// launch starts the program and waits until it has printed its address and is ready.
func (s *Server) launch(t *testing.T) {
	t.Helper()
	args := []string{"serve", "--state-dir", s.StateDir, "--addr", "127.0.0.1:0"}
	if tier := os.Getenv(tierVariable); tier != "" {
		args = append(args, "--tier", tier)
	}
	args = append(args, s.options.args...)
	s.cmd = s.command(context.Background(), args...)
	s.cmd.Stderr = s.out
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	s.cmd.Stdout = write
	if err := errors.Join(s.cmd.Start(), write.Close()); err != nil {
		t.Fatal(errors.Join(err, read.Close()))
	}
	exited := make(chan struct{})
	s.exited = exited
	printed := make(chan string, 1)
	s.Fronts = map[string]string{}
	go func() {
		defer close(printed)
		defer read.Close()
		for lines := bufio.NewScanner(read); lines.Scan(); {
			if front, ok := strings.CutPrefix(lines.Text(), "front "); ok {
				name, address, _ := strings.Cut(front, ": ")
				s.Fronts[name] = strings.TrimSuffix(address, "/")
			}
			if url, ok := strings.CutPrefix(lines.Text(), "open "); ok {
				printed <- url
			}
		}
	}()
	go func() {
		defer close(exited)
		_ = s.cmd.Wait() // its status is in ProcessState
	}()
	select {
	case url, ok := <-printed:
		if !ok {
			<-exited
			t.Fatalf("the server ended before it was ready: %v", s.cmd.ProcessState)
		}
		if strings.Contains(url, "token=") {
			t.Fatalf("the server printed %q to what is not a terminal: the token would stay in a log", url)
		}
		s.URL = strings.TrimSuffix(url, "/")
		kept, err := os.ReadFile(filepath.Join(s.StateDir, "token"))
		if err != nil {
			t.Fatal(err)
		}
		s.Token = strings.TrimSpace(string(kept))
	case <-time.After(startup):
		s.Kill9()
		t.Fatal("the server is not ready")
	}
	if err := s.Client().Ready(t.Context()); err != nil {
		t.Fatalf("the server said where it is, and is not ready: %v", err)
	}
}

// Client returns a client with the first owner's token.
func (s *Server) Client() *client.Client {
	c := client.New(s.URL, s.Token)
	c.HTTP = &http.Client{Transport: &http.Transport{}}
	return c
}

// PID returns the pid of the server's process.
func (s *Server) PID() int { return s.cmd.Process.Pid }

// Kill9 kills the server and waits for its end.
func (s *Server) Kill9() {
	_ = s.cmd.Process.Kill() // it may have ended
	<-s.exited
}

// Signal sends a signal and waits for the end of the server. It returns how long that took, and the exit state.
func (s *Server) Signal(t *testing.T, sig os.Signal) (time.Duration, *os.ProcessState) {
	t.Helper()
	begin := time.Now()
	if err := s.cmd.Process.Signal(sig); err != nil {
		t.Fatalf("signal the server: %v (%v)", err, s.cmd.ProcessState)
	}
	select {
	case <-s.exited:
	case <-time.After(ending):
		_ = s.cmd.Process.Signal(syscall.SIGQUIT) // so that the log shows what it is waiting for
		select {
		case <-s.exited:
		case <-time.After(time.Second):
			s.Kill9()
		}
		t.Errorf("the server did not end %v after %v", ending, sig)
	}
	return time.Since(begin), s.cmd.ProcessState
}

// Terminate ends the server with SIGTERM.
func (s *Server) Terminate(t *testing.T) {
	t.Helper()
	if took, state := s.Signal(t, syscall.SIGTERM); !state.Success() {
		t.Errorf("SIGTERM: the server ended after %v with %v", took, state)
	}
	if _, err := os.Stat(filepath.Join(s.StateDir, "url")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the server left its address to clients: %v", err)
	}
}

// Restart starts the server again; it must have ended.
func (s *Server) Restart(t *testing.T) {
	t.Helper()
	<-s.exited
	s.launch(t)
}

// running reports whether the server is still running.
func (s *Server) running() bool {
	select {
	case <-s.exited:
		return false
	default:
		return true
	}
}

// hostProcess is one of the hosts of a state directory.
type hostProcess struct {
	ID    string `json:"id"`
	PID   int    `json:"pid"`
	Alive bool   `json:"alive"`
}

// hosts lists the living hosts.
func (s *Server) hosts(t *testing.T) []hostProcess {
	t.Helper()
	out, err := s.command(context.Background(), "host", "list", "--json", "--state-dir", s.StateDir).Output()
	if err != nil {
		t.Fatalf("talaria host list: %v", err)
	}
	var list []hostProcess
	if err := json.Unmarshal(out, &list); err != nil {
		t.Fatalf("talaria host list: %v: %s", err, out)
	}
	return slices.DeleteFunc(list, func(h hostProcess) bool { return !h.Alive })
}

// host returns the only living host.
func (s *Server) host(t *testing.T) process {
	t.Helper()
	list := s.hosts(t)
	if len(list) != 1 {
		t.Fatalf("the hosts are %+v, want one", list)
	}
	p, _, err := readProcess(list[0].PID)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// kernels lists the processes below the hosts.
func (s *Server) kernels(t *testing.T) []process {
	t.Helper()
	var all []process
	for _, h := range s.hosts(t) {
		all = append(all, descendants(h.PID)...)
	}
	return all
}

// stopHosts ends the hosts with all their kernels.
func (s *Server) stopHosts(t *testing.T) {
	t.Helper()
	if out, err := s.command(context.Background(), "host", "stop", "--quick", "--state-dir", s.StateDir).CombinedOutput(); err != nil {
		t.Errorf("talaria host stop: %v: %s", err, out)
	}
}

// stop ends the server if it runs, with all its kernels, and checks that nothing of it is left.
func (s *Server) stop(t *testing.T) {
	t.Helper()
	var inside []process
	for _, h := range s.hosts(t) {
		inside = append(inside, descendants(h.PID)...)
		if p, _, err := readProcess(h.PID); err == nil {
			inside = append(inside, p)
		}
	}
	if s.running() {
		inside = append(inside, descendants(s.PID())...)
		if _, state := s.Signal(t, syscall.SIGINT); !state.Success() {
			t.Errorf("the server ended with %v", state)
		}
	} else {
		s.stopHosts(t)
	}
	for _, p := range inside {
		// In tier landlock, an ordinary user's processes are killed by the end of their parent, which takes effect a moment later.
		for end := time.Now().Add(10 * time.Second); p.alive() && time.Now().Before(end); {
			time.Sleep(10 * time.Millisecond)
		}
		if p.alive() {
			t.Errorf("process %v outlives its server", p)
		}
	}
	for _, left := range append(mounts(s.StateDir), groups(s.StateDir)...) {
		t.Errorf("left after the server's end: %s", left)
	}
	releasedImages(t, s.StateDir)
	entries, err := os.ReadDir(s.temp)
	if err != nil {
		t.Error(err)
	}
	for _, e := range entries {
		t.Errorf("the server left %s in TMPDIR", e.Name())
	}
	s.keepStarted(t)
}

// within returns a context that bounds a test's calls.
func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

// withinProgram is within for a program that makes many calls.
func withinProgram(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), programPatience)
	t.Cleanup(cancel)
	return ctx
}

// writeProgram writes a file that everybody can run. It keeps other tests from forking meanwhile: a child would have
// the file open for writing until its exec, and nobody could run it.
func writeProgram(path string, content []byte) error {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	return errors.Join(os.WriteFile(path, content, 0o755), os.Chmod(path, 0o755))
}
