package packages_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"talaria/session/index"
	"talaria/session/index/indextest"
)

// order is the installer's input.
type order struct {
	Index        string   `json:"index"`
	Remove       bool     `json:"remove"`
	Requirements []string `json:"requirements"`
	Upgrade      bool     `json:"upgrade"`
	Reinstall    bool     `json:"reinstall"`
	NoDeps       bool     `json:"no_deps"`
	Pre          bool     `json:"pre"`
	Quiet        bool     `json:"quiet"`
}

// installers run the installer's program unmodified, but without a sandbox: on a Python of this machine, with the
// layers and the stage in a temporary directory, and an index of ours on loopback.
type installers struct {
	*testing.T
	python  string
	present string // the link to the layer
	code    string
	index   *index.Index
	address string
	layers  int
	env     []string
}

func newInstallers(t *testing.T, python string, from *indextest.Index, changes ...func(*index.Config)) *installers {
	t.Helper()
	cfg := index.Config{URL: from.URL(), CacheDir: t.TempDir(), Proxy: func(*http.Request) (*url.URL, error) { return nil, nil }}
	for _, change := range changes {
		change(&cfg)
	}
	ix, err := index.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- ix.Serve(l) }()
	t.Cleanup(func() {
		ix.Close()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	source, err := os.ReadFile("installer.py")
	if err != nil {
		t.Fatal(err)
	}
	i := &installers{T: t, python: python, present: filepath.Join(t.TempDir(), "current"), index: ix, address: l.Addr().String()}
	const place = `PRESENT = "/packages/current"`
	if !strings.Contains(string(source), place) {
		t.Fatal("the installer names another place")
	}
	i.code = strings.Replace(string(source), place, fmt.Sprintf("PRESENT = %q", i.present), 1)
	i.env = []string{"PATH=/usr/bin:/bin", "HOME=" + t.TempDir(), "LANG=C.UTF-8"}
	return i
}

// run carries out an order and puts the resulting layer, if there is one, in force.
func (i *installers) run(o order) (out, failure string) {
	i.Helper()
	token, release := i.index.Admit()
	defer release()
	o.Index = "http://" + i.address + "/" + token + "/simple/"
	encoded, err := json.Marshal(o)
	if err != nil {
		i.Fatal(err)
	}
	stage := i.TempDir()
	code := filepath.Join(i.TempDir(), "cell.py")
	text := fmt.Sprintf("import json\nORDER = json.loads(%q)\n%s", encoded, i.code)
	if err := os.WriteFile(code, []byte(text), 0o600); err != nil {
		i.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(i.Context(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, i.python, "-I", code)
	cmd.Dir, cmd.Env = stage, i.env
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err = cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		i.Fatal(err)
	}
	if strings.Contains(stdout.String()+stderr.String(), token) {
		i.Errorf("the token is told:\n%s%s", &stdout, &stderr)
	}
	if err != nil {
		if failure = strings.TrimSpace(stderr.String()); failure == "" {
			failure = err.Error()
		}
		return stdout.String(), failure
	}
	entries, err := os.ReadDir(stage)
	if err != nil {
		i.Fatal(err)
	}
	for _, e := range entries {
		if e.Name() != "layer" {
			i.Errorf("%s is left in the stage", e.Name())
			continue
		}
		i.layers++
		layer := fmt.Sprintf("%s-%d", i.present, i.layers)
		_ = os.Remove(i.present)
		if err := errors.Join(os.Rename(filepath.Join(stage, "layer"), layer), os.Symlink(layer, i.present)); err != nil {
			i.Fatal(err)
		}
	}
	return stdout.String(), ""
}

func (i *installers) ok(o order) (out string) {
	i.Helper()
	before := i.layers
	out, failure := i.run(o)
	if failure != "" {
		i.Errorf("%v: %s\n%s", o.Requirements, failure, out)
	}
	i.Logf("%v: %d layers, was %d\n%s", o.Requirements, i.layers, before, out)
	return out
}

// fails checks that an order fails with a last line that contains these texts, and that no layer results.
func (i *installers) fails(o order, want ...string) (out string) {
	i.Helper()
	before := i.layers
	out, failure := i.run(o)
	for _, w := range want {
		if !strings.Contains(failure, w) {
			i.Errorf("%v: %q is not in %q\n%s", o.Requirements, w, failure, out)
		}
	}
	if strings.Contains(failure, "Traceback") || strings.Contains(failure, "\n") || i.layers != before {
		i.Errorf("%v: %d layers, was %d; %s", o.Requirements, i.layers, before, failure)
	}
	i.Logf("%v: %s\n%s", o.Requirements, failure, out)
	return out
}

func (i *installers) site() string {
	found, err := filepath.Glob(filepath.Join(i.present, "lib", "python3.*", "site-packages"))
	if err != nil || len(found) != 1 {
		i.Fatalf("the layer's packages are in %v (%v)", found, err)
	}
	return found[0]
}

// prints checks the output of a program that has the layer as kernels have it.
func (i *installers) prints(code, want string) {
	i.Helper()
	cmd := exec.CommandContext(i.Context(), i.python, "-c", code)
	cmd.Env = append([]string{"PYTHONPATH=" + i.site()}, i.env...)
	out, err := cmd.CombinedOutput()
	if got := strings.TrimSpace(string(out)); err != nil || got != want {
		i.Errorf("%s\nprints %s (%v), want %s", code, got, err, want)
	}
}

const system = "/usr/bin/python3"

// eachPip runs a test with the system's Python, which Debian keeps others from installing into, and with the Python on
// the PATH if that is another one; with -short only the former.
func eachPip(t *testing.T, test func(t *testing.T, python string)) {
	if out, err := exec.Command(system, "-c", "import pip").CombinedOutput(); err != nil {
		t.Skipf("SKIP: %s has no pip (apt-get install python3-pip): %s", system, out)
	}
	t.Run("system", func(t *testing.T) { t.Parallel(); test(t, system) })
	if testing.Short() {
		return
	}
	const described = "import pip, sys; assert sys.version_info >= (3, 11); print(sys.executable)"
	out, err := exec.Command("python3", "-c", described).Output()
	if python := strings.TrimSpace(string(out)); err == nil && python != system {
		t.Run("path", func(t *testing.T) { t.Parallel(); test(t, python) })
	}
}

// eachPython is eachPip with a virtual environment too, except with -short.
func eachPython(t *testing.T, test func(t *testing.T, python string)) {
	eachPip(t, test)
	if testing.Short() {
		return
	}
	t.Run("venv", func(t *testing.T) {
		t.Parallel()
		dir := filepath.Join(t.TempDir(), "venv")
		if out, err := exec.CommandContext(t.Context(), system, "-m", "venv", dir).CombinedOutput(); err != nil {
			t.Skipf("SKIP: there are no virtual environments here (apt-get install python3-venv): %s", out)
		}
		test(t, filepath.Join(dir, "bin", "python3"))
	})
}

func TestInstallersMakeLayers(t *testing.T) {
	eachPython(t, func(t *testing.T, python string) {
		from := indextest.Standard(t)
		i := newInstallers(t, python, from)
		out := i.ok(order{Requirements: []string{"greet==1.0", "parcel<1.2"}})
		for _, want := range []string{"Downloading greet-1.0-py3-none-any.whl (", "Successfully installed greet-1.0 parcel-1.0"} {
			if !strings.Contains(out, want) {
				t.Errorf("%q is not in\n%s", want, out)
			}
		}
		i.prints("import greet, parcel; print(greet.__version__, parcel.__version__)", "1.0 1.0")
		script, err := os.ReadFile(filepath.Join(i.present, "bin", "greet"))
		if err != nil || !strings.HasPrefix(string(script), "#!"+python+"\n") {
			t.Errorf("the script is %s (%v)", script, err)
		}
		if compiled, err := filepath.Glob(filepath.Join(i.site(), "__pycache__", "greet.*.pyc")); err != nil || len(compiled) != 1 {
			t.Errorf("compiled are %v (%v)", compiled, err)
		}

		if out := i.ok(order{Requirements: []string{"greet"}}); i.layers != 1 || !strings.Contains(out, "already satisfied") {
			t.Errorf("%d layers\n%s", i.layers, out)
		}
		i.ok(order{Requirements: []string{"old-parcel", "paper"}})
		i.prints("import greet, old_parcel, paper; print(paper.__version__)", "1.0")

		out = i.ok(order{Requirements: []string{"greet"}, Upgrade: true})
		if !strings.Contains(out, "WARNING: old-parcel 1.0 has requirement parcel<1.2, but you have parcel 1.5") {
			t.Errorf("the conflict is not told:\n%s", out)
		}
		i.prints("import greet, parcel; print(greet.__version__, parcel.__version__)", "2.0 1.5")
		if left, err := filepath.Glob(filepath.Join(i.site(), "*-1.0.dist-info")); err != nil || len(left) != 2 { // old-parcel, paper
			t.Errorf("of the old versions there is %v (%v)", left, err)
		}
		i.ok(order{Requirements: []string{"greet"}, Upgrade: true, Pre: true, Quiet: true})
		i.prints("import greet; print(greet.__version__)", "3.0rc1")

		out = i.ok(order{Remove: true, Requirements: []string{"Greet", "old_parcel", "nothing-there"}})
		if !strings.Contains(out, "nothing-there is not installed") || !strings.Contains(out, "Successfully uninstalled greet-3.0rc1 old-parcel-1.0") {
			t.Errorf("it said %s", out)
		}
		i.prints("import importlib.util as u; print([u.find_spec(m) is None for m in ('greet', 'old_parcel', 'paper', 'parcel')])",
			"[True, True, False, False]")
		if _, err := os.Lstat(filepath.Join(i.present, "bin", "greet")); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("the script is there: %v", err)
		}
	})
}

func TestManyPackagesCanBeFollowed(t *testing.T) {
	t.Parallel()
	if out, err := exec.Command(system, "-c", "import pip").CombinedOutput(); err != nil {
		t.Skipf("SKIP: %s has no pip (apt-get install python3-pip): %s", system, out)
	}
	i := newInstallers(t, system, indextest.Standard(t))
	out := i.ok(order{Requirements: []string{"bundle"}})
	if downloads := strings.Count(out, "  Downloading part_"); downloads != 20 || strings.Count(out, "\n") > 45 {
		t.Errorf("%d downloads are shown:\n%s", downloads, out)
	}
	if out := i.ok(order{Requirements: []string{"bundle"}, Reinstall: true, Quiet: true}); strings.Count(out, "\n") != 1 {
		t.Errorf("quietly it says\n%s", out)
	}
}

func TestInstallersFailWithTheReasonAndNoLayer(t *testing.T) {
	eachPip(t, func(t *testing.T, python string) {
		from := indextest.Standard(t)
		i := newInstallers(t, python, from, func(c *index.Config) { c.Deny, c.FileBytes = []string{"secret"}, 50_000 })
		i.ok(order{Requirements: []string{"parcel"}})
		i.fails(order{Requirements: []string{"greet", "needs-secret"}}, "secret is refused: the operator's packages.deny lists it", "nothing was changed")
		i.fails(order{Requirements: []string{"is-nowhere"}}, "the package index has no project is-nowhere")
		i.fails(order{Requirements: []string{"missing-part"}}, "the package index has no project is-nowhere")
		i.fails(order{Requirements: []string{"greet>9"}}, "greet>9: there is no such version", "1.0, 2.0")
		i.fails(order{Requirements: []string{"wrong-hash"}}, "does not match the package index")
		i.fails(order{Requirements: []string{"huge"}}, "is larger than")
		i.fails(order{Requirements: []string{"elsewhere"}}, "is not part of the public network")
		i.fails(order{Requirements: []string{"old-parcel", "greet==2.0"}}, "cannot be installed together")
		out := i.fails(order{Requirements: []string{"torn"}}, "torn could not be built")
		if !strings.Contains(out, "the paper is torn") || !strings.Contains(out, "crack 999") || strings.Contains(out, "crack 500") {
			t.Errorf("of its build is shown\n%s", out)
		}
		for _, bad := range []string{"./greet", "greet @ http://x/y.whl", "-r x", "--index-url=x", "git+https://x/y", "greet-1.0.whl", "", "a\nb"} {
			i.fails(order{Requirements: []string{bad}}, "is not a package name")
		}
		i.prints("import parcel; print(parcel.__version__)", "1.5")
		from.Close()
		i.fails(order{Requirements: []string{"greet"}}, "greet: no package index was reachable; an operator can set one with packages.index")
	})
}

func TestABuildThatLeavesAProcessBehindIsDone(t *testing.T) {
	t.Parallel()
	from := indextest.Standard(t)
	from.Add("clingy", indextest.Built("clingy", "1.0", "clingy", "x = 1\n",
		"import subprocess\nsubprocess.Popen(['sleep', '200'], start_new_session=True)\n"))
	i := newInstallers(t, "/usr/bin/python3", from)
	began := time.Now()
	if out, failure := i.run(order{Requirements: []string{"clingy"}}); failure != "" || !strings.Contains(out, "Successfully installed clingy") {
		t.Errorf("%s\n%s", failure, out)
	}
	if took := time.Since(began); took > 2*time.Minute {
		t.Errorf("it took %v", took)
	}
}
