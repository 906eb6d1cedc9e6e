package python_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"talaria/kernel/python"
)

// fakePython returns a script that answers like an interpreter of that version.
func fakePython(t *testing.T, version string, modules ...string) string {
	t.Helper()
	dir := t.TempDir()
	path := filepath.Join(dir, "python3")
	list := make([]string, 0, len(modules))
	for _, module := range modules {
		list = append(list, `"`+module+`": "1.0"`)
	}
	parts := strings.ReplaceAll(version, ".", ", ")
	text := `{"version": [` + parts + `], "executable": "` + path + `", "path": ["` + dir + `", "/elsewhere"],
"modules": {` + strings.Join(list, ", ") + `}, "prefixes": ["` + dir + `"]}`
	script := "#!/bin/sh\ncase \"$*\" in *json*) echo '" + text + "';; *) echo " + version + ";; esac\n"
	if err := os.WriteFile(path, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestDiscoveryTakesTheConfiguredInterpreter(t *testing.T) {
	interpreter := fakePython(t, "3.12.1", "pandas")
	env, findings, err := python.DiscoverEnvironment(t.Context(), python.EnvironmentConfig{Name: "mine", Python: interpreter})
	if err != nil {
		t.Fatal(err)
	}
	if env.Name != "mine" || env.Python != interpreter || env.Version != "3.12.1" || len(findings) != 2 {
		t.Errorf("%+v %+v", env, findings)
	}
	if len(env.Modules) != 1 || env.Modules[0] != "pandas 1.0" {
		t.Errorf("modules %q", env.Modules)
	}
	// The path omits directories that a sandbox cannot see.
	if len(env.Path) != 1 || len(env.Prefix) != 1 || env.Path[0] != env.Prefix[0] {
		t.Errorf("path %q, prefix %q", env.Path, env.Prefix)
	}
}

func TestDiscoveryPrefersDataLibrariesOverThePath(t *testing.T) {
	if _, err := exec.LookPath("/usr/bin/python3"); err != nil {
		t.Skip("there is no /usr/bin/python3")
	}
	bare := fakePython(t, "3.12.1")
	t.Setenv("PATH", filepath.Dir(bare)+":/usr/bin:/bin")
	env, _, err := python.DiscoverEnvironment(t.Context(), python.EnvironmentConfig{})
	if err != nil {
		t.Fatal(err)
	}
	system, _, err := python.DiscoverEnvironment(t.Context(), python.EnvironmentConfig{Python: "/usr/bin/python3"})
	if err != nil {
		t.Fatal(err)
	}
	want := system.Python
	if len(system.Modules) == 0 {
		want = bare
	}
	if env.Python != want {
		t.Errorf("took %s, not %s", env.Python, want)
	}

	full := fakePython(t, "3.13.0", "numpy", "pandas", "matplotlib")
	t.Setenv("PATH", filepath.Dir(full)+":/usr/bin:/bin")
	env, _, err = python.DiscoverEnvironment(t.Context(), python.EnvironmentConfig{})
	if err != nil {
		t.Fatal(err)
	}
	if env.Python != full {
		t.Errorf("took %s, not the first of equals", env.Python)
	}
}

func TestDiscoveryRefusesOldPythonAndSaysWhatToDo(t *testing.T) {
	for _, version := range []string{"3.10.13", "2.7.18"} {
		interpreter := fakePython(t, version, "numpy", "pandas", "matplotlib")
		_, findings, err := python.DiscoverEnvironment(t.Context(), python.EnvironmentConfig{Python: interpreter})
		if err == nil {
			t.Fatalf("Python %s was taken", version)
		}
		for _, part := range []string{version, interpreter, "3.11", "configure"} {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%q does not name %s", err, part)
			}
		}
		if len(findings) != 1 || findings[0].OK || findings[0].Remedy == "" {
			t.Errorf("%+v", findings)
		}
	}
}

func TestDiscoveryRefusesFreeThreadedPythonAndSaysWhatToDo(t *testing.T) {
	interpreter := fakePython(t, "3.13.1", "numpy", "pandas", "matplotlib")
	script, err := os.ReadFile(interpreter)
	if err != nil {
		t.Fatal(err)
	}
	free := strings.Replace(string(script), `"version"`, `"free_threaded":true,"version"`, 1)
	if err := os.WriteFile(interpreter, []byte(free), 0o755); err != nil {
		t.Fatal(err)
	}
	_, findings, err := python.DiscoverEnvironment(t.Context(), python.EnvironmentConfig{Python: interpreter})
	if err == nil || !strings.Contains(err.Error(), interpreter+" is Python 3.13.1 built free-threaded") {
		t.Fatalf("got %v", err)
	}
	if len(findings) != 1 || findings[0].OK || !strings.Contains(findings[0].Remedy, "free-threaded") {
		t.Errorf("%+v", findings)
	}
}

func TestDiscoveryRefusesWhatIsNoPython(t *testing.T) {
	for _, path := range []string{"/bin/true", "/no/such/python", t.TempDir()} {
		if _, _, err := python.DiscoverEnvironment(t.Context(), python.EnvironmentConfig{Python: path}); err == nil {
			t.Errorf("%s was taken", path)
		} else if !strings.Contains(err.Error(), path) {
			t.Errorf("%q does not name %s", err, path)
		}
	}
}

// TestDiscoveryNamesWhatIsWrongWithAnInterpreter has one that hangs with a child that keeps its output open, one that
// ends at once, and one that is another program.
func TestDiscoveryNamesWhatIsWrongWithAnInterpreter(t *testing.T) {
	const hangs = "sleep 1000 & wait"
	for script, says := range map[string]string{
		hangs:        "does not answer: it ran for 300ms",
		"exit 7":     "exit status 7",
		"echo hello": "does not work as a Python",
	} {
		t.Run(script, func(t *testing.T) {
			if script == hangs { // the others may need longer on a busy machine
				python.SetDiscoveryTimeout(t, 300*time.Millisecond)
			}
			path := filepath.Join(t.TempDir(), "python3")
			if err := os.WriteFile(path, []byte("#!/bin/sh\n"+script+"\n"), 0o755); err != nil {
				t.Fatal(err)
			}
			_, findings, err := python.DiscoverEnvironment(t.Context(), python.EnvironmentConfig{Python: path})
			if err == nil || !strings.Contains(err.Error(), says) || !strings.Contains(err.Error(), path) {
				t.Errorf("%v, which does not say %q", err, says)
			}
			if len(findings) != 1 || findings[0].OK || findings[0].Remedy == "" {
				t.Errorf("%+v", findings)
			}
		})
	}
}

// TestDiscoveryThatIsEndedBlamesNoInterpreter ends it while an interpreter describes itself, and while one imports IPython.
func TestDiscoveryThatIsEndedBlamesNoInterpreter(t *testing.T) {
	fifo := filepath.Join(t.TempDir(), "runs")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	hang := "echo > " + fifo + "; sleep 1000"
	describes := filepath.Join(t.TempDir(), "python3")
	if err := os.WriteFile(describes, []byte("#!/bin/sh\n"+hang+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{describes, withIPython(t, hang)} {
		ctx, cancel := context.WithCancelCause(t.Context())
		enough := errors.New("enough")
		go func() {
			_, _ = os.ReadFile(fifo) // waits until it runs
			cancel(enough)
		}()
		cfg := python.EnvironmentConfig{Python: path, Trials: t.TempDir()}
		if env, findings, err := python.DiscoverEnvironment(ctx, cfg); err != enough || len(findings) > 0 || env.Python != "" {
			t.Errorf("%+v, %+v, %v", env, findings, err)
		}
		if kept, err := os.ReadDir(cfg.Trials); err != nil || len(kept) > 0 {
			t.Errorf("it remembers %v (%v)", kept, err)
		}
	}
}

func TestDiscoveryBindsAVirtualEnvironmentWithItsBase(t *testing.T) {
	base, _, err := python.DiscoverEnvironment(t.Context(), python.EnvironmentConfig{})
	if err != nil {
		t.Fatal(err)
	}
	venv := filepath.Join(t.TempDir(), "venv")
	out, err := exec.Command(base.Python, "-I", "-m", "venv", "--without-pip", venv).CombinedOutput()
	if err != nil {
		t.Skipf("%s cannot make a virtual environment: %s", base.Python, out)
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(venv, link); err != nil {
		t.Fatal(err)
	}
	env, _, err := python.DiscoverEnvironment(t.Context(),
		python.EnvironmentConfig{Python: filepath.Join(link, "bin", "python3")})
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(env.Python, link+"/") {
		t.Errorf("the interpreter became %s, which is not the environment's", env.Python)
	}
	for _, dir := range append([]string{venv, link}, base.Prefix...) {
		found := false
		for _, prefix := range env.Prefix {
			found = found || prefix == dir
		}
		if !found {
			t.Errorf("%s is not among %q", dir, env.Prefix)
		}
	}
}

func TestDiscoveryReadsVersionsFromTheNamesOfWhatInstallersLeave(t *testing.T) {
	venv := filepath.Join(t.TempDir(), "venv")
	if out, err := exec.Command("/usr/bin/python3", "-I", "-m", "venv", "--without-pip", venv).CombinedOutput(); err != nil {
		t.Skipf("no virtual environment can be made: %v %s", err, out)
	}
	found, err := filepath.Glob(filepath.Join(venv, "lib", "python3*", "site-packages"))
	if err != nil || len(found) != 1 {
		t.Fatal(found, err)
	}
	for _, name := range []string{"numpy-2.1.0+mkl.dist-info", "Pandas-1.5.3-py3.11.egg-info", "ipython-8.5.0.dist-info",
		"matplotlib.dist-info", "numpy_financial-1.0.0.dist-info", "pandas-9.tar.gz"} {
		if err := os.Mkdir(filepath.Join(found[0], name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	env, _, err := python.DiscoverEnvironment(t.Context(),
		python.EnvironmentConfig{Python: filepath.Join(venv, "bin", "python3"), Engine: python.EngineStdlib})
	if want := []string{"numpy 2.1.0+mkl", "pandas 1.5.3", "IPython 8.5.0"}; err != nil || !slices.Equal(env.Modules, want) {
		t.Errorf("%q instead of %q, %v", env.Modules, want, err)
	}
}
