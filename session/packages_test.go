package session_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"talaria/api"
	"talaria/kernel/kerneltest"
	"talaria/session"
	"talaria/session/packages"
)

// fakeIndex is an index whose tokens are counted.
type fakeIndex struct{ in, out chan string }

func (f fakeIndex) Admit() (string, func()) {
	f.in <- "token"
	return "token", func() { f.out <- "token" }
}

var asked = regexp.MustCompile(`\\"requirements\\":\[\\"([^\\]*)\\"`)

// packaged returns a rig whose kernels install what their cells name, and whose installers do as the requirement says.
func packaged(t *testing.T, tweak func(*session.Config)) (*rig, fakeIndex) {
	t.Helper()
	var r *rig
	index := fakeIndex{make(chan string, 64), make(chan string, 64)}
	stage := func(parts ...string) string {
		dirs, _ := filepath.Glob(filepath.Join(r.dir, "sessions", "*", "stage"))
		if len(dirs) != 1 {
			return "/nonexistent"
		}
		return filepath.Join(append([]string{dirs[0]}, parts...)...)
	}
	r = newRig(t, func(c *kerneltest.Cell) {
		switch {
		case strings.HasPrefix(c.Code, "import json\nORDER = "):
			install(c, asked.FindStringSubmatch(c.Code)[1], stage)
		case strings.HasPrefix(c.Code, "outside "):
			c.AskInstall("", strings.TrimPrefix(c.Code, "outside "))
			answer := c.Answer()
			for answer.Type != "answer" {
				answer = c.Answer()
			}
			c.Print("failure " + answer.Error + "\n")
		default:
			name := strings.Trim(strings.TrimPrefix(strings.TrimPrefix(c.Code, "%pip install "), "install "), "'")
			output, failure, ok := c.Install(name)
			if !ok {
				c.Raise("KeyboardInterrupt", "")
				return
			}
			c.Print(output + "failure " + failure + "\n")
		}
	}, func(c *session.Config) {
		c.Packages = packages.Config{
			Index:  func(context.Context) (packages.Index, error) { return index, nil },
			Socket: filepath.Join(filepath.Dir(c.SessionsDir), "packages.sock"), MaxBytes: 1 << 30, Timeout: packages.DefaultTimeout,
		}
		if tweak != nil {
			tweak(c)
		}
	})
	return r, index
}

// install does what an installer does for a requirement.
func install(c *kerneltest.Cell, requirement string, stage func(...string) string) {
	c.Print("looking for " + requirement + "\n")
	name, version, _ := strings.Cut(requirement, "==")
	switch name {
	case "missing":
		c.Raise("SystemExit", "there is no missing")
	case "broken":
		c.Raise("ValueError", "no idea")
	case "wait":
		c.Stuck()
	case "killed":
		c.Exit(3)
	case "link":
		if err := os.Symlink("/etc", stage("layer")); err != nil {
			c.Raise("OSError", err.Error())
		}
	case "present":
	case "loud":
		for range 300 {
			c.Print(strings.Repeat("x", 1023) + "\n")
		}
	default:
		site := stage("layer", "lib", "python3.11", "site-packages")
		if err := errors.Join(os.MkdirAll(filepath.Join(site, name+"-"+version+".dist-info"), 0o755),
			os.WriteFile(filepath.Join(site, name+".py"), []byte("version = "+version), 0o644)); err != nil {
			c.Raise("OSError", err.Error())
		}
	}
}

// layer returns the files of the layer in force, by name; nil if there is none.
func (r *rig) layer(t *testing.T) (names []string) {
	t.Helper()
	places, err := filepath.Glob(filepath.Join(r.dir, "sessions", "*", "packages", "current", "lib", "*", "site-packages", "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range places {
		names = append(names, filepath.Base(p))
	}
	return names
}

// tidy checks that nothing of an installation is left except its layer.
func (r *rig) tidy(t *testing.T, index fakeIndex) {
	t.Helper()
	if stages, _ := filepath.Glob(filepath.Join(r.dir, "sessions", "*", "stage")); len(stages) > 0 {
		t.Errorf("left: %v", stages)
	}
	if layers, _ := filepath.Glob(filepath.Join(r.dir, "sessions", "*", "packages", "[0-9]*")); len(layers) > 1 {
		t.Errorf("layers: %v", layers)
	}
	if len(index.in) != len(index.out) {
		t.Errorf("%d installations let in, and %d out", len(index.in), len(index.out))
	}
}

func TestPackagesAreInstalledIntoASession(t *testing.T) {
	r, index := packaged(t, nil)
	s := r.session(api.SessionRequest{})
	for _, step := range []struct {
		requirement, says string
		ok                bool
		layer             []string
	}{
		{"missing", "looking for missing\nfailure there is no missing\n", false, nil},
		{"a==1", "looking for a==1\nfailure \n", true, []string{"a-1.dist-info", "a.py"}},
		{"broken", "looking for broken\nfailure the installer failed: ValueError: no idea\n", false, []string{"a-1.dist-info", "a.py"}},
		{"killed", "looking for killed\nfailure the installer died (exit:3); nothing was changed\n", false, []string{"a-1.dist-info", "a.py"}},
		{"link", "looking for link\nfailure the installer could not be started; the cause is in the server's log\n", false,
			[]string{"a-1.dist-info", "a.py"}},
		{"present", "looking for present\nfailure \n", true, []string{"a-1.dist-info", "a.py"}},
		{"a==2", "looking for a==2\nfailure \n", true, []string{"a-2.dist-info", "a.py"}},
	} {
		e := execute(t, s, "install "+step.requirement)
		if e.Text != step.says {
			t.Errorf("%s says %q, want %q", step.requirement, e.Text, step.says)
		}
		if diff := cmp.Diff(step.layer, r.layer(t)); diff != "" {
			t.Errorf("after %s: %s", step.requirement, diff)
		}
		var told []api.PackageInstalled
		for _, event := range now(t, s) {
			if b, ok := event.Body.(api.PackageInstalled); ok && event.ExecutionID == e.ID {
				told = append(told, b)
			}
		}
		if diff := cmp.Diff([]api.PackageInstalled{{Requirements: []string{step.requirement}, OK: step.ok}}, told); diff != "" {
			t.Errorf("%s: %s", step.requirement, diff)
		}
		r.tidy(t, index)
	}
}

// A server that is killed, or an interrupt at the wrong time, can leave a layer that is no longer in force.
func TestLayersThatAreNoLongerInForceGoWithTheNextInstallation(t *testing.T) {
	r, index := packaged(t, nil)
	s := r.session(api.SessionRequest{})
	execute(t, s, "install a==1")
	execute(t, s, "install a==2")
	current, err := filepath.Glob(filepath.Join(r.dir, "sessions", "*", "packages", "current"))
	if err != nil || len(current) != 1 {
		t.Fatal(current, err)
	}
	if err := os.MkdirAll(filepath.Join(filepath.Dir(current[0]), "0001", "lib"), 0o755); err != nil {
		t.Fatal(err)
	}
	execute(t, s, "install a==3")
	if diff := cmp.Diff([]string{"a-3.dist-info", "a.py"}, r.layer(t)); diff != "" {
		t.Error(diff)
	}
	r.tidy(t, index)
}

func TestWhatAnInstallerPrintsIsBoundedAndSaidSo(t *testing.T) {
	r, _ := packaged(t, nil)
	var text strings.Builder
	for _, o := range execute(t, r.session(api.SessionRequest{}), "install loud").Outputs {
		text.WriteString(o.Text)
	}
	const notice = "[further output of the installer was left out]"
	if n := strings.Count(text.String(), notice); n != 1 || text.Len() > 257<<10 || !strings.HasSuffix(text.String(), "failure \n") {
		t.Errorf("%d notices in %d bytes", n, text.Len())
	}
}

// A request from inside has passed no check of ours.
func TestWhatIsNoRequirementIsRefused(t *testing.T) {
	r, _ := packaged(t, nil)
	s := r.session(api.SessionRequest{})
	for _, bad := range []string{
		"--index-url=http://evil/", "-r/etc/passwd", "../x", "/tmp/x.whl", "a @ http://evil/a.whl", "git+https://evil/a", ".", "a\n-e .",
		"a;\n", "${HOME}", "a{b}", "http://evil/a.whl", "a b", "a --pre",
	} {
		if e := execute(t, s, "install "+bad); !strings.Contains(e.Text, "is not a requirement such as") {
			t.Errorf("%q: %q", bad, e.Text)
		}
		_, err := r.InstallRequest(api.PackagesRequest{Requirements: []string{bad}})
		wantCode(t, err, api.CodeInvalidRequest, "is not a requirement such as")
	}
	for _, good := range []string{
		"a", "A.b-c_d9", "a==1.0", "a>=1,<2", "a ~= 1.4.2", "a[x,y-z]>=1.0; python_version < '3.12' and os_name == \"posix\"", "a!=1.*", "a (>=2)",
		"a==1!2.0+local",
	} {
		if _, err := r.InstallRequest(api.PackagesRequest{Requirements: []string{good}}); err != nil {
			t.Errorf("%q: %v", good, err)
		}
	}
	req, err := r.InstallRequest(api.PackagesRequest{Requirements: []string{"a", "b>=1; os_name=='posix'"}})
	if want := `%pip install a 'b>=1; os_name=='"'"'posix'"'"''`; err != nil || *req.Code != want {
		t.Errorf("%v, %q, want %q", err, *req.Code, want)
	}
}

// However its asker ends, an installation ends with it.
func TestAnInstallationEndsWithItsAsker(t *testing.T) {
	for name, end := range map[string]func(*rig, *session.Session) error{
		"interrupted": func(_ *rig, s *session.Session) error { return s.Interrupt(context.Background(), "") },
		"reset":       func(_ *rig, s *session.Session) error { return s.Reset(context.Background(), api.ResetRequest{}) },
		"deleted":     func(r *rig, _ *session.Session) error { return r.Delete(context.Background(), "ann", "x") },
	} {
		t.Run(name, func(t *testing.T) {
			r, index := packaged(t, nil)
			s := r.session(api.SessionRequest{ID: ptr("x")})
			execute(t, s, "install a==1")
			id := submit(t, s, "install wait")
			<-index.in // the one of a
			<-index.out
			<-index.in
			if err := end(r, s); err != nil {
				t.Fatal(err)
			}
			if name != "deleted" {
				wait(t, s, id)
				execute(t, s, "install b==1")
				<-index.in
				<-index.out
				if diff := cmp.Diff([]string{"b-1.dist-info", "b.py"}, r.layer(t)); diff != "" { // the fake keeps nothing
					t.Error(diff)
				}
			}
			<-index.out
			r.tidy(t, index)
			if keys, err := r.host.Kernels(t.Context()); err != nil || len(keys) > 1 {
				t.Errorf("kernels: %v, %v", keys, err)
			}
		})
	}
}

// The next server tells the asker that nothing came of it, and ends the previous server's installer.
func TestAnInstallationDoesNotOutliveItsServer(t *testing.T) {
	for name, end := range endings {
		t.Run(name, func(t *testing.T) {
			r, index := packaged(t, nil)
			s := r.session(api.SessionRequest{ID: ptr("x")})
			id := submit(t, s, "install wait")
			<-index.in
			end(r)
			dirs, err := filepath.Glob(filepath.Join(r.dir, "sessions", "*", "packages"))
			if err != nil || len(dirs) != 1 {
				t.Fatal(dirs, err)
			}
			stage := filepath.Join(filepath.Dir(dirs[0]), "stage")
			if err := os.MkdirAll(filepath.Join(stage, "tmp"), 0o700); err != nil { // as a process that is killed leaves it
				t.Fatal(err)
			}
			r.open()
			if _, err := os.Stat(stage); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("the stage is left: %v", err)
			}
			s, err = r.Get("ann", "x")
			if err != nil {
				t.Fatal(err)
			}
			if e := wait(t, s, id); e.Status != api.StatusOK || !strings.Contains(e.Text, "the server is restarting; nothing was changed") {
				t.Errorf("%s, %q", e.Status, e.Text)
			}
			if e := execute(t, s, "install a==1"); !strings.HasSuffix(e.Text, "failure \n") {
				t.Errorf("the next one says %q", e.Text)
			}
			if keys, err := r.host.Kernels(t.Context()); err != nil || len(keys) > 1 {
				t.Errorf("kernels: %v, %v", keys, err)
			}
		})
	}
}

func TestASessionComesWithItsPackages(t *testing.T) {
	r, _ := packaged(t, nil)
	s := r.session(api.SessionRequest{ID: ptr("x"), Packages: &[]string{"a==1"}})
	e := execute(t, s, "install b==1")
	if *e.ExecutionCount != 1 {
		t.Errorf("the first cell has number %d", *e.ExecutionCount)
	}
	first := now(t, s)[1]
	if queued, ok := first.Body.(api.ExecutionQueued); !ok || queued.Code != "%pip install 'a==1'" {
		t.Fatalf("the log begins with %+v", first)
	}
	if e, err := s.Executions().Get(t.Context(), first.ExecutionID); err != nil || e.Status != api.StatusOK || e.ExecutionCount != nil {
		t.Errorf("%+v, %v", e, err)
	}
	if _, _, err := r.Ensure(t.Context(), "ann", "x", api.SessionRequest{Packages: &[]string{"a==1"}}, ""); err != nil {
		t.Error(err)
	}
	_, _, err := r.Ensure(t.Context(), "ann", "x", api.SessionRequest{Packages: &[]string{"a==2"}}, "")
	wantCode(t, err, api.CodeSessionConflict, "packages")

	if err := s.Reset(t.Context(), api.ResetRequest{}); err != nil || len(r.layer(t)) == 0 {
		t.Errorf("after a reset: %v, %v", r.layer(t), err)
	}
	if err := s.Reset(t.Context(), api.ResetRequest{KeepPackages: ptr(false)}); err != nil || len(r.layer(t)) > 0 {
		t.Errorf("after a reset without packages: %v, %v", r.layer(t), err)
	}
	if e := execute(t, s, "outside c==1"); e.Text != "failure \n" || len(r.layer(t)) == 0 {
		t.Errorf("outside of a cell: %q, %v", e.Text, r.layer(t))
	}
}

func TestTheCodeOfASessionThatIsNotMadeWaitsNowhere(t *testing.T) {
	r, _ := packaged(t, nil)
	req := api.SessionRequest{ID: ptr("x"), Packages: &[]string{"a==1"}}
	execute(t, r.session(req), "install b==1")
	_, err := r.Create(t.Context(), "ann", req)
	wantCode(t, err, api.CodeSessionExists, "")
	if n := r.Queued("ann"); n != 0 {
		t.Errorf("%d bytes of code wait", n)
	}
}

func TestPackagesCanBeOff(t *testing.T) {
	r, _ := packaged(t, func(c *session.Config) { c.Packages.Off = "the operator says so" })
	s := r.session(api.SessionRequest{})
	if e := execute(t, s, "install a"); !strings.Contains(e.Text, "failure the operator says so") {
		t.Errorf("%q", e.Text)
	}
	_, asked := r.InstallRequest(api.PackagesRequest{Requirements: []string{"a"}})
	_, made := r.Create(t.Context(), "ann", api.SessionRequest{Packages: &[]string{"a"}})
	for _, err := range []error{asked, made} {
		wantCode(t, err, api.CodeForbidden, "the operator says so")
	}
}
