package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"talaria/api"
	"talaria/client"
	"talaria/session/index/indextest"
)

// indexed starts a server whose sessions install packages from that index.
func indexed(t *testing.T, who identity, ix *indextest.Index, more string) *Server {
	t.Helper()
	config := "packages:\n  index: " + ix.URL() + "\n"
	if ix.Elsewhere != nil {
		config += "  hosts: [127.0.0.0/8]\n"
	}
	return start(t, options{as: who, config: config + more})
}

// packageEvents returns the installations in a session's log.
func packageEvents(t *testing.T, s *Server, id string) []api.PackageInstalled {
	t.Helper()
	return of[api.PackageInstalled](past(t, s.Client(), id))
}

// begin begins a cell, and returns its execution's id.
func begin(t *testing.T, c *client.Client, session, code string) string {
	t.Helper()
	e, err := c.ExecuteWait(within(t), session, api.ExecutionRequest{Code: &code}, 0)
	if err != nil {
		t.Fatal(err)
	}
	return e.ID
}

// theEnd waits for the end of an execution.
func theEnd(t *testing.T, c *client.Client, session, id string) api.Execution {
	t.Helper()
	collect(t, c.ExecutionEvents(within(t), session, id, 0))
	e, err := c.Execution(within(t), session, id)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// What people do with packages, in a session without a network.
func TestPackagesOnTheFly(t *testing.T) {
	t.Parallel()
	everyIdentity(t, func(t *testing.T, who identity) {
		t.Parallel()
		s := indexed(t, who, indextest.Standard(t), "")
		c := s.Client()
		id := session(t, c, api.SessionRequest{})
		e := run(t, c, id, "kept = 5\nimport greet")
		if e.Status != api.StatusError || !strings.Contains(e.Text, "%pip install greet") {
			t.Errorf("a module that is not there: %s", e.Text)
		}
		if text := runOK(t, c, id, "%pip install greet==1.0"); !strings.Contains(text, "greet") || strings.Contains(text, "\r") {
			t.Errorf("the installation says %q", text)
		}
		// In the same interpreter, with its dependencies, and in the programs that it starts.
		if text := runOK(t, c, id, "import greet, parcel\nprint(kept, greet.__version__)"); text != "5 1.0\n" {
			t.Errorf("imported: %q", text)
		}
		if text := runOK(t, c, id, "!greet\n!python -c 'import greet; print(greet.__file__)'"); !strings.Contains(text, "hello from greet 1.0") ||
			!strings.Contains(text, "/packages/current/") {
			t.Errorf("in programs: %q", text)
		}
		// A new version of a loaded package is reported.
		if text := runOK(t, c, id, "!pip install -U greet"); !strings.Contains(text, "reset") || !strings.Contains(text, "2.0") {
			t.Errorf("a conflict says %q", text)
		}
		if _, err := c.ResetSession(within(t), id, api.ResetRequest{}); err != nil {
			t.Fatal(err)
		}
		if text := runOK(t, c, id, "import greet\nprint(greet.__version__)"); text != "2.0\n" {
			t.Errorf("after the reset: %q", text)
		}
		// A failure changes nothing.
		before := runOK(t, c, id, "import os\nprint(os.readlink('/packages/current'), sorted(os.listdir('/packages')))")
		for requirement, says := range map[string]string{
			"no-such-thing": "no-such-thing", "wrong-hash": "wrong-hash", "torn": "torn", "missing-part": "missing",
			"metadata-host": "metadata-host", "greet==9": "greet",
		} {
			e, err := c.InstallPackages(within(t), id, api.PackagesRequest{Requirements: []string{requirement}})
			if err != nil || e.Status != api.StatusError || !strings.Contains(e.Text, says) || !strings.Contains(e.Text, "nothing was changed") {
				t.Errorf("%s: %v, %s, %s", requirement, err, e.Status, e.Text)
			}
		}
		if after := runOK(t, c, id, "print(os.readlink('/packages/current'), sorted(os.listdir('/packages')))"); after != before {
			t.Errorf("after failures there is %s, and before %s", after, before)
		}
		for _, requirement := range []string{"paper", "elsewhere", "no-hash", "recalled", "future"} {
			e, err := c.InstallPackages(within(t), id, api.PackagesRequest{Requirements: []string{requirement}})
			if err != nil || e.Status != api.StatusOK {
				t.Errorf("%s: %v, %s, %s", requirement, err, e.Status, e.Text)
			}
		}
		runOK(t, c, id, "import paper, recalled, future\nassert recalled.__version__ == future.__version__ == '1.0'")
		if text := runOK(t, c, id, "%pip uninstall -y paper\nimport glob\nprint(glob.glob('/packages/current/lib/*/site-packages/paper*'))"); !strings.HasSuffix(text, "[]\n") {
			t.Errorf("uninstalled: %q", text)
		}
		// No other session sees them, and nothing inside can change them.
		other := session(t, c, api.SessionRequest{})
		runOK(t, c, other, "import importlib.util\nassert importlib.util.find_spec('greet') is None")
		if text := runOK(t, c, id, `
for write in (lambda: open('/packages/current/lib/x', 'w'), lambda: os.mkdir('/packages/x'), lambda: os.unlink('/packages/current')):
    try: write()
    except OSError as e: print(e.errno)`); text != "30\n30\n30\n" {
			t.Errorf("writing to the packages: %q", text)
		}
		if _, err := c.ResetSession(within(t), id, api.ResetRequest{KeepPackages: new(bool)}); err != nil {
			t.Fatal(err)
		}
		runOK(t, c, id, "import importlib.util, os\nassert importlib.util.find_spec('greet') is None and not os.listdir('/packages')")
		told := packageEvents(t, s, id)
		if !slices.EqualFunc(told[:2], []api.PackageInstalled{{Requirements: []string{"greet==1.0"}, OK: true}, {Requirements: []string{"greet"}, OK: true}},
			func(a, b api.PackageInstalled) bool {
				return a.OK == b.OK && slices.Equal(a.Requirements, b.Requirements)
			}) || len(told) != 14 {
			t.Errorf("told: %+v", told)
		}
	})
}

func TestASessionHasItsPackagesFromTheStart(t *testing.T) {
	t.Parallel()
	s := indexed(t, me, indextest.Standard(t), "")
	c := s.Client()
	id := session(t, c, api.SessionRequest{Packages: &[]string{"greet", "numpy>=90"}})
	if e := run(t, c, id, "import greet, numpy\nnumpy.__version__"); e.Text != "'99.0'" || *e.ExecutionCount != 1 {
		t.Errorf("%q, number %d", e.Text, *e.ExecutionCount)
	}
	broken := session(t, c, api.SessionRequest{Packages: &[]string{"no-such-thing"}})
	if text := runOK(t, c, broken, "print(1 + 1)"); text != "2\n" {
		t.Errorf("a session without its packages says %q", text)
	}
	if told := packageEvents(t, s, broken); len(told) != 1 || told[0].OK {
		t.Errorf("told: %+v", told)
	}
	for _, args := range [][]string{{}, {"--session", "kept"}} {
		cmd := s.command(within(t), append([]string{"exec", "--package", "no-such-thing", "-c", "6 * 7"}, args...)...)
		cmd.Env = append(cmd.Env, "TALARIA_STATE_DIR="+s.StateDir)
		var failures strings.Builder
		cmd.Stderr = &failures
		out, err := cmd.Output()
		if err != nil || string(out) != "42\n" || !strings.HasPrefix(failures.String(), "talaria: --package: the package index has no project no-such-thing; ") {
			t.Errorf("exec %v without its packages: %v, %q, %q", args, err, out, failures.String())
		}
	}
}

// Build scripts are code of strangers: what one finds in its installer, and what it leaves.
func TestABuildScriptFindsNothing(t *testing.T) {
	t.Parallel()
	everyIdentity(t, func(t *testing.T, who identity) {
		t.Parallel()
		s := indexed(t, who, indextest.Standard(t), "network:\n  max_mode: full\n  allowed: [127.0.0.0/8]\n")
		c := s.Client()
		id := session(t, c, api.SessionRequest{Env: &map[string]string{"MINE": "hidden"}, Secrets: &map[string]string{"KEY": "a-very-secret-key"}})
		if _, _, err := c.PutFile(within(t), id, "private.txt", strings.NewReader("mine")); err != nil {
			t.Fatal(err)
		}
		e, err := c.InstallPackages(within(t), id, api.PackagesRequest{Requirements: []string{"trojan"}})
		if err != nil {
			t.Fatal(err)
		}
		t.Log(e.Text)
		if e.Status == api.StatusOK {
			text := runOK(t, c, id, "import trojan\nfor what, found in sorted(trojan.findings.items()): print(what, '=', found)")
			t.Log(text)
			for _, bad := range []string{"hidden", "a-very-secret-key", "mine", "root:x:"} {
				if strings.Contains(text, bad) {
					t.Errorf("it found %q:\n%s", bad, text)
				}
			}
		}
		if f, err := c.GetFile(within(t), id, "private.txt"); err != nil {
			t.Error(err)
		} else {
			f.Close()
		}
		layers, err := filepath.Glob(filepath.Join(s.StateDir, "sessions", "*", "packages", "*"))
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range layers {
			if info, err := os.Lstat(l); err != nil || filepath.Base(l) != "current" && !info.IsDir() {
				t.Errorf("left: %s, %v", l, err)
			}
		}
	})
}

// A build script that keeps files alive where no path and no descriptor table names them: in flight over a socket, and mapped.
func TestABuildScriptCannotHideFromTheDiskLimit(t *testing.T) {
	t.Parallel()
	everyIdentity(t, func(t *testing.T, who identity) {
		t.Parallel()
		ix := indextest.Standard(t)
		for name, keep := range map[string]string{
			"in-flight": "socket.send_fds(a, [b'x'], [fd])",
			"mapped":    "libc.mmap(None, 4096, 1, 1, fd, 0)",
		} {
			ix.Add("hoard-"+name, indextest.Built("hoard-"+name, "1.0", "hoard", "x = 1\n", fmt.Sprintf(`
import ctypes, os, socket
libc = ctypes.CDLL(None)
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
a, b = socket.socketpair()
held = 0
try:
    for i in range(12):
        fd = os.open("hoard", os.O_CREAT | os.O_RDWR)
        os.unlink("hoard")
        for _ in range(40):
            os.write(fd, os.urandom(1 << 20))
            held += 1
        %s
        os.close(fd)
finally:
    print("held", held, "MiB", flush=True)
raise SystemExit(1)
`, keep)))
		}
		s := indexed(t, who, ix, "")
		c := s.Client()
		for _, name := range []string{"in-flight", "mapped"} {
			id := session(t, c, api.SessionRequest{Limits: &api.LimitsRequest{DiskBytes: new(int64(100 << 20))}})
			e, err := c.InstallPackages(within(t), id, api.PackagesRequest{Requirements: []string{"hoard-" + name}})
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("%s: %s\n%s", name, e.Status, e.Text)
			if e.Status != api.StatusError || strings.Contains(e.Text, "held 480 MiB") {
				t.Errorf("%s: %s, %s", name, e.Status, e.Text)
			}
			runOK(t, c, id, "1 + 1")
		}
	})
}

func TestAnOperatorBoundsPackages(t *testing.T) {
	t.Parallel()
	ix := indextest.Standard(t)
	ix.User, ix.Password = "talaria", "index-password-of-the-operator"
	file := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(file, []byte(ix.Password+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := indexed(t, me, ix, fmt.Sprintf("  username: %s\n  password_file: %s\n  deny: [secret]\n  max_bytes: %d\n", ix.User, file, 32<<20))
	c := s.Client()
	id := session(t, c, api.SessionRequest{})
	refused := func(requirement, says string) {
		t.Helper()
		e, err := c.InstallPackages(within(t), id, api.PackagesRequest{Requirements: []string{requirement}})
		if err != nil || e.Status != api.StatusError || !strings.Contains(e.Text, says) {
			t.Errorf("%s: %v, %s, %s; want %q", requirement, err, e.Status, e.Text, says)
		}
	}
	refused("secret", "packages.deny")
	refused("needs-secret", "packages.deny")
	refused("huge", "packages.max_bytes")
	if e, err := c.InstallPackages(within(t), id, api.PackagesRequest{Requirements: []string{"greet"}}); err != nil || e.Status != api.StatusOK {
		t.Errorf("with a password: %v, %s", err, e.Text)
	}
	text := runOK(t, c, id, `
import os, subprocess
found = subprocess.run("grep -ars index-pass[w]ord /workspace /packages /tmp /etc /home /run $HOME /proc/*/environ /proc/*/cmdline; env", shell=True, capture_output=True, text=True).stdout
print("index-password" in found)`)
	if text != "False\n" {
		t.Errorf("the password is to be found: %s", text)
	}
	// A file that was downloaded once is not downloaded again.
	before := ix.Downloads("greet-2.0-py3-none-any.whl")
	other := session(t, c, api.SessionRequest{})
	if e, err := c.InstallPackages(within(t), other, api.PackagesRequest{Requirements: []string{"greet"}}); err != nil || e.Status != api.StatusOK {
		t.Errorf("once more: %v, %s", err, e.Text)
	}
	if after := ix.Downloads("greet-2.0-py3-none-any.whl"); before != 1 || after != 1 {
		t.Errorf("%d downloads, then %d", before, after)
	}
}

// A package that waits forever ends with an interrupt, and with its server.
func TestAnInstallationCanBeInterruptedAndEndsWithItsServer(t *testing.T) {
	t.Parallel()
	ix := indextest.Standard(t)
	reached, release := ix.Hold("greet-2.0-py3-none-any.whl")
	defer release()
	s := indexed(t, me, ix, "")
	c := s.Client()
	id := session(t, c, api.SessionRequest{})
	runOK(t, c, id, "kept = 1")
	first := begin(t, c, id, "%pip install greet")
	<-reached
	if err := c.Interrupt(within(t), id, ""); err != nil {
		t.Fatal(err)
	}
	if e := theEnd(t, c, id, first); e.Status != api.StatusInterrupted {
		t.Errorf("%s, %s", e.Status, e.Text)
	}
	reached, release = ix.Hold("greet-2.0-py3-none-any.whl")
	defer release()
	second := begin(t, c, id, "!pip install greet\nprint('goes on', kept)")
	<-reached
	s.Kill9()
	s.Restart(t)
	c = s.Client()
	if e := theEnd(t, c, id, second); e.Status != api.StatusOK || !strings.Contains(e.Text, "restarting") || !strings.Contains(e.Text, "goes on 1") {
		t.Errorf("%s, %s", e.Status, e.Text)
	}
	release()
	if text := runOK(t, c, id, "%pip install greet\nimport greet\nprint(greet.__version__)"); !strings.HasSuffix(text, "2.0\n") {
		t.Errorf("afterwards: %s", text)
	}
}

func TestPackagesCanBeSwitchedOff(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]options{
		"by the operator": {config: "packages:\n  enabled: false\n"},
		"by the tier":     {args: []string{"--tier", "landlock"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := start(t, o)
			c := s.Client()
			id := session(t, c, api.SessionRequest{})
			_, err := c.InstallPackages(within(t), id, api.PackagesRequest{Requirements: []string{"greet"}})
			wantCode(t, err, api.CodeForbidden)
			_, err = c.CreateSession(within(t), api.SessionRequest{Packages: &[]string{"greet"}})
			wantCode(t, err, api.CodeForbidden)
			if e := run(t, c, id, "%pip install greet"); e.Status != api.StatusError || !strings.Contains(e.Text, "cannot be installed") {
				t.Errorf("%s, %s", e.Status, e.Text)
			}
			if e := run(t, c, id, "import greet"); strings.Contains(e.Text, "%pip install") {
				t.Errorf("the hint is %s", e.Text)
			}
		})
	}
}
