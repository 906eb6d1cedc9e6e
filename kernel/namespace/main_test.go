package namespace_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"go.uber.org/goleak"

	"talaria/kernel"
	"talaria/kernel/namespace"
)

// Variables for this binary when a test runs it again.
const (
	roleVariable      = "NAMESPACE_TEST_ROLE"
	directoryVariable = "NAMESPACE_TEST_DIRECTORY"
	pythonVariable    = "NAMESPACE_TEST_PYTHON"
)

// User ids of these tests' own.
const (
	sessionUID  = 1900000100
	ordinaryUID = 1900099999
)

func TestMain(m *testing.M) {
	if os.Getenv(roleVariable) == serverRole {
		serve()
		return
	}
	dir, err := os.MkdirTemp(os.Getenv(directoryVariable), "talaria-namespace-cache-")
	if err == nil {
		err = os.Chmod(dir, 0o755)
	}
	if err != nil {
		panic(err)
	}
	fonts = dir
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		if err := os.RemoveAll(dir); err != nil {
			panic(err)
		}
		os.Exit(code)
	}))
}

// fonts is where matplotlib's list of fonts is kept for most tests, since making it takes a second.
var fonts string

// stateDir is an empty directory that other users can reach, unlike t.TempDir.
func stateDir(t testing.TB) string {
	t.Helper()
	parent := os.Getenv(directoryVariable)
	dir, err := os.MkdirTemp(parent, "talaria-namespace-")
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

func config(dir string) namespace.Config {
	return namespace.Config{
		Root:     filepath.Join(dir, "sessions"),
		LibDir:   filepath.Join(dir, "lib"),
		CacheDir: fonts,
	}
}

func newBackend(t testing.TB, dir string, changes ...func(*namespace.Config)) *namespace.Backend {
	t.Helper()
	cfg := config(dir)
	for _, change := range changes {
		change(&cfg)
	}
	b, err := namespace.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	return b
}

// warm is a backend whose environment is warm, with the libraries of it that are there.
func warm(t testing.TB, dir string, changes ...func(*namespace.Config)) (*namespace.Backend, kernel.Environment) {
	t.Helper()
	b := newBackend(t, dir, changes...)
	env := environment(t)
	env.Preload = []string{"numpy", "pandas", "matplotlib"}
	if err := b.Warm(t.Context(), env); err != nil {
		t.Fatal(err)
	}
	return b, env
}

func environment(t testing.TB) kernel.Environment {
	t.Helper()
	env, _, err := kernel.DiscoverEnvironment(t.Context(), kernel.EnvironmentConfig{Python: os.Getenv(pythonVariable), Engine: kernel.EngineStdlib})
	if err != nil {
		t.Fatal(err)
	}
	return env
}

// newSpec makes a session's directories below dir, and opens them for as long as the test runs.
func newSpec(t testing.TB, dir string) kernel.Spec {
	t.Helper()
	session, err := os.MkdirTemp(filepath.Join(dir, "sessions"), "s-")
	if err != nil {
		t.Fatal(err)
	}
	spec, err := openSpec(session)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		spec.Workspace.Close()
		spec.Packages.Close()
	})
	return spec
}

func openSpec(session string) (kernel.Spec, error) {
	var spec kernel.Spec
	if os.Geteuid() == 0 {
		spec.UID = sessionUID
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

// again is a command that runs this binary once more, as the same or an ordinary user, with a directory to work in.
func again(t *testing.T, ordinary bool, dir string, args ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(self)
	if err != nil {
		t.Fatal(err)
	}
	binary := filepath.Join(dir, "namespace.test")
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
		"PATH=/usr/local/bin:/usr/bin:/bin", "TMPDIR=" + own, directoryVariable + "=" + own, "HOME=" + own,
	}
	if ordinary {
		if err := os.Chown(own, ordinaryUID, ordinaryUID); err != nil {
			t.Fatal(err)
		}
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: ordinaryUID, Gid: ordinaryUID}}
	}
	return cmd
}
