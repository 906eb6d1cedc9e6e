package workspace_test

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"talaria/kernel/workspace"
)

const (
	sessionUID = 1_900_000_007 // of a session, if the tests run as root
	nobody     = 65534
	noLimit    = 1 << 40
)

// TestMain fails the run if a file descriptor is left open.
func TestMain(m *testing.M) {
	before := openDescriptors()
	code := m.Run()
	if after := openDescriptors(); code == 0 && len(after) > len(before) {
		fmt.Fprintf(os.Stderr, "descriptors before: %q, left open: %q\n", before, after)
		code = 1
	}
	os.Exit(code)
}

func openDescriptors() []string {
	entries, _ := os.ReadDir("/proc/self/fd")
	var open []string
	for _, e := range entries {
		target, err := os.Readlink("/proc/self/fd/" + e.Name())
		if err == nil && strings.HasPrefix(target, "/") && !strings.HasPrefix(target, "/proc/") {
			open = append(open, target)
		}
	}
	return open
}

// uid returns the user id that owns a session's files in this run.
func uid() int {
	if os.Geteuid() == 0 {
		return sessionUID
	}
	return 0
}

// create makes a session and returns its workspace and the workspace's path on the host.
func create(t *testing.T) (*workspace.Dir, string) {
	t.Helper()
	return createIn(t, t.TempDir())
}

// createInMemory is for tests with very many files; it uses a file system in memory if there is one.
func createInMemory(t *testing.T) (*workspace.Dir, string) {
	t.Helper()
	parent, err := os.MkdirTemp("/dev/shm", "workspace-test-")
	if err != nil {
		return create(t)
	}
	t.Cleanup(func() { must(t, os.Remove(parent)) }) // runs after the cleanup of the session
	return createIn(t, parent)
}

func createIn(t *testing.T, parent string) (*workspace.Dir, string) {
	t.Helper()
	d, err := workspace.Create(parent, "s1", uid())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		d.Close()
		if err := workspace.Delete(context.Background(), parent, "s1"); err != nil {
			t.Error(err)
		}
	})
	return d, filepath.Join(parent, "s1", workspace.WorkspaceFolder)
}

func write(t *testing.T, d *workspace.Dir, path, text string) workspace.Entry {
	t.Helper()
	_, e, err := d.Write(t.Context(), path, strings.NewReader(text), noLimit)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func read(t *testing.T, d *workspace.Dir, path string) string {
	t.Helper()
	f, e, err := d.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	b, err := io.ReadAll(f)
	if err != nil {
		t.Fatal(err)
	}
	if e.Size != int64(len(b)) {
		t.Errorf("%q: entry says %d bytes, read %d", path, e.Size, len(b))
	}
	return string(b)
}

// tree lists everything below a path of the host, with a slash after each folder.
func tree(t *testing.T, root string) []string {
	t.Helper()
	list := []string{}
	err := filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if err != nil || path == root {
			return err
		}
		rel, _ := filepath.Rel(root, path)
		if e.IsDir() {
			rel += "/"
		}
		list = append(list, rel)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// asOrdinaryUser, if this process is root, runs the calling test again in a process without root's rights, and then
// reports true: the caller returns.
func asOrdinaryUser(t *testing.T) bool {
	t.Helper()
	if os.Geteuid() != 0 {
		return false
	}
	home, err := os.MkdirTemp("", "workspace-test-")
	must(t, err)
	defer os.RemoveAll(home)
	self, err := os.ReadFile("/proc/self/exe")
	must(t, err)
	binary := filepath.Join(home, "self.test")
	must(t, os.WriteFile(binary, self, 0o755))
	must(t, os.Chown(home, nobody, nobody))
	cmd := exec.CommandContext(t.Context(), binary, "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Dir = home
	cmd.Env = []string{"TMPDIR=" + home, "PATH=" + os.Getenv("PATH")}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS: "+t.Name()) {
		t.Errorf("as an ordinary user: %v\n%s", err, out)
	}
	return true
}
