package kerneltest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"talaria/kernel"
)

// scriptEngine is python.EngineScript, which this package cannot import.
const scriptEngine = "script"

// stdinOf returns a file to read that text from.
func stdinOf(t *testing.T, text string) *os.File {
	t.Helper()
	path := filepath.Join(t.TempDir(), "stdin")
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

func commandsReadStdin(t *testing.T, r *rig) {
	s := r.sealed(t)
	p := kernel.Program{Args: []string{"/bin/sh", "-c", "cat; echo end"}, Stdin: stdinOf(t, "line\n")}
	if res := finish(t, start(t, s, p)); res.stdout != "line\nend\n" {
		t.Errorf("printed %q; %s", res.stdout, res.stderr)
	}
	if res := finish(t, start(t, s, kernel.Program{Args: []string{"cat"}})); res.stdout != "" || res.exit != (kernel.Exit{}) {
		t.Errorf("without standard input: %+v", res)
	}
}

// scriptText is a program that shows what a script may rely on.
const scriptText = `
import os, sys, helper
print(__name__, __file__ == sys.argv[0], sys.argv[1:], helper.value, sys.stdin.read().split())
print([n for n in sys.modules if "talaria" in n], sorted(os.listdir("/proc/self/fd"))[:3], len(os.listdir("/proc/self/fd")))
print("error", file=sys.stderr)
if sys.argv[1:]:
    sys.exit(int(sys.argv[1]))
def f():
    raise ValueError("at the end")
f()
`

func scriptsRun(t *testing.T, r *rig) {
	for _, engine := range []string{scriptEngine, ""} {
		env := r.env
		env.Engine, env.Preload = engine, nil
		special := *r
		special.env = env
		for _, arguments := range [][]string{{"3"}, nil} { // each a sandbox, since the interpreter is the one kept ready
			s, spec := special.sealedSpec(t)
			dir := hostPath(t, spec.Workspace)
			for name, text := range map[string]string{"main.py": scriptText, "helper.py": "value = 42"} {
				path := filepath.Join(dir, name)
				if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			workspace := r.workspace(t, spec)
			p := kernel.Program{Script: workspace + "/main.py", Args: arguments, Stdin: stdinOf(t, "a b")}
			res := finish(t, start(t, s, p))
			passed := "[]"
			if arguments != nil {
				passed = "['3']"
			}
			want := "__main__ True " + passed + " 42 ['a', 'b']\n[] ['0', '1', '2'] 4\n"
			code := 1
			if arguments != nil {
				code = 3
			}
			if res.stdout != want || res.exit != (kernel.Exit{Code: code}) {
				t.Errorf("engine %q %q: %+v, printed %q, not %q; %s", engine, arguments, res.exit, res.stdout, want, res.stderr)
			}
			if arguments != nil && res.stderr != "error\n" {
				t.Errorf("standard error: %q", res.stderr)
			}
			failed := strings.HasPrefix(res.stderr, "error\nTraceback (most recent call last):\n  File \""+workspace+"/main.py\", line 10,") &&
				strings.HasSuffix(res.stderr, "ValueError: at the end\n")
			if arguments == nil && !failed {
				t.Errorf("engine %q: the traceback is %q", engine, res.stderr)
			}
		}
	}
}

// endText is a program that shows what happens after its last line.
const endText = `
import atexit, gc, os, sys, threading, time
class Noisy:
    def __init__(self, name, write=os.write):
        self.name, self.write = name, write
    def __del__(self):
        self.write(2, b"freed " + self.name + b"\n")
class Importer(Noisy):
    def __del__(self):
        import json
        super().__del__()
class Printer:
    def __del__(self): print("printed last")
gc.disable()
cycle = Importer(b"a cycle")
cycle.itself = cycle
del cycle
gc.enable()
kept = Noisy(b"a global")
printer = Printer()
file = open("file", "w")
file.write("written")
atexit.register(os.write, 2, b"at exit\n")
thread = threading.Thread(target=lambda: (time.sleep(0.1), os.write(2, b"a thread\n")))
thread.start()
sys.stdout.write("printed ")
`

func scriptsEnd(t *testing.T, r *rig) {
	run := func(engine, text string) (result, string) {
		special := *r
		special.env.Engine, special.env.Preload = engine, nil
		s, spec := special.sealedSpec(t)
		dir := hostPath(t, spec.Workspace)
		if err := os.WriteFile(filepath.Join(dir, "main.py"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		res := finish(t, start(t, s, kernel.Program{Script: r.workspace(t, spec) + "/main.py"}))
		written, err := os.ReadFile(filepath.Join(dir, "file"))
		if err != nil {
			t.Fatal(err)
		}
		return res, string(written)
	}
	for _, last := range []string{
		"",
		"sys.exit(7)",
		"sys.exit(-1)",
		"sys.exit('a reason')",
		"sys.kept = Noisy(b'an attribute of sys')",
		"sys.stdout = open('printed', 'w'); print('elsewhere')",
		"thread.join()\nfile.flush()\nif not os.fork(): sys.exit(3)\nos.wait()",
		"os.close(1); sys.stderr = None", // what was printed is lost, and the status says so
	} {
		got, written := run(scriptEngine, endText+last)
		want, wantWritten := run("", endText+last) // an interpreter of its own
		if got.exit != want.exit || got.stdout != want.stdout || got.stderr != want.stderr || written != wantWritten {
			t.Errorf("%q: %+v, and the file has %q; not %+v and %q", last, got, written, want, wantWritten)
		}
		if !strings.Contains(got.stderr, "freed a cycle\n") || written != "written" {
			t.Errorf("%q: %q, and the file has %q", last, got.stderr, written)
		}
	}
}
