package packages_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"talaria/kernel"
	"talaria/kernel/command"
	"talaria/kernel/host"
	"talaria/kernel/kerneltest"
	"talaria/kernel/namespace"
	"talaria/kernel/python"
	"talaria/kernel/record"
	"talaria/kernel/sandbox"
	"talaria/session/index"
	"talaria/session/index/indextest"
)

// installerVariable holds the path of the installer's program for this binary when a test runs it again.
const installerVariable = "SESSION_TEST_INSTALLER"

// sandboxed runs the installer in a kernel of its own, as sessions do, with egress only to the index.
type sandboxed struct {
	*testing.T
	dir   string
	host  *host.Host
	env   kernel.Environment
	index *index.Index
	path  string // of the index's socket
	code  string
	runs  int
}

func newSandboxed(t *testing.T, from *indextest.Index) *sandboxed {
	t.Helper()
	file := os.Getenv(installerVariable)
	if file == "" {
		file = "installer.py"
	}
	source, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	dir := kerneltest.StateDir(t)
	s := &sandboxed{T: t, dir: dir, path: filepath.Join(dir, "index.sock"), code: string(source)}
	s.env, _, err = python.DiscoverEnvironment(t.Context(), python.EnvironmentConfig{Engine: python.EngineStdlib})
	if err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(s.env.Python, "-c", "import pip").CombinedOutput(); err != nil {
		t.Skipf("SKIP: %s has no pip (apt-get install python3-pip): %s", s.env.Python, out)
	}
	s.index, err = index.New(index.Config{URL: from.URL(), CacheDir: filepath.Join(dir, "cache"),
		Proxy: func(*http.Request) (*url.URL, error) { return nil, nil }})
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("unix", s.path)
	if err == nil {
		err = os.Chmod(s.path, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.index.Serve(listener) }()
	backend, err := namespace.New(sandbox.Config{
		Root: filepath.Join(dir, "sessions"), LibDir: filepath.Join(dir, "lib"), CacheDir: filepath.Join(dir, "fonts"),
	})
	if err != nil {
		t.Fatal(err)
	}
	s.host = host.NewHost(host.HostConfig{Backend: backend, SpoolDir: filepath.Join(dir, "spool")})
	t.Cleanup(func() {
		s.index.Close()
		if err := errors.Join(s.host.Close(context.Background()), backend.Close(), <-served); err != nil {
			t.Error(err)
		}
	})
	return s
}

// run runs code in a fresh kernel and returns what it printed, and how it failed.
func (s *sandboxed) run(spec kernel.Spec, code string) (out, failure string) {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), 3*time.Minute)
	defer cancel()
	s.runs++
	key := record.Key{Session: fmt.Sprint("installer", s.runs), Generation: 1}
	if _, err := s.host.Start(ctx, key, s.env, spec); err != nil {
		s.Fatal(err)
	}
	defer func() {
		if err := s.host.Stop(context.WithoutCancel(ctx), key, "done"); err != nil {
			s.Error(err)
		}
		s.host.Ack(key, ^uint64(0))
	}()
	if err := command.Tell(s.Context(), s.host, key, command.Execution{ID: "1", Code: code}); err != nil {
		s.Fatal(err)
	}
	var printed strings.Builder
	for seen := uint64(0); ; {
		batch, err := s.host.Next(ctx, key, seen)
		if err != nil {
			s.Fatalf("%v; so far:\n%s", err, &printed)
		}
		for _, rec := range batch {
			seen = rec.KSeq
			switch body := rec.Body.(type) {
			case record.Stream:
				printed.WriteString(body.Text)
			case record.Raised:
				failure = body.Error.Ename + ": " + body.Error.Evalue
			case record.Died:
				s.Fatalf("the kernel died: %+v", body)
			case record.Finished:
				return printed.String(), failure
			}
		}
	}
}

// install carries out an order in a stage next to the packages of session, and puts the layer in force.
func (s *sandboxed) install(session kernel.Spec, packages string, o order) (out, failure string) {
	s.Helper()
	token, release := s.index.Admit()
	defer release()
	o.Index = index.URL(token)
	encoded, err := json.Marshal(o)
	if err != nil {
		s.Fatal(err)
	}
	stage := kerneltest.NewSpec(s.T, filepath.Join(s.dir, "sessions"), session.UID)
	spec := session
	spec.Workspace, spec.Strict, spec.Hostname = stage.Workspace, true, "talaria"
	spec.Network = kernel.Network{Mode: "allow", Hosts: map[string]string{index.Name: "unix:" + s.path}}
	out, failure = s.run(spec, fmt.Sprintf("import json\nORDER = json.loads(%q)\n%s", encoded, s.code))
	s.Logf("%v: %s\n%s", o.Requirements, failure, out)
	if failure != "" {
		return out, failure
	}
	at, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", stage.Workspace.Fd()))
	if err != nil {
		s.Fatal(err)
	}
	layer := fmt.Sprintf("%04d", s.runs)
	current := filepath.Join(packages, "current")
	_ = os.Remove(current)
	if err := errors.Join(os.Rename(filepath.Join(at, "layer"), filepath.Join(packages, layer)), os.Symlink(layer, current)); err != nil {
		s.Fatal(err)
	}
	return out, ""
}

const withLayer = `
import sys
sys.path.insert(0, f"/packages/current/lib/python{sys.version_info[0]}.{sys.version_info[1]}/site-packages")
`

func TestInstallersWorkInSandboxes(t *testing.T) {
	t.Parallel()
	from := indextest.Standard(t)
	s := newSandboxed(t, from)
	compiled, why := indextest.Compiled(t, s.env.Python)
	if why != "" {
		t.Logf("SKIP: no compiled extension: %s", why)
	} else {
		from.Add("cext", compiled)
	}
	session := kerneltest.NewSpec(t, filepath.Join(s.dir, "sessions"), 1900000200)
	packages, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", session.Packages.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	asked := []string{"greet==1.0", "paper"}
	if why == "" {
		asked = append(asked, "cext")
	}
	if out, failure := s.install(session, packages, order{Requirements: asked}); failure != "" || !strings.Contains(out, "Successfully installed") {
		t.Fatal(failure)
	}
	if _, failure := s.install(session, packages, order{Requirements: []string{"greet", "numpy"}, Upgrade: true}); failure != "" {
		t.Fatal(failure)
	}
	out, failure := s.run(session, withLayer+"import greet, numpy, paper; print(greet.__version__, numpy.__version__, paper.__version__)")
	if failure != "" || out != "2.0 99.0 1.0\n" {
		t.Errorf("%q %s", out, failure)
	}
	if out, failure := s.run(session, withLayer+"import cext; print(cext.answer())"); why == "" && (failure != "" || out != "42\n") {
		t.Errorf("the extension: %q %s", out, failure)
	}
	if _, failure := s.install(session, packages, order{Remove: true, Requirements: []string{"numpy"}}); failure != "" {
		t.Error(failure)
	}
	out, failure = s.run(session, withLayer+"import numpy; print(numpy.__version__ != '99.0')")
	if failure != "" || out != "True\n" {
		t.Errorf("%q %s", out, failure)
	}
	if _, failure := s.install(session, packages, order{Remove: true, Requirements: []string{"numpy"}}); !strings.Contains(failure, "belongs to the environment") {
		t.Errorf("numpy of the environment: %s", failure)
	}
}

func TestBuildsReachNothingButTheIndex(t *testing.T) {
	t.Parallel()
	s := newSandboxed(t, indextest.Standard(t))
	if out, err := exec.Command(s.env.Python, "-c", "import setuptools, wheel").CombinedOutput(); err != nil {
		t.Skipf("SKIP: no setuptools and wheel (apt-get install python3-setuptools python3-wheel): %s", out)
	}
	session := kerneltest.NewSpec(t, filepath.Join(s.dir, "sessions"), 1900000201)
	packages, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", session.Packages.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	if _, failure := s.install(session, packages, order{Requirements: []string{"trojan"}}); failure != "" {
		t.Fatal(failure)
	}
	out, failure := s.run(session, withLayer+"import json, trojan; print(json.dumps(trojan.findings))")
	var found map[string]string
	if err := json.Unmarshal([]byte(out), &found); err != nil {
		t.Fatalf("%v %q %s", err, out, failure)
	}
	for _, what := range []string{"loopback", "private", "metadata", "public", "name", "shadow", "usr", "layer"} {
		if !strings.HasPrefix(found[what], "refused: ") {
			t.Errorf("the build found %s: %s", what, found[what])
		}
	}
	links, err := filepath.Glob(filepath.Join(packages, "current", "lib", "python3.*", "site-packages", "leads_*"))
	if err != nil || len(links) != 2 {
		t.Errorf("the build left %v (%v)", links, err)
	}
	if found["sockets"] != "[]" || found["uid"] == "0" && os.Geteuid() != 0 {
		t.Errorf("the build found %v", found)
	}
}

func TestInstallersWorkForAnOrdinaryUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("these tests run as an ordinary user already")
	}
	if testing.Short() {
		t.Skip("runs tests for a second time")
	}
	t.Parallel()
	dir := kerneltest.StateDir(t)
	source, err := os.ReadFile("installer.py")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "installer.py")
	if err := os.WriteFile(file, source, 0o644); err != nil {
		t.Fatal(err)
	}
	cmd := kerneltest.Again(t, true, dir, "-test.v", "-test.timeout=5m", "-test.run=^(TestInstallersWorkInSandboxes|TestBuildsReach.*)$")
	cmd.Env = append(cmd.Env, installerVariable+"="+file)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("as an ordinary user: %v\n%s", err, out)
	}
}
