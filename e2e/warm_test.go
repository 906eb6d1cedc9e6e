package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"testing"
)

// systemPath is the PATH of servers under test: what a service has, without the shims of a version manager.
const systemPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// starting are the folders of a state directory that a server makes once and all later starts use: the runner, compiled, and
// the caches of libraries, such as matplotlib's list of fonts.
var starting = []string{"lib", "cache"}

// trials is another such folder, which only a machine with IPython has.
const trials = "pythons"

// started has, for each identity, a copy of those folders from the first server that ended. Later servers begin with it, as
// those of an operator do from the second start on. That saves a fifth of the CPU time of a start. The runner's files are links,
// as no server writes them in place: new files are slow on a disk without a journal, and they are four hundred.
var started struct {
	sync.Mutex
	copies map[identity]string
}

// keepStarted keeps the folders of a server that has ended.
func (s *Server) keepStarted(t *testing.T) {
	t.Helper()
	started.Lock()
	defer started.Unlock()
	if s.program != "" || started.copies[s.options.as] != "" || t.Failed() {
		return
	}
	for _, name := range starting {
		if entries, err := os.ReadDir(filepath.Join(s.StateDir, name)); err != nil || len(entries) == 0 {
			return // it was not up for long enough
		}
	}
	dir, err := os.MkdirTemp(filepath.Dir(binary), "started-")
	if err != nil {
		t.Fatal(err)
	}
	copyStarted(t, s.StateDir, dir, "-a") // its state directory may be a disk of its own
	if started.copies == nil {
		started.copies = map[identity]string{}
	}
	started.copies[s.options.as] = dir
}

// beginStarted gives a server that has never run what an earlier one left.
func (s *Server) beginStarted(t *testing.T) {
	t.Helper()
	started.Lock()
	defer started.Unlock()
	if dir := started.copies[s.options.as]; dir != "" {
		copyStarted(t, dir, s.StateDir, "-al")
	}
}

// copyStarted copies the folders, the runner in the way that an option of cp says.
func copyStarted(t *testing.T, from, to, runner string) {
	t.Helper()
	names := starting
	if _, err := os.Stat(filepath.Join(from, trials)); err == nil {
		names = append(slices.Clone(names), trials)
	}
	for _, name := range names {
		how := "-a"
		if name == "lib" {
			how = runner
		}
		if out, err := exec.Command("cp", how, filepath.Join(from, name), to).CombinedOutput(); err != nil {
			t.Fatalf("cp: %v: %s", err, out)
		}
	}
}
