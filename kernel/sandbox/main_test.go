package sandbox_test

import (
	"cmp"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"

	"talaria/kernel"
	"talaria/kernel/kerneltest"
	"talaria/kernel/namespace"
	"talaria/kernel/python"
	"talaria/kernel/sandbox"
)

// Variables for this binary when a test runs it again.
const (
	roleVariable   = "SANDBOX_TEST_ROLE"
	pythonVariable = "SANDBOX_TEST_PYTHON"
)

// sessionUID is a user id reserved for these tests.
const sessionUID = 1900000100

func TestMain(m *testing.M) {
	if os.Getenv(roleVariable) == serverRole {
		serve()
		return
	}
	dir, err := os.MkdirTemp(os.Getenv(kerneltest.DirectoryVariable), "talaria-sandbox-cache-")
	if err == nil {
		err = errors.Join(os.Chmod(dir, 0o755), os.Mkdir(filepath.Join(dir, "fonts"), 0o755))
	}
	if err != nil {
		panic(err)
	}
	fonts, library = filepath.Join(dir, "fonts"), filepath.Join(dir, "lib")
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		if err := os.RemoveAll(dir); err != nil {
			panic(err)
		}
		os.Exit(code)
	}))
}

// fonts is where matplotlib's list of fonts is kept for most tests, since making it takes a second, and library where the runner
// is, compiled. A process with a role has its own.
var fonts, library string

func config(dir string) sandbox.Config {
	return sandbox.Config{
		Root:     filepath.Join(dir, "sessions"),
		LibDir:   cmp.Or(library, filepath.Join(dir, "lib")),
		CacheDir: fonts,
	}
}

func newBackend(t testing.TB, dir string, changes ...func(*sandbox.Config)) *sandbox.Backend {
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

// warm returns a backend whose environment is warm, with those of its libraries that exist.
func warm(t testing.TB, dir string, changes ...func(*sandbox.Config)) (*sandbox.Backend, kernel.Environment) {
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
	env, _, err := python.DiscoverEnvironment(t.Context(), python.EnvironmentConfig{Python: os.Getenv(pythonVariable), Engine: python.EngineStdlib})
	if err != nil {
		t.Fatal(err)
	}
	return env
}

// stateDir makes an empty directory that other users can reach, unlike t.TempDir.
func stateDir(t testing.TB) string { return kerneltest.StateDir(t) }

// newSpec makes a session's directories below dir, and opens them for as long as the test runs.
func newSpec(t testing.TB, dir string) kernel.Spec {
	return kerneltest.NewSpec(t, filepath.Join(dir, "sessions"), sessionUID)
}

func openSpec(session string) (kernel.Spec, error) { return kerneltest.OpenSpec(session, sessionUID) }

// again returns a command that runs this binary once more, as the same or an ordinary user, with a directory to work
// in.
func again(t *testing.T, ordinary bool, dir string, args ...string) *exec.Cmd {
	return kerneltest.Again(t, ordinary, dir, args...)
}
