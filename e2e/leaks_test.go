package e2e

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"talaria/api"
)

// process is a process that ran at some time; its start time makes sure that its pid does not belong to another one
// now.
type process struct {
	pid, parent int
	start       string
	name        string
}

func (p process) String() string { return fmt.Sprintf("%d (%s)", p.pid, p.name) }

// alive reports whether the process has not ended; a zombie has.
func (p process) alive() bool {
	now, state, err := readProcess(p.pid)
	return err == nil && now.start == p.start && state != "Z" && state != "X"
}

func readProcess(pid int) (p process, state string, err error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return process{}, "", err
	}
	open, end := bytes.IndexByte(stat, '('), bytes.LastIndexByte(stat, ')')
	fields := strings.Fields(string(stat[end+1:]))
	parent, err := strconv.Atoi(fields[1])
	return process{pid, parent, fields[19], string(stat[open+1 : end])}, fields[0], err
}

// descendants lists the living processes below one.
func descendants(root int) []process {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	children := map[int][]process{}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if p, _, err := readProcess(pid); err == nil { // otherwise it has ended meanwhile
			children[p.parent] = append(children[p.parent], p)
		}
	}
	var found []process
	for todo := []int{root}; len(todo) > 0; todo = todo[1:] {
		for _, p := range children[todo[0]] {
			todo = append(todo, p.pid)
			if p.alive() {
				found = append(found, p)
			}
		}
	}
	return found
}

// adoptOrphans makes every process whose parent dies a child of this one, so that none is lost from sight.
func adoptOrphans() error { return unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) }

// mounts lists the mounts of this machine in a directory.
func mounts(dir string) []string {
	table, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return []string{err.Error()}
	}
	var found []string
	for line := range strings.Lines(string(table)) {
		if strings.Contains(line, dir) {
			found = append(found, "mount "+strings.TrimSpace(line))
		}
	}
	return found
}

// loops lists the images in a directory that loop devices of this machine work on, deleted ones included.
func loops(dir string) []string {
	files, err := filepath.Glob("/sys/block/loop*/loop/backing_file")
	if err != nil {
		return []string{err.Error()}
	}
	var found []string
	for _, file := range files {
		if image, err := os.ReadFile(file); err == nil && strings.HasPrefix(string(image), dir+"/") {
			found = append(found, "loop device "+file+" of "+strings.TrimSpace(string(image)))
		}
	}
	return found
}

// releasedImages checks that no image of a server's sessions is in use. A loop device holds a lock on its image as
// long as it exists, and goes away a moment after the last process that used it.
func releasedImages(t *testing.T, stateDir string) {
	t.Helper()
	images, err := filepath.Glob(filepath.Join(stateDir, "sessions", "*", "*.ext4"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range images {
		f, err := os.OpenFile(path, os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		free := make(chan error, 1)
		go func() {
			defer f.Close()
			free <- syscall.Flock(int(f.Fd()), syscall.LOCK_EX)
		}()
		select {
		case err := <-free:
			if err != nil {
				t.Errorf("lock %s: %v", path, err)
			}
		case <-time.After(ending):
			t.Errorf("the image %s is still in use: %v", path, loops(stateDir))
		}
	}
}

// instances are the state directories that servers ran on.
var instances struct {
	mu   sync.Mutex // guards dirs
	dirs []string
}

func watchInstance(stateDir string) {
	instances.mu.Lock()
	defer instances.mu.Unlock()
	instances.dirs = append(instances.dirs, stateDir)
}

// marked starts a daemon in a session's kernel. It returns a function that checks that nothing of that kernel is left. On a busy
// machine that may take a moment: a host tells the end of a kernel whose sandbox does not close at once.
func (s *Server) marked(t *testing.T, session string) (gone func(*testing.T)) {
	t.Helper()
	daemon, dirs := s.daemon(t, session)
	remains := func(dir string) bool {
		_, err := os.Stat(dir)
		return err == nil
	}
	return func(t *testing.T) {
		t.Helper()
		for ctx := within(t); ctx.Err() == nil && (daemon.alive() || slices.ContainsFunc(dirs, remains)); {
			time.Sleep(10 * time.Millisecond)
		}
		if daemon.alive() {
			t.Errorf("process %v outlives its kernel", daemon)
		}
		for _, dir := range dirs {
			if remains(dir) {
				t.Errorf("control group %s outlives its kernel", dir)
			}
		}
	}
}

// daemon starts a daemon in a session's kernel, and returns it with its control groups.
func (s *Server) daemon(t *testing.T, session string) (daemon process, groupDirs []string) {
	t.Helper()
	name := fmt.Sprint("86400.", marks.Add(1))
	// A process has no command line yet at the moment when exec closes the pipe that Popen waits for.
	runOK(t, s.Client(), session, `import subprocess
daemon = subprocess.Popen(["sh", "-c", "echo up; sleep 86400; :", "`+name+`"], start_new_session=True, stdout=subprocess.PIPE)
assert daemon.stdout.readline() == b"up\n"`)
	for _, p := range s.kernels(t) {
		if line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", p.pid)); strings.Contains(string(line), name) {
			daemon = p
		}
	}
	if daemon.pid == 0 {
		t.Fatal("the daemon of the kernel is not to be seen")
	}
	for _, group := range groups(s.StateDir) {
		dir := strings.TrimPrefix(group, "control group ")
		members, _ := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
		if slices.Contains(strings.Fields(string(members)), strconv.Itoa(daemon.pid)) {
			groupDirs = append(groupDirs, dir)
		}
	}
	return daemon, groupDirs
}

// marks makes the names of daemons unique.
var marks atomic.Int64

// groups lists the control groups of the hosts of a state directory: those below talaria/NAME, where NAME begins with
// the name derived from the directory of the sessions.
func groups(stateDir string) []string {
	sum := sha256.Sum256([]byte(filepath.Join(stateDir, "sessions")))
	name := "/talaria/" + hex.EncodeToString(sum[:6])
	var found []string
	_ = filepath.WalkDir("/sys/fs/cgroup", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return nil // a group that disappeared meanwhile
		}
		if d.IsDir() && strings.Contains(path, name) {
			found = append(found, "control group "+path)
		}
		return nil
	})
	return found
}

// leftovers lists what all tests together left on the machine.
func leftovers() []string {
	var found []string
	for _, p := range descendants(os.Getpid()) {
		line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", p.pid))
		found = append(found, "process "+p.String()+": "+strings.ReplaceAll(string(line), "\x00", " "))
		_ = syscall.Kill(p.pid, syscall.SIGKILL)
	}
	for _, dir := range instances.dirs {
		found = append(found, mounts(dir)...)
		found = append(found, groups(dir)...)
		found = append(found, loops(dir)...)
		if _, err := os.Stat(dir); err == nil {
			found = append(found, "directory "+dir)
		}
	}
	slices.Sort(found)
	return slices.Compact(found)
}

// The check for leftovers would be worthless if it could not see what is there.
func TestTheLeakCheckSeesProcessesAndControlGroups(t *testing.T) {
	t.Parallel()
	s := start(t, options{})
	c := s.Client()
	id := session(t, c, api.SessionRequest{})
	runOK(t, c, id, "1")
	if list := descendants(s.PID()); len(list) < 2 {
		t.Errorf("a living session shows as %v; its init and its kernel are to be seen", list)
	}
	if os.Getuid() == 0 && len(groups(s.StateDir)) == 0 {
		t.Error("no control group of a living session is to be seen")
	}
	if os.Getuid() == 0 && imagesHere(t) && len(loops(s.StateDir)) == 0 {
		t.Error("no image of a living session is to be seen")
	}
}
