package kerneltest

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"talaria/kernel"
)

// DirectoryVariable names the variable with the directory that state directories are made in; default: that of
// temporary files.
const DirectoryVariable = "KERNELTEST_DIRECTORY"

// OrdinaryUID is the user id that [Again] runs tests as.
const OrdinaryUID = 1900099999

// StateDir makes an empty directory that other users can reach, unlike t.TempDir. It is removed at the end of the
// test.
func StateDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp(os.Getenv(DirectoryVariable), "talaria-kernel-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

// NewSpec makes a session's directories below a directory of sessions, and opens them for as long as the test runs.
// The session belongs to uid if the tests run as root.
func NewSpec(t testing.TB, sessions string, uid int) kernel.Spec {
	t.Helper()
	session, err := os.MkdirTemp(sessions, "s-")
	if err == nil {
		err = os.Chmod(session, 0o711)
	}
	if err != nil {
		t.Fatal(err)
	}
	spec, err := OpenSpec(session, uid)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		spec.Workspace.Close()
		spec.Packages.Close()
	})
	return spec
}

// OpenSpec makes the directories of a session and opens them for the caller.
func OpenSpec(session string, uid int) (kernel.Spec, error) {
	var spec kernel.Spec
	if os.Geteuid() == 0 {
		spec.UID = uid
	}
	for name, file := range map[string]**os.File{"workspace": &spec.Workspace, "packages": &spec.Packages} {
		path := filepath.Join(session, name)
		if err := os.Mkdir(path, 0o700); err != nil {
			return spec, err
		}
		if spec.UID != 0 {
			if err := os.Chown(path, spec.UID, spec.UID); err != nil {
				return spec, err
			}
		}
		const oPath = 0x200000
		opened, err := os.OpenFile(path, oPath|syscall.O_DIRECTORY, 0)
		if err != nil {
			return spec, err
		}
		*file = opened
	}
	return spec, nil
}

// Again returns a command that runs this binary once more, as the same or an ordinary user, with a directory to work
// in.
func Again(t *testing.T, ordinary bool, dir string, args ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(self)
	if err != nil {
		t.Fatal(err)
	}
	binary := filepath.Join(dir, "kernel.test")
	if err := os.WriteFile(binary, content, 0o755); err != nil {
		t.Fatal(err)
	}
	own := filepath.Join(dir, "own")
	if err := os.Mkdir(own, 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(binary, args...)
	cmd.Dir = own
	cmd.Env = []string{
		"PATH=/usr/local/bin:/usr/bin:/bin", "TMPDIR=" + own, DirectoryVariable + "=" + own, "HOME=" + own,
	}
	if ordinary {
		if err := os.Chown(own, OrdinaryUID, OrdinaryUID); err != nil {
			t.Fatal(err)
		}
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: OrdinaryUID, Gid: OrdinaryUID}}
	}
	return cmd
}
