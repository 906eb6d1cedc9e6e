package sandbox

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"talaria/kernel"
	"talaria/kernel/cgroup"
	"talaria/kernel/disk"
	"talaria/kernel/procfs"
	"talaria/kernel/python"
	"talaria/kernel/workspace"
)

// bootstrap starts pid 1 and, in its children, each child's own role, from an empty stack. A variable says where the
// library is, since arguments can be read inside.
const (
	bootstrap = "import os, sys; sys.path.insert(0, os.environ['" + libraryVariable + "'])\n" +
		"from talaria_init.pid1 import main as step\nwhile True: step = step()"
	libraryVariable = "TALARIA_LIBRARY"
)

// pythonEnv is all the environment that our interpreters get; programs in a sandbox have an environment of their own.
// The arenas can be bounded only from outside, and the runner is a fork of pid 1.
var pythonEnv = []string{"LANG=C.UTF-8", "PATH=/usr/local/bin:/usr/bin:/bin", "MALLOC_ARENA_MAX=2"}

// maxDiagnosis bounds how much of pid 1's standard error is kept.
const maxDiagnosis = 8 << 10

// endPatience is how long a pid 1 may take to end everything that it has started, where the kernel does not do that, and killPatience
// how long after that it may take to notice that the host has done it, and how long the descriptors of a dead one may stay open.
const (
	endPatience  = 10 * time.Second
	killPatience = time.Second
)

// Sandbox is one set of namespaces with its pid 1. It is safe for concurrent use.
type Sandbox struct {
	backend *Backend
	env     kernel.Environment
	id      string
	group   *cgroup.Group
	cmd     *exec.Cmd // nil if a fork server made pid 1
	task    *procfs.Task
	conn    *net.UnixConn
	stderr  *tail  // of pid 1, or of the keeper that it comes from
	scratch string // the directory of its temporary files, if it has one
	handle  kernel.Handle
	shared  int64 // bytes that pid 1 shares with the fork server that it was forked from

	reaped chan struct{} // closed when pid 1, and with it every process inside, is gone
	ended  chan struct{} // closed when, in addition, every message of pid 1 has been handled
	close  func() error  // runs once

	large   largeFiles
	listing sync.Mutex  // guards sockets, and is held while it is made
	sockets *socketList // nil until the sandbox has many descriptors

	mu            sync.Mutex // guards the fields below
	closing       bool
	sealing       bool // Seal was called
	sealed        bool // and it succeeded
	nothingLeft   bool // pid 1 has ended all other processes
	uid           int  // on the host
	limits        kernel.Limits
	seen          []kernel.Mount // on the host
	disk          kernel.DiskEnforcement
	imageFiles    int64 // that the workspace's image has room for
	writesStopped bool
	processes     map[int64]*Process
	calls         map[int64]chan reply
	nextID        int64
	ooms          cgroup.OOMCount // at the last look
	reached       string          // the limit for which something was last killed
	reachedAt     time.Time
	unnamed       int64    // how many were killed for it whose end was not noticed yet
	outlived      int64    // how many of these were killed while the interpreter lived on
	runner        int      // the pid inside of the interpreter: of its runner, or of that one's copy that was woken last
	interpreter   int64    // the id of the same process
	reading       *reading // the last one; nil before
}

func newSandbox(b *Backend, env kernel.Environment) (*Sandbox, error) {
	boot, err := kernel.BootID()
	if err != nil {
		return nil, fmt.Errorf("read boot id: %w", err)
	}
	s := &Sandbox{
		backend:   b,
		env:       env,
		id:        rand.Text(),
		handle:    kernel.Handle{Backend: b.tier.Name(), BootID: boot},
		reaped:    make(chan struct{}),
		ended:     make(chan struct{}),
		processes: make(map[int64]*Process),
		calls:     make(map[int64]chan reply),
	}
	if s.scratch, err = b.makeScratch(); err != nil {
		return nil, err
	}
	s.close = sync.OnceValue(s.destroy)
	return s, nil
}

// launch starts pid 1 and moves it into its control group, before pid 1 has done anything.
func (s *Sandbox) launch() (err error) {
	attributes, err := s.backend.tier.Attributes()
	if err != nil {
		return err
	}
	if err := s.makeGroup(); err != nil {
		return err
	}
	var inside *os.File
	if s.conn, inside, err = socketPair(); err != nil {
		return errors.Join(err, s.group.Remove())
	}
	defer inside.Close()
	s.stderr = new(tail)
	s.cmd = exec.Command(s.env.Python, "-I", "-S", "-c", bootstrap)
	s.cmd.Env = append(slices.Clone(pythonEnv), libraryVariable+"="+s.backend.library.dir)
	s.cmd.Dir = "/"
	s.cmd.Stderr = s.stderr
	s.cmd.WaitDelay = killPatience // for a child that was being started, see Sandbox.wait
	s.cmd.ExtraFiles = []*os.File{inside}
	s.cmd.SysProcAttr = attributes
	if err := s.backend.startOwned(s.cmd); err != nil {
		s.conn.Close()
		return errors.Join(fmt.Errorf("start %s: %w", s.env.Python, err), s.group.Remove())
	}
	// It cannot have been reaped yet, so the pid is its own.
	s.handle.PID = s.cmd.Process.Pid
	if s.task, err = procfs.OpenTask(s.handle.PID); err != nil {
		s.conn.Close()
		return errors.Join(err, s.cmd.Process.Kill(), s.cmd.Wait(), s.group.Remove())
	}
	return s.begin()
}

// begin puts a waiting pid 1 into its control group, and listens to it.
func (s *Sandbox) begin() error {
	self, err := procfs.ReadStat(s.handle.PID)
	s.handle.StartTime = self.StartTime
	if err == nil {
		err = s.group.Add(s.handle.PID)
	}
	s.backend.remember(s)
	go s.wait()
	go s.listen()
	if err != nil {
		return errors.Join(err, s.Close())
	}
	return nil
}

func (s *Sandbox) makeGroup() (err error) {
	if s.group, err = s.backend.groups.Create(s.id); err != nil {
		return err
	}
	s.handle.Cgroups = s.group.Dirs()
	return nil
}

// build makes pid 1 set up a tree and wait: as a whole sandbox with "park", as a keeper with "keep".
func (s *Sandbox) build(ctx context.Context, op, cache string) error {
	_, err := s.call(ctx, op, parkRequest{
		Sessions: s.backend.cfg.Root,
		Library:  s.backend.library.dir,
		Cache:    cache,
		Prefixes: append([]string{}, s.env.Prefix...),
		Roots:    append([]string{}, s.backend.cfg.MountRoots...),
		Engine:   cmp.Or(s.env.Engine, python.EngineStdlib),
		Tier:     s.backend.tier.Name(),
		Scratch:  s.scratch,
	})
	return err
}

// Handle identifies pid 1 and names the control groups.
func (s *Sandbox) Handle() kernel.Handle { return s.handle }

// Seal makes the sandbox belong to one session. As root, Spec.UID must be a user id that nobody else has; as an
// ordinary user it must be 0 or that user's. After an error, or if ctx ends, the sandbox can only be closed.
func (s *Sandbox) Seal(ctx context.Context, spec kernel.Spec) error {
	if err := s.seal(ctx, spec); err != nil {
		s.kill()
		return fmt.Errorf("seal sandbox: %w", err)
	}
	return nil
}

func (s *Sandbox) seal(ctx context.Context, spec kernel.Spec) error {
	s.mu.Lock()
	again := s.sealing
	s.sealing = true
	s.mu.Unlock()
	if again {
		return errors.New("it is sealed already")
	}
	inner, outer, err := userID(spec.UID)
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.uid = outer
	s.mu.Unlock()
	limits := s.processLimits(spec.Limits)
	if spec.OOMOnly && !s.MemoryUnheld() {
		limits.Data = 0
	}
	body := sealRequest{
		UID:         inner,
		Killer:      s.backend.killerUID(),
		Hostname:    spec.Hostname,
		Limits:      limits,
		Confinement: s.backend.confinement.request,
		Environment: sealEnvironment{
			Python:  s.env.Python,
			TZ:      spec.TZ,
			Threads: int(math.Ceil(spec.Limits.CPUs)),
			Session: spec.Env,
		},
	}
	if body.Hostname == "" {
		body.Hostname = "sandbox"
	}
	if body.Environment.Session == nil {
		body.Environment.Session = map[string]string{}
	}
	var mounted []*os.File
	var imageFiles int64
	if spec.Disk == kernel.DiskImage {
		mount, err := disk.Clone(spec.Workspace)
		if err != nil {
			return fmt.Errorf("workspace: %w", err)
		}
		defer mount.Close()
		mounted = append(mounted, mount)
		body.Workspace, imageFiles, err = mountedDirectory(mount)
		if err != nil {
			return fmt.Errorf("workspace: %w", err)
		}
	} else if body.Workspace, err = s.beneathRoot(spec.Workspace); err != nil {
		return fmt.Errorf("workspace: %w", err)
	}
	if body.Packages, err = s.beneathRoot(spec.Packages); err != nil {
		return fmt.Errorf("packages: %w", err)
	}
	if body.Mounts, err = s.mounts(spec.Mounts); err != nil {
		return err
	}
	body.Confinement.Writable = writable(body.Mounts)
	if body.Scratch, err = s.giveScratch(); err != nil {
		return fmt.Errorf("scratch directory: %w", err)
	}
	limited := make(chan error, 1)
	go func() { limited <- s.group.Limit(spec.Limits) }()
	ooms := s.countOOMs()
	_, err = s.call(ctx, "seal", body, mounted...)
	if err := errors.Join(err, <-limited); err != nil {
		return err
	}
	if err := s.verify(outer); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sealed, s.limits, s.ooms, s.seen = true, spec.Limits, ooms, spec.Mounts
	s.disk, s.imageFiles = spec.Disk, imageFiles
	return nil
}

// userID returns the id that a session has in the sandbox's outer user namespace, and the one that it has on the host.
func userID(uid int) (inner, outer int, err error) {
	own := os.Geteuid()
	switch {
	case own == 0 && uid <= 0:
		return 0, 0, errors.New("as root, a session needs its own user id")
	case own != 0 && uid != 0 && uid != own:
		return 0, 0, fmt.Errorf("only root can run a session as user %d", uid)
	case own != 0:
		return 0, own, nil
	}
	return uid, uid, nil
}

// beneathRoot describes where a directory lies, in a form that pid 1 can check when it opens it itself: descriptors of
// this mount namespace are useless in its own.
func (s *Sandbox) beneathRoot(dir *os.File) (directory, error) {
	if dir == nil {
		return directory{}, errors.New("not given")
	}
	path, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", dir.Fd()))
	if err != nil {
		return directory{}, err
	}
	relative, err := filepath.Rel(s.backend.cfg.Root, path)
	if err != nil || !filepath.IsLocal(relative) || relative == "." {
		return directory{}, fmt.Errorf("%s is not below %s", path, s.backend.cfg.Root)
	}
	var stat unix.Stat_t
	if err := unix.Fstat(int(dir.Fd()), &stat); err != nil {
		return directory{}, err
	}
	return directory{Path: relative, Device: uint64(stat.Dev), Inode: stat.Ino}, nil
}

// mountedDirectory returns how pid 1 recognises a mount that it is given, and how many files it has room for.
func mountedDirectory(mount *os.File) (directory, int64, error) {
	var stat unix.Stat_t
	if err := unix.Fstat(int(mount.Fd()), &stat); err != nil {
		return directory{}, 0, err
	}
	var space unix.Statfs_t
	if err := unix.Fstatfs(int(mount.Fd()), &space); err != nil {
		return directory{}, 0, err
	}
	_, files := kernel.EnforcedUsage(kernel.DiskImage, workspace.Space{UsedInodes: int64(space.Files)})
	return directory{Device: uint64(stat.Dev), Inode: stat.Ino}, files, nil
}

// verify checks from outside that all processes inside have given up everything: pid 1, and the runner that it keeps
// ready.
func (s *Sandbox) verify(uid int) error {
	pids, err := s.pids()
	if err != nil {
		return fmt.Errorf("verify: %w", err)
	}
	if !slices.Contains(pids, s.handle.PID) {
		return errors.New("verify: pid 1 is not in its control group")
	}
	for _, pid := range pids {
		if pid == s.handle.PID && !s.backend.tier.Contained() {
			continue // it stays outside
		}
		if err := s.backend.verifyProcess(pid, uid); err != nil {
			return fmt.Errorf("verify: process %d %w", pid, err)
		}
	}
	return nil
}

func (b *Backend) verifyProcess(pid, uid int) error {
	p, err := procfs.Read(pid)
	if err != nil {
		return err
	}
	sets := []string{"CapInh", "CapPrm", "CapEff", "CapAmb", "CapBnd"}
	if !b.tier.Contained() && os.Geteuid() != 0 {
		sets = sets[:4] // only a privileged process can drop the bounding set, which gives nobody anything without new privileges
	}
	for _, set := range sets {
		if strings.Trim(p.Status[set], "0") != "" {
			return fmt.Errorf("has %s %s, not empty", set, p.Status[set])
		}
	}
	if p.Status["NoNewPrivs"] != "1" {
		return errors.New("may get new privileges")
	}
	for _, id := range strings.Fields(p.Status["Uid"]) {
		if id != strconv.Itoa(uid) {
			return fmt.Errorf("runs as user %s, not %d", id, uid)
		}
	}
	return b.confinement.verify(p)
}

// Close kills everything inside, waits for it, and removes the control groups.
func (s *Sandbox) Close() error { return s.close() }

func (s *Sandbox) destroy() error {
	s.mu.Lock()
	s.closing = true
	s.mu.Unlock()
	s.kill()
	s.awaitEnd()
	s.conn.Close()
	s.task.Close()
	s.closeSocketList()
	defer s.backend.forget(s)
	if err := errors.Join(s.endLeftovers(), s.group.Remove(), s.removeScratch()); err != nil {
		return fmt.Errorf("close sandbox: %w", err)
	}
	return nil
}

// kill ends pid 1. With it the kernel ends all other processes inside, or pid 1 itself does when nobody talks to it
// any more. It does not wait.
func (s *Sandbox) kill() {
	if s.backend.tier.Contained() {
		s.task.Kill()
	} else {
		_ = s.conn.CloseWrite() // it may be closed already
	}
}

// awaitEnd returns when everything inside has ended.
func (s *Sandbox) awaitEnd() {
	s.mu.Lock()
	sealed := s.sealed
	s.mu.Unlock()
	if sealed && !s.backend.tier.Contained() && !s.endsWithin(endPatience) {
		s.backend.cfg.Log.Error("pid 1 of a sandbox does not end; killing everything inside", "pid", s.handle.PID)
		for range 10 { // what is started meanwhile as well, while its parents still say that it is inside
			s.killInside()
			if s.endsWithin(killPatience / 10) {
				return
			}
		}
		s.task.Kill()
	}
	<-s.ended
}

func (s *Sandbox) endsWithin(patience time.Duration) bool {
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-s.ended:
		return true
	case <-timer.C:
		return false
	}
}

// killInside kills all processes but pid 1.
func (s *Sandbox) killInside() {
	pids, _ := s.pids() // without a list, pid 1 alone is killed
	for _, pid := range pids {
		if pid == s.handle.PID {
			continue
		}
		if p, err := procfs.ReadStat(pid); err == nil {
			_ = procfs.Kill(pid, p.StartTime) // it may be ending
		}
	}
}

func (s *Sandbox) wait() {
	defer close(s.reaped)
	// How pid 1 ends means nothing: it is killed, or it ends when its socket does.
	_ = s.task.Wait()
	// What it has sent is there to be read. A child that it was starting can have its socket, and code inside can have stopped it.
	_ = s.conn.SetReadDeadline(time.Now().Add(killPatience))
	if s.cmd != nil {
		_ = s.cmd.Wait()
	}
}

// listen passes on the messages of pid 1 until it is gone, and then wakes everybody who waits for it.
func (s *Sandbox) listen() {
	defer close(s.ended)
	buffer := make([]byte, maxReply)
	for {
		r, err := receive(s.conn, buffer)
		if err != nil {
			break
		}
		s.dispatch(r)
	}
	s.kill()
	<-s.reaped
	s.mu.Lock()
	left := s.processes
	s.processes = nil
	s.mu.Unlock()
	if len(left) == 0 {
		return
	}
	exit := kernel.Exit{Lost: true, Limit: s.limitReached(true)}
	for _, p := range left {
		p.finish(exit)
	}
}

func (s *Sandbox) dispatch(r reply) {
	s.mu.Lock()
	call := s.calls[r.ID]
	process := s.processes[r.ID]
	delete(s.calls, r.ID)
	if r.Op == "exited" || r.Op == "failed" {
		delete(s.processes, r.ID)
	}
	s.mu.Unlock()
	switch {
	case r.Op == "ended":
		s.mu.Lock()
		s.nothingLeft = true
		s.mu.Unlock()
	case r.Op == "exited" && process != nil:
		process.finish(s.exit(process, r))
	case call != nil:
		call <- r // it has room for the reply
	}
}

// call sends pid 1 a request and waits for the answer.
func (s *Sandbox) call(ctx context.Context, op string, body any, files ...*os.File) (reply, error) {
	s.mu.Lock()
	s.nextID++
	id := s.nextID
	s.mu.Unlock()
	return s.callAs(ctx, id, op, body, files...)
}

func (s *Sandbox) callAs(ctx context.Context, id int64, op string, body any, files ...*os.File) (reply, error) {
	answer := make(chan reply, 1)
	s.mu.Lock()
	s.calls[id] = answer
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.calls, id)
	}()
	if err := send(s.conn, request{Op: op, ID: id, Body: body}, files...); err != nil {
		if errors.Is(err, syscall.EPIPE) || errors.Is(err, net.ErrClosed) {
			<-s.ended
			return reply{}, s.lost()
		}
		return reply{}, fmt.Errorf("ask pid 1 to %s: %w", op, err)
	}
	select {
	case r := <-answer:
		if r.Op == "failed" {
			return r, &stepError{message: r.Error, step: r.Step, errno: syscall.Errno(r.Errno)}
		}
		return r, nil
	case <-s.ended:
		return reply{}, s.lost()
	case <-ctx.Done():
		return reply{}, fmt.Errorf("wait for pid 1 to %s: %w", op, context.Cause(ctx))
	}
}

// lost returns the error for a request to a pid 1 that is gone, with its last words.
func (s *Sandbox) lost() error {
	s.mu.Lock()
	closing := s.closing
	s.mu.Unlock()
	if closing {
		return fmt.Errorf("the sandbox is closed: %w", fs.ErrClosed)
	}
	words := strings.TrimSpace(s.stderr.String())
	if words != "" {
		words = ": " + words
	}
	return fmt.Errorf("the sandbox has ended%s: %w", words, fs.ErrClosed)
}

// tail keeps the last bytes written to it.
type tail struct {
	mu   sync.Mutex // guards last
	last []byte
}

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.last = append(t.last, p...)
	t.last = t.last[max(0, len(t.last)-maxDiagnosis):]
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.last)
}
