package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"talaria/api"
	"talaria/client"
	"talaria/session/index/indextest"
)

// hibernate saves the variables of a session and checks its state.
func hibernate(t *testing.T, c *client.Client, id string) api.HibernateReply {
	t.Helper()
	done, err := c.Hibernate(within(t), id)
	if err != nil {
		t.Fatal(err)
	}
	if done.State != api.StateHibernated || done.Kernel.Generation == 0 {
		t.Fatalf("the session is %s", done.State)
	}
	return done
}

func TestASessionHibernatesAndWakes(t *testing.T) {
	t.Parallel()
	everyTierAndEngine(t, func(t *testing.T, s *Server) {
		c := s.Client()
		id := session(t, c, api.SessionRequest{})
		runOK(t, c, id, "import numpy as np, random; random.seed(4)\na = np.arange(1e5); v = a[10:20]\ng = (i for i in range(3))\ndef f(x): return x + len(a)\nclass C: y = 7\nc = C(); n = [c, c]; open('f', 'w').write('1')")
		random := result(t, c, id, "random.getstate()[1][:3]")
		done := hibernate(t, c, id)
		if len(done.NotSaved) != 1 || done.NotSaved[0].Name != "g" || done.NotSaved[0].Type != "generator" {
			t.Errorf("not saved: %+v", done.NotSaved)
		}
		if again := hibernate(t, c, id); len(again.NotSaved) != 1 {
			t.Errorf("the second time not saved: %+v", again.NotSaved)
		}
		// The next cell wakes it.
		if got := result(t, c, id, "v.base is a, f(1), n[0] is n[1], n[0].y, open('f').read()"); got != "(True, 100001, True, 7, '1')" {
			t.Errorf("after waking there is %s", got)
		}
		if got := result(t, c, id, "random.getstate()[1][:3]"); got != random {
			t.Errorf("random's state is %s, not %s", got, random)
		}
		e := run(t, c, id, "g")
		if e.Error == nil || !strings.Contains(e.Error.Hint, "it was a generator") || *e.ExecutionCount != 5 {
			t.Errorf("%d: %+v", *e.ExecutionCount, e.Error)
		}
		list, err := c.Files(within(t), id, "")
		if err != nil || len(list) != 1 {
			t.Errorf("the files are %+v, %v", list, err)
		}
	})
}

func TestSavedVariablesStayWhereTheWorkspaceHasNoRoomForThem(t *testing.T) {
	t.Parallel()
	s := start(t, manual)
	c := s.Client()
	id := session(t, c, api.SessionRequest{Limits: &api.LimitsRequest{DiskBytes: new(int64(64 << 20))}})
	runOK(t, c, id, "import os; x = os.urandom(30 << 20); n = len(x)")
	hibernate(t, c, id)
	if _, _, err := c.PutFile(within(t), id, "big", strings.NewReader(strings.Repeat("x", 40<<20))); err != nil {
		t.Fatal(err)
	}
	e := run(t, c, id, "n")
	if e.Status != api.StatusDied || e.State != api.VariablesKept || e.Error == nil || !strings.Contains(e.Error.Evalue, "delete files") {
		t.Errorf("the cell is %s with the variables %s: %+v", e.Status, e.State, e.Error)
	}
	if _, err := c.Wake(within(t), id); err == nil || !strings.Contains(err.Error(), "delete files") {
		t.Errorf("waking it: %v", err)
	}
	s.Kill9()
	s.Restart(t)
	c = s.Client()
	if err := c.DeleteFile(within(t), id, "big"); err != nil {
		t.Fatal(err)
	}
	if got := result(t, c, id, "n, len(x), os.listdir('.')"); got != "(31457280, 31457280, [])" {
		t.Errorf("after files were deleted the session has %s", got)
	}
}

func TestVariablesThatHaveNoRoomInTheWorkspaceCostNoOthers(t *testing.T) {
	t.Parallel()
	s := start(t, manual)
	c := s.Client()
	id := session(t, c, api.SessionRequest{Limits: &api.LimitsRequest{DiskBytes: new(int64(32 << 20))}})
	if !isHeld(t, c, id, asRoot) {
		t.Skip("writing fails for want of room only where the operating system holds the limit of a workspace")
	}
	runOK(t, c, id, "import os; large = os.urandom(64 << 20); small = [1]\ndef get(): return small")
	done := hibernate(t, c, id)
	if len(done.NotSaved) != 1 || done.NotSaved[0].Name != "large" || !strings.Contains(done.NotSaved[0].Reason, "no room") {
		t.Errorf("not saved: %+v", done.NotSaved)
	}
	if got := result(t, c, id, "get(), 'large' in globals()"); got != "([1], False)" {
		t.Errorf("after it has woken there is %s", got)
	}
}

func TestAnIdleKernelHibernates(t *testing.T) {
	t.Parallel()
	s := start(t, options{})
	c := s.Client()
	id := session(t, c, api.SessionRequest{})
	runOK(t, c, id, "import os; x = 5; os.chdir('/tmp')")
	k := s.attach(t, id, "after=0")
	if _, err := c.UpdateSession(within(t), id, api.SessionPatch{IdleTimeoutS: new(0.2)}); err != nil {
		t.Fatal(err)
	}
	k.awaits(t, func(h head, raw []byte) bool {
		return h.Type == "session_state" && decode[api.SessionStateEvent](t, string(raw)).State == api.StateHibernated
	})
	if _, err := c.UpdateSession(within(t), id, api.SessionPatch{IdleTimeoutS: new(0.0)}); err != nil {
		t.Fatal(err)
	}
	woken, err := c.Wake(within(t), id)
	if err != nil || woken.State != api.StateIdle || len(woken.NotRestored) > 0 || woken.Kernel.Generation != 1 {
		t.Fatalf("%+v, %v", woken, err)
	}
	k.awaits(t, func(h head, raw []byte) bool { return h.Type == "kernel_woken" })
	if got := result(t, c, id, "x, os.getcwd()"); got != "(5, '/tmp')" {
		t.Errorf("there is %s", got)
	}
	if e := run(t, c, id, "print('no notice')"); e.Text != "no notice\n" {
		t.Errorf("the text is %q", e.Text)
	}
}

func TestSavedVariablesSurviveServerAndHost(t *testing.T) {
	t.Parallel()
	s := start(t, options{})
	id := session(t, s.Client(), api.SessionRequest{})
	runOK(t, s.Client(), id, "x = {'a': [1, 2]}")
	hibernate(t, s.Client(), id)
	host := s.host(t)
	s.Kill9()
	if err := syscall.Kill(host.pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	s.Restart(t)
	if got := result(t, s.Client(), id, "x"); got != "{'a': [1, 2]}" {
		t.Errorf("x is %s", got)
	}
	hibernate(t, s.Client(), id)
	if _, err := s.Client().ResetSession(within(t), id, api.ResetRequest{}); err != nil {
		t.Fatal(err)
	}
	if e := run(t, s.Client(), id, "x"); e.Error == nil || e.Error.Ename != "NameError" {
		t.Errorf("after a reset x is %s", e.Text)
	}
}

func TestForksHaveVariablesFilesAndALogOfTheirOwn(t *testing.T) {
	t.Parallel()
	for _, tier := range isolationTiers {
		t.Run(tier, func(t *testing.T) {
			t.Parallel()
			s := start(t, options{args: []string{"--tier", tier, "--min-tier", "landlock"}})
			c := s.Client()
			id := session(t, c, api.SessionRequest{Env: &map[string]string{"V": "1"}, Secrets: &map[string]string{"S": "hidden"}})
			first := run(t, c, id, "import os; x = [1]; os.makedirs('d/e'); open('d/f', 'w').write('1'); os.chmod('d/f', 0o640); g = iter([1]); lock = (i for i in g)")
			made, err := c.Fork(within(t), id, api.ForkRequest{Count: new(int64(3)), Name: new("try")})
			if err != nil || len(made.Items) != 3 {
				t.Fatalf("%+v, %v", made, err)
			}
			for i, item := range made.Items {
				if item.Problem != nil {
					t.Fatal(item.Problem)
				}
				fork := item.Session.ID
				if len(item.NotRestored) != 1 || item.NotRestored[0].Name != "lock" {
					t.Errorf("the fork lacks %+v", item.NotRestored)
				}
				if item.Session.Name != "try" || item.Session.State != api.StateHibernated {
					t.Errorf("the fork is %+v", item.Session)
				}
				got := result(t, c, fork, "x.append("+string(rune('5'+i))+") or x, open('d/f').read(), oct(os.stat('d/f').st_mode)[-3:], os.path.isdir('d/e'), os.environ['V'], os.environ['S']")
				if want := "([1, " + string(rune('5'+i)) + "], '1', '640', True, '1', 'hidden')"; got != want {
					t.Errorf("fork %d has %s, not %s", i, got, want)
				}
				runOK(t, c, fork, "open('d/f', 'w').write('2')")
				k := s.attach(t, fork, "after=0")
				k.awaits(t, func(h head, raw []byte) bool {
					if h.Type != "session_forked" {
						return false
					}
					forked := decode[api.SessionForked](t, string(raw))
					return h.Seq == 1 && h.ExecutionID == first.ID && forked.SessionID == id && len(forked.NotRestored) == 1 && forked.NotRestored[0].Name == "lock"
				})
			}
			if got := result(t, c, id, "x, open('d/f').read(), next(g)"); got != "([1], '1', 1)" {
				t.Errorf("the session itself has %s", got)
			}
		})
	}
}

func TestRequestsForForksAreChecked(t *testing.T) {
	t.Parallel()
	s := start(t, options{})
	c := s.Client()
	id := session(t, c, api.SessionRequest{})
	for _, count := range []int64{0, -1, api.MaxForks + 1} {
		_, err := c.Fork(within(t), id, api.ForkRequest{Count: &count})
		wantCodeAndWords(t, err, api.CodeInvalidRequest, "count")
	}
	waiting := s.queue(t, id, "import time; time.sleep(60)")
	_, err := c.Fork(within(t), id, api.ForkRequest{})
	wantCodeAndWords(t, err, api.CodeKernelBusy)
	_, err = c.Hibernate(within(t), id)
	wantCodeAndWords(t, err, api.CodeKernelBusy)
	if err := c.Interrupt(within(t), id, ""); err != nil {
		t.Fatal(err)
	}
	s.ended(t, id, waiting)
	_, err = c.UpdateSession(within(t), id, api.SessionPatch{OnIdle: new(api.OnIdle("sleep"))})
	wantCodeAndWords(t, err, api.CodeInvalidRequest, "on_idle")
}

func TestForksHaveThePackages(t *testing.T) {
	t.Parallel()
	everyIdentity(t, func(t *testing.T, who identity) {
		t.Parallel()
		s := indexed(t, who, indextest.Standard(t), "")
		c := s.Client()
		id := session(t, c, api.SessionRequest{})
		runOK(t, c, id, "%pip install greet==1.0")
		runOK(t, c, id, "import greet; g = greet")
		made, err := c.Fork(within(t), id, api.ForkRequest{})
		if err != nil || made.Items[0].Session == nil {
			t.Fatalf("%+v, %v", made, err)
		}
		fork := made.Items[0].Session.ID
		if got := result(t, c, fork, "g.__version__, g.__file__.startswith(__import__('os').environ.get('TALARIA_PACKAGES', '?'))"); got != "('1.0', True)" {
			t.Errorf("the fork has %s", got)
		}
		runOK(t, c, fork, "%pip install greet==2.0") // its own
		if got := result(t, c, id, "__import__('subprocess').run(['greet'], capture_output=True, text=True).stdout"); !strings.Contains(got, "greet 1.0") {
			t.Errorf("the session itself has %s", got)
		}
	})
}

// TestAHostThatIsToldToEndKeepsTheVariablesOfIdleKernels, while its server goes on.
func TestAHostThatIsToldToEndKeepsTheVariablesOfIdleKernels(t *testing.T) {
	t.Parallel()
	s := start(t, options{})
	c := s.Client()
	id, drops := session(t, c, api.SessionRequest{}), session(t, c, api.SessionRequest{OnIdle: new(api.OnIdleDrop)})
	for _, stop := range []func(){
		func() { s.stopHosts(t) },
		func() {
			host := s.host(t)
			_ = syscall.Kill(host.pid, syscall.SIGTERM)
			for end := time.Now().Add(patience); host.alive(); time.Sleep(10 * time.Millisecond) {
				if time.Now().After(end) {
					t.Fatal("the host goes on after SIGTERM")
				}
			}
		},
	} {
		runOK(t, c, id, "x = [1]")
		runOK(t, c, drops, "x = [1]")
		stop()
		if info, err := c.Session(within(t), id); err != nil || info.State != api.StateHibernated {
			t.Errorf("the session is %+v, %v", info, err)
		}
		if e := run(t, c, id, "x"); e.Generation != 1 || e.Text != "[1]" {
			t.Errorf("the next cell: generation %d, %q", e.Generation, e.Text)
		}
		if e := run(t, c, drops, "x"); e.Error == nil || e.Error.Ename != "NameError" {
			t.Errorf("where kernels are dropped x is %s", e.Text)
		}
	}
}

// wokeAgain checks that the session id hibernated with x = [1], and that drops, whose kernels are dropped, has no x.
func wokeAgain(t *testing.T, c *client.Client, id, drops string) {
	t.Helper()
	if info, err := c.Session(within(t), id); err != nil || info.State != api.StateHibernated {
		t.Errorf("the session is %+v, %v", info, err)
	}
	if got := result(t, c, id, "x"); got != "[1]" {
		t.Errorf("x is %s", got)
	}
	if e := run(t, c, drops, "x"); e.Error == nil || e.Error.Ename != "NameError" {
		t.Errorf("where kernels are dropped x is %s", e.Text)
	}
}

// TestHostsAreStoppedWithoutAServer as a machine that is shut down does: the server first.
func TestHostsAreStoppedWithoutAServer(t *testing.T) {
	t.Parallel()
	everyIdentity(t, func(t *testing.T, who identity) {
		s := start(t, options{as: who})
		c := s.Client()
		id, drops, busy := session(t, c, api.SessionRequest{}), session(t, c, api.SessionRequest{OnIdle: new(api.OnIdleDrop)}), session(t, c, api.SessionRequest{})
		runOK(t, c, id, "x = [1]; print('seen')")
		runOK(t, c, drops, "x = [1]")
		running, err := c.ExecuteWait(within(t), busy, api.ExecutionRequest{Code: new("import time; print('on'); time.sleep(600)")}, 0)
		if err != nil {
			t.Fatal(err)
		}
		s.attach(t, busy, "after=0").awaits(t, func(h head, _ []byte) bool { return h.Type == "stream" })
		s.Terminate(t)
		if len(s.hosts(t)) != 1 {
			t.Fatal("the host has ended with its server")
		}
		out, err := s.command(within(t), "host", "stop", "--state-dir", s.StateDir).CombinedOutput()
		if err != nil || string(out) != "stopped the kernels of "+s.StateDir+"\n" {
			t.Errorf("talaria host stop: %v: %s", err, out)
		}
		if left := s.hosts(t); len(left) > 0 {
			t.Errorf("hosts go on: %+v", left)
		}
		s.Restart(t)
		c = s.Client()
		wokeAgain(t, c, id, drops)
		if e, err := c.Execution(within(t), busy, running.ID); err != nil || e.Status != api.StatusDied || e.Reason != "server_shutdown" || !strings.HasPrefix(e.Text, "on\n") {
			t.Errorf("the cell that ran ended as %+v, %v", e, err)
		}
	})
}

// TestRootStopsNoHostsOfAnotherUser, for what it saved would be root's.
func TestRootStopsNoHostsOfAnotherUser(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("the tests do not run as root")
	}
	s := start(t, options{as: asUser})
	runOK(t, s.Client(), session(t, s.Client(), api.SessionRequest{}), "x = 1")
	s.Terminate(t)
	cmd := exec.CommandContext(within(t), binary, "host", "stop", "--state-dir", s.StateDir)
	cmd.Env = []string{"PATH=" + systemPath, "HOME=" + t.TempDir()}
	out, err := cmd.CombinedOutput()
	if want := "talaria: " + s.StateDir + " belongs to the user with the id "; err == nil || !strings.HasPrefix(string(out), want) {
		t.Errorf("%v: %s", err, out)
	}
	if len(s.hosts(t)) != 1 {
		t.Error("the host has ended")
	}
}

// TestCtrlCKeepsTheVariablesOfIdleKernels ends the server and its host as somebody at a terminal does.
func TestCtrlCKeepsTheVariablesOfIdleKernels(t *testing.T) {
	t.Parallel()
	s := start(t, options{})
	c := s.Client()
	id, drops := session(t, c, api.SessionRequest{}), session(t, c, api.SessionRequest{OnIdle: new(api.OnIdleDrop)})
	runOK(t, c, id, "x = [1]")
	runOK(t, c, drops, "x = [1]")
	if _, state := s.Signal(t, syscall.SIGINT); !state.Success() {
		t.Fatalf("the server ended %s", state)
	}
	s.Restart(t)
	c = s.Client()
	wokeAgain(t, c, id, drops)
}

// TestCtrlCKeepsTheVariablesOfManyKernels ends a server with more idle kernels than can save their variables at the same time within
// the time that each may take. It takes 15 s of both processors, so it runs only where all tests do.
func TestCtrlCKeepsTheVariablesOfManyKernels(t *testing.T) {
	if os.Getenv("E2E_ALL") == "" {
		t.Skip("250 kernels take 15 s of both processors: set E2E_ALL to run it")
	}
	const kernels = 250
	s := start(t, options{})
	c := s.Client()
	ids := make([]string, kernels)
	for i := range ids {
		ids[i] = session(t, c, api.SessionRequest{})
		runOK(t, c, ids[i], fmt.Sprintf("x = %d", i))
	}
	if _, state := s.Signal(t, syscall.SIGINT); !state.Success() {
		t.Fatalf("the server ended %s", state)
	}
	s.Restart(t)
	for i, id := range ids {
		is, err := s.Client().Session(within(t), id)
		if err != nil || is.State != api.StateHibernated {
			t.Errorf("session %d is %s (%v)", i, is.State, err)
		}
	}
	if e := run(t, s.Client(), ids[7], "x"); e.Text != "7" {
		t.Errorf("x is %q", e.Text)
	}
}
