package sdk

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"talaria/api"
)

func TestPackingTheSameSourcesGivesTheSameBytes(t *testing.T) {
	first, err := Files()
	if err != nil {
		t.Fatal(err)
	}
	second, err := Files()
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range first {
		if len(data) == 0 || !bytes.Equal(data, second[name]) {
			t.Errorf("%s differs between two runs, or is empty", name)
		}
	}
}

func TestVersionIsTheSameEverywhere(t *testing.T) {
	var manifest struct{ Version string }
	data, err := os.ReadFile("typescript/package.json")
	if err != nil || json.Unmarshal(data, &manifest) != nil || manifest.Version != Version {
		t.Errorf("package.json has version %q, not %s (%v)", manifest.Version, Version, err)
	}
	python, err := os.ReadFile("python/talaria/__init__.py")
	if err != nil || !strings.Contains(string(python), `__version__ = "`+Version+`"`) {
		t.Errorf("__init__.py lacks version %s (%v)", Version, err)
	}
	project, err := os.ReadFile("python/pyproject.toml")
	if err != nil || !strings.Contains(string(project), `version = "`+Version+`"`) {
		t.Errorf("pyproject.toml lacks version %s (%v)", Version, err)
	}
}

func TestPythonPackageParsesAsPython39(t *testing.T) {
	python(t, "", "-c", `
import ast, pathlib
files = sorted(pathlib.Path("python/talaria").glob("*.py"))
assert files
for file in files:
    ast.parse(file.read_text(), str(file), feature_version=(3, 9))
`)
}

func TestPipInstallsThePythonPackageWithoutAnIndex(t *testing.T) {
	source, target := filepath.Join(t.TempDir(), "python"), t.TempDir()
	if err := os.CopyFS(source, os.DirFS("python")); err != nil { // the build leaves files beside the sources
		t.Fatal(err)
	}
	python(t, "", "-m", "pip", "install", "--quiet", "--no-index", "--no-build-isolation", "--target", target, source)
	if _, err := os.Stat(filepath.Join(target, "talaria", "py.typed")); err != nil {
		t.Errorf("the installed package lacks its type marker: %v", err)
	}
	got := python(t, target, "-c", `import talaria; print(talaria.__file__, talaria.__version__)`)
	if want := filepath.Join(target, "talaria", "__init__.py") + " " + Version; strings.TrimSpace(got) != want {
		t.Errorf("imported %q, want %q", got, want)
	}
}

// python runs the distribution's Python, with path as PYTHONPATH, and returns its output.
func python(t *testing.T, path string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "/usr/bin/python3", args...)
	cmd.Env = append(os.Environ(), "PYTHONPATH="+path)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("python3 %s: %v\n%s", args[0], err, out)
	}
	return string(out)
}

// node runs a script, which is given the compiled client, and returns its output.
func node(t *testing.T, script string) ([]byte, error) {
	t.Helper()
	if err := exec.Command("node", "-e", "if (parseInt(process.versions.node) < 20) process.exit(1)").Run(); err != nil {
		t.Skip("SKIP: node 20 or newer is not installed")
	}
	module, err := filepath.Abs("typescript/dist/talaria.js")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	return exec.CommandContext(ctx, "node", script, module).CombinedOutput()
}

func TestAFileObjectIsNotUploadedEmptyAfterABusyAnswer(t *testing.T) {
	python(t, "python", "testdata/busyupload.py")
}

func TestARefusedUploadSaysWhy(t *testing.T) {
	python(t, "python", "testdata/refusedupload.py")
}

func TestADeadServerIsNoticedWithinAboutAMinute(t *testing.T) {
	python(t, "python", "testdata/deadserver.py")
}

func TestASlowUploadSucceeds(t *testing.T) {
	python(t, "python", "testdata/slowupload.py")
}

func TestACancelledCallEndsAlthoughTheServerIsAway(t *testing.T) {
	python(t, "python", "testdata/cancelaway.py")
	if out, err := node(t, "testdata/cancelaway.mjs"); err != nil || string(out) != "enough true 1\n" {
		t.Errorf("%v: %s", err, out)
	}
}

func TestARejectedToolLeavesTheOthersWorkingAndUnknownOnesAreAnswered(t *testing.T) {
	python(t, "python", "testdata/rejectedtool.py")
	if out, err := node(t, "testdata/unknowntool.mjs"); err != nil || string(out) != "c the client does not provide the tool gone any more\n" {
		t.Errorf("%v: %s", err, out)
	}
}

func TestAFailingAnswerInterruptsTheCell(t *testing.T) {
	python(t, "python", "testdata/failinginput.py")
	if out, err := node(t, "testdata/failinginput.mjs"); err != nil || string(out) != "no answer 1\n" {
		t.Errorf("%v: %s", err, out)
	}
}

func TestTheTypesOfAnExecutionHaveEveryFieldOfTheAPI(t *testing.T) {
	data, err := os.ReadFile("typescript/src/events.ts")
	if err != nil {
		t.Fatal(err)
	}
	_, declared, _ := strings.Cut(string(data), "export interface RawExecution {")
	execution := reflect.TypeFor[api.Execution]()
	for i := range execution.NumField() {
		name, options, _ := strings.Cut(execution.Field(i).Tag.Get("json"), ",")
		if options == "omitzero" {
			name += "?"
		}
		if !strings.Contains(declared, "\n  "+name+": ") {
			t.Errorf("RawExecution lacks %s", name)
		}
	}
	if !strings.Contains(string(data), "\n  values: Record<string, any>;") {
		t.Error("the names of a client's expressions are not any names")
	}
}

func TestModuleIsOneFile(t *testing.T) {
	files, err := Files()
	if err != nil {
		t.Fatal(err)
	}
	if regexp.MustCompile(`(?m)^\s*import\b|\bimport\(`).Match(files[Module]) {
		t.Error("talaria.js imports another file; pages load it alone")
	}
}

// TestAnAnswerWaitsForTheNextConnection holds for the time between the loss of a socket and its close event.
func TestAnAnswerWaitsForTheNextConnection(t *testing.T) {
	if out, err := node(t, "testdata/lostsocket.mjs"); err != nil || !bytes.HasSuffix(out, []byte("2\n")) {
		t.Errorf("%v: %s", err, out)
	}
}
