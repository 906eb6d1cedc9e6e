package python_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"talaria/kernel/python"
)

// withIPython returns a script that answers like an interpreter that has IPython; importing it ends as the command
// says.
func withIPython(t *testing.T, imports string) string {
	t.Helper()
	interpreter := fakePython(t, "3.12.1", "IPython")
	script, err := os.ReadFile(interpreter)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.SplitN(string(script), "\n", 2)
	changed := lines[0] + "\ncase \"$*\" in *interactiveshell*) " + imports + ";; esac\n" + lines[1]
	path := filepath.Join(filepath.Dir(interpreter), "python3")
	if err := os.WriteFile(path, []byte(changed), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestEngineIsIPythonWhereItCanBeImported(t *testing.T) {
	broken := "echo 'ImportError: no traitlets' >&2; exit 1"
	for _, c := range []struct{ name, python, wanted, engine, says string }{
		{"auto takes it", withIPython(t, "exit 0"), "", "ipython", "ipython 1.0"},
		{"auto by name", withIPython(t, "exit 0"), python.EngineAuto, "ipython", "ipython 1.0"},
		{"auto does without a broken one", withIPython(t, broken), "", "stdlib", "no traitlets"},
		{"auto does without one", fakePython(t, "3.12.1"), "", "stdlib", "there is no IPython"},
		{"stdlib looks at none", withIPython(t, "exit 1"), python.EngineStdlib, "stdlib", "as configured"},
		{"ipython takes it", withIPython(t, "exit 0"), python.EngineIPython, "ipython", "ipython 1.0"},
	} {
		t.Run(c.name, func(t *testing.T) {
			env, findings, err := python.DiscoverEnvironment(t.Context(),
				python.EnvironmentConfig{Name: "mine", Python: c.python, Engine: c.wanted})
			if err != nil {
				t.Fatal(err)
			}
			last := findings[len(findings)-1]
			if env.Engine != c.engine || last.Name != "engine of mine" || !strings.Contains(last.Detail, c.says) {
				t.Errorf("%q %+v", env.Engine, last)
			}
			if !last.OK && last.Remedy == "" {
				t.Errorf("%+v says not what to do", last)
			}
		})
	}
}

func TestEngineIPythonThatIsMissingIsAnErrorThatSaysWhatToDo(t *testing.T) {
	for _, interpreter := range []string{fakePython(t, "3.12.1"), withIPython(t, "echo boom >&2; exit 1")} {
		_, findings, err := python.DiscoverEnvironment(t.Context(),
			python.EnvironmentConfig{Name: "mine", Python: interpreter, Engine: python.EngineIPython})
		if err == nil {
			t.Fatal("it was taken")
		}
		for _, part := range []string{"mine", "engine ipython", "install IPython", "engine: stdlib"} {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%q does not say %q", err, part)
			}
		}
		if last := findings[len(findings)-1]; last.OK || last.Remedy == "" {
			t.Errorf("%+v", last)
		}
	}
}
