package kerneltest

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"talaria/kernel"
)

// addLayer makes a layer with these module files the current layer of a session.
func (r *rig) addLayer(t *testing.T, spec kernel.Spec, name string, files map[string]string) {
	t.Helper()
	packages := hostPath(t, spec.Packages)
	version := r.env.Version[:strings.LastIndex(r.env.Version, ".")]
	for file, content := range files {
		path := filepath.Join(packages, name, "lib/python"+version+"/site-packages", file)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	next := filepath.Join(packages, "next")
	if err := os.Symlink(name, next); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(next, filepath.Join(packages, "current")); err != nil {
		t.Fatal(err)
	}
}

func packagesAreFound(t *testing.T, r *rig) {
	s, spec := r.sealedSpec(t)
	k := runner(t, s)
	k.prints("try:\n    import newcomer\nexcept ImportError as e:\n    print(e)", "No module named 'newcomer'")
	r.addLayer(t, spec, "0001", map[string]string{"newcomer.py": "V = 1\n", "colorsys.py": "raise ValueError\n"})
	k.prints("import importlib; importlib.invalidate_caches()\nimport newcomer, colorsys; print(newcomer.V)", "1")
	k.prints(`import subprocess, sys; print(subprocess.run([sys.executable, "-c", "import newcomer; print(newcomer.V)"], `+
		`capture_output=True, text=True).stdout)`, "1")
	r.prints(t, s, "import newcomer; print(newcomer.V)", "1")

	// A later kernel finds it, whatever its file of paths does.
	s, _ = r.sealedSpec(t, func(spec *kernel.Spec) {
		r.addLayer(t, *spec, "0001", map[string]string{
			"newcomer.py": "V = 1\n", "a.pth": "import sys; sys.exit(1)\n", "b.pth": "inner\n", "inner/deep.py": "V = 2\n",
		})
	})
	k = runner(t, s)
	k.prints("import newcomer, deep; print(newcomer.V, deep.V)", "1 2")
	k.prints(`import os; print(os.environ["PATH"].split(":")[1] == os.environ["TALARIA_PACKAGES"] + "/current/bin")`, "True")
}

// programsAskForPackages makes the program pip ask both in a cell and on its own, and answers in place of the host.
func programsAskForPackages(t *testing.T, r *rig) {
	s := r.sealed(t)
	k := runner(t, s)
	for _, command := range []string{`["pip", "install", "a"]`, `[sys.executable, "-m", "pip", "install", "a"]`} {
		k.send(`import subprocess, sys; r = subprocess.run(` + command + `, capture_output=True, text=True)
print(r.returncode, r.stdout, r.stderr)`)
		k.install(t, "e1", "")
		if got := k.ends(); got != "0 Collecting a" {
			t.Errorf("%s printed %q", command, got)
		}
	}
	p := start(t, s, kernel.Program{Args: []string{"/bin/sh", "-c", "pip install a; echo $?"}})
	k.install(t, "", "there is no a")
	if res := finish(t, p); res.stdout != "Collecting a\n1\n" || res.stderr != "ERROR: there is no a\n" {
		t.Errorf("a program of its own: %+v", res)
	}
}

// install answers a request of that execution.
func (k *kernelRig) install(t *testing.T, execution, failure string) {
	t.Helper()
	f, ok := k.next()
	for ok && f.Type == "stream" && f.Text == "" { // it only carries a mark
		f, ok = k.next()
	}
	if !ok || f.Type != "ask" || f.Kind != "install" || f.ID != execution || fmt.Sprint(f.Body.Requirements) != "[a]" {
		t.Fatalf("%+v where a request of %q was due", f, execution)
	}
	answer := map[string]any{"type": "answer", "ask": f.Ask, "body": map[string]any{"packages": []any{}}}
	if failure != "" {
		answer = map[string]any{"type": "answer", "ask": f.Ask, "error": failure}
	}
	for _, frame := range []map[string]any{{"type": "progress", "ask": f.Ask, "text": "Collecting a\n"}, answer} {
		line, err := json.Marshal(frame)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := k.process.Control().Write(append(line, '\n')); err != nil {
			t.Fatal(err)
		}
	}
}
