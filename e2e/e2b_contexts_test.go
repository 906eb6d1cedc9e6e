package e2e

import (
	"net/http"
	"os/exec"
	"strings"
	"testing"

	"talaria/api"
	"talaria/session/index/indextest"
)

// e2bContext is a context of a sandbox.
type e2bContext struct{ ID, Language, CWD string }

// e2bContexts starts a server with a sandbox, and returns what asks its API of contexts, and what creates one.
func e2bContexts(t *testing.T, tier string, who identity, sandbox string) (
	s *Server, box e2bSandbox, ask func(method, path, body string, status int) answer, create func(body string) e2bContext,
) {
	t.Helper()
	s = start(t, options{as: who, args: []string{"--tier", tier, "--min-tier", tier}})
	box = s.e2bCreate(t, s.Token, sandbox)
	ask = func(method, path, body string, status int) answer {
		t.Helper()
		return s.e2bCall(t, method, "/e2b/contexts"+path, box.EnvdAccessToken, box.SandboxID, body, status)
	}
	create = func(body string) e2bContext {
		t.Helper()
		return decode[e2bContext](t, string(ask("POST", "", body, http.StatusOK).body))
	}
	return s, box, ask, create
}

// e2bPrints returns what a cell in a context writes, and the error that ends it.
func (s *Server) e2bPrints(t *testing.T, box e2bSandbox, context, code string) (text string) {
	t.Helper()
	for _, line := range s.e2bRun(t, box, `{"context_id":"`+context+`","code":`+quoted(t, code)+`}`) {
		switch line["type"] {
		case "stdout", "stderr":
			text += line["text"].(string)
		case "error":
			text += line["name"].(string)
		}
	}
	return text
}

func TestE2BContextsOfOtherLanguagesHaveTheirFolder(t *testing.T) {
	t.Parallel()
	eachTier(t, func(t *testing.T, tier string, who identity) {
		s, box, ask, create := e2bContexts(t, tier, who, `{"metadata":{"a":"b"}}`)
		list := func() (found []string) {
			t.Helper()
			for _, c := range decode[[]e2bContext](t, string(ask("GET", "", "", http.StatusOK).body)) {
				found = append(found, c.Language+" "+c.CWD)
			}
			return found
		}
		prints := func(c e2bContext, code string) string { t.Helper(); return s.e2bPrints(t, box, c.ID, code) }
		s.e2bRun(t, box, `{"code":"import os\nx = 5\nos.makedirs(\"it's here\")"}`)
		bash := create(`{"language":"bash","cwd":"it's here"}`)
		if bash.CWD != "/home/user/it's here" || bash.Language != "bash" || bash.ID == "" {
			t.Errorf("the context is %+v", bash)
		}
		if got := prints(bash, "basename \"$PWD\"; echo one > kept; VARIABLE=1"); got != "it's here\n" {
			t.Errorf("the folder is %q", got)
		}
		if got := prints(bash, "cat kept; echo \"<$VARIABLE>\"\nno-such-program"); !strings.Contains(got, "one\n") || !strings.Contains(got, "<1>\n") ||
			!strings.Contains(got, "line 2: no-such-program") {
			t.Errorf("the next cell printed %q", got)
		}
		if got := prints(bash, "exit 3"); got != "CalledProcessError" {
			t.Errorf("a failure printed %q", got)
		}
		if _, err := exec.LookPath("node"); err == nil {
			script := create(`{"language":"js","cwd":"/home/user/it's here"}`)
			if got := prints(script, "console.log(require('fs').readFileSync('kept', 'utf8'))"); got != "one\n\n" {
				t.Errorf("JavaScript printed %q", got)
			}
			ask("DELETE", "/"+script.ID, "", http.StatusNoContent)
			ask("DELETE", "/"+script.ID, "", http.StatusNotFound)
		}
		if got := prints(create(`{"language":"bash","cwd":"/tmp"}`), "pwd"); got != "/tmp\n" {
			t.Errorf("another folder is %q", got)
		}
		if got := prints(create(`{"language":"bash","cwd":"made/for it"}`), "basename \"$PWD\""); got != "for it\n" {
			t.Errorf("a folder that was not there: %q", got)
		}
		ask("POST", "", `{"language":"bash","cwd":"/nowhere"}`, http.StatusBadRequest)
		ask("POST", "", `{"language":"bash","cwd":"it's here/kept"}`, http.StatusBadRequest)
		ask("POST", "/"+bash.ID+"/restart", "", http.StatusOK)
		if got := s.e2bText(t, box, "x"); got != "5" {
			t.Errorf("after the restart of a context in bash x is %v", got)
		}
		s.e2bCall(t, "POST", "/e2b/sandboxes/"+box.SandboxID+"/timeout", s.Token, "", `{"timeout":600}`, http.StatusNoContent)
		s.Kill9()
		s.Restart(t)
		want := "python /home/user, bash /home/user, javascript /home/user, bash /home/user/it's here, bash /tmp, bash /home/user/made/for it"
		if got := strings.Join(list(), ", "); got != want {
			t.Errorf("the contexts are %s, want %s", got, want)
		}
		if a := s.e2bCall(t, "GET", "/e2b/sandboxes/"+box.SandboxID, s.Token, "", "", http.StatusOK); !strings.Contains(string(a.body), `"metadata":{"a":"b"}`) {
			t.Errorf("the sandbox is %s", a.body)
		}
		for body, status := range map[string]int{
			`{"language":"python","cwd":"a\nb"}`: 400, `{"language":"cobol"}`: 400, `{"language":"bash","cwd":"a\u0000b"}`: 400,
			`{"language":"bash","cwd":"` + strings.Repeat("x", 2000) + `"}`: 400,
		} {
			ask("POST", "", body, status)
		}
		ask("DELETE", "/_bash", "", http.StatusBadRequest)
		for len(list()) < 3+32 {
			create(`{"language":"javascript"}`)
		}
		ask("POST", "", `{"language":"bash"}`, http.StatusUnprocessableEntity)
	})
}

func TestE2BContextsOfBashKeepTheirState(t *testing.T) {
	t.Parallel()
	eachTier(t, func(t *testing.T, tier string, who identity) {
		s, box, ask, create := e2bContexts(t, tier, who, `{"envVars":{"GIVEN":"sandbox"}}`)
		s.e2bRun(t, box, `{"code":"import os\nos.mkdir('sub')"}`)
		own, one, two := e2bContext{ID: "_bash"}, create(`{"language":"bash","cwd":"sub"}`), create(`{"language":"bash"}`)
		const look = `echo "<$A>$(f 2>/dev/null)"; a 2>/dev/null; set -o | grep -c 'nounset.*on'; basename "$PWD"`
		steps := func(list ...[3]string) {
			t.Helper()
			for _, step := range list {
				if got := s.e2bPrints(t, box, step[0], step[1]); got != step[2] {
					t.Errorf("%s: %q prints %q, want %q", step[0], step[1], got, step[2])
				}
			}
		}
		ask("POST", "/"+one.ID+"/restart", "", http.StatusOK) // nothing has run there
		steps(
			[3]string{own.ID, "mkdir -p deep/deeper; cd deep; export A=1; f() { echo f; }; alias a='echo alias'; set -u", ""},
			[3]string{own.ID, look, "<1>f\nalias\n1\ndeep\n"},
			[3]string{one.ID, look, "<>\n0\nsub\n"},
			[3]string{one.ID, "A=2; cd /tmp; exit 3", "CalledProcessError"},
			[3]string{two.ID, "echo \"<$A>\"", "<>\n"},
			[3]string{one.ID, look, "<2>\n0\ntmp\n"},
			[3]string{own.ID, look, "<1>f\nalias\n1\ndeep\n"},
			[3]string{"_python", "%%bash\necho \"<$A>\"", "<>\n"},
		)
		for _, line := range s.e2bRun(t, box, `{"context_id":"`+one.ID+`","code":"echo $GIVEN; GIVEN=its","env_vars":{"GIVEN":"call"}}`) {
			if line["type"] == "stdout" && line["text"] != "call\n" || line["type"] == "error" {
				t.Errorf("with a variable of the call: %v", line)
			}
		}
		s.Kill9()
		s.Restart(t)
		steps([3]string{one.ID, "echo $A $GIVEN", "2 sandbox\n"})
		ask("POST", "/"+one.ID+"/restart", "", http.StatusOK)
		steps([3]string{one.ID, look, "<>\n0\nsub\n"}, [3]string{own.ID, "echo $A", "1\n"}, [3]string{two.ID, "A=3", ""})
		ask("DELETE", "/"+two.ID, "", http.StatusNoContent)
		steps([3]string{one.ID, "A=4", ""})
		s.e2bCall(t, "POST", "/e2b/sandboxes/"+box.SandboxID+"/pause", s.Token, "", "", http.StatusNoContent)
		steps([3]string{one.ID, "echo \"<$A>\"", "<>\n"}, [3]string{own.ID, "echo \"<$A>\"; A=5", "<>\n"})
		ask("POST", "/_bash/restart", "", http.StatusOK)
		steps([3]string{own.ID, "echo \"<$A>\"", "<>\n"})
	})
}

func TestE2BContextsOfPythonHaveTheirVariables(t *testing.T) {
	t.Parallel()
	eachTier(t, func(t *testing.T, tier string, who identity) {
		s, box, ask, create := e2bContexts(t, tier, who, `{}`)
		// value returns the main result of a cell, or the error that ends it.
		value := func(c e2bContext, code string) (text string) {
			t.Helper()
			for _, line := range s.e2bRun(t, box, `{"context_id":"`+c.ID+`","code":`+quoted(t, code)+`}`) {
				if line["type"] == "result" && line["is_main_result"] == true {
					text += line["text"].(string)
				}
				if line["type"] == "error" {
					text += line["name"].(string)
				}
			}
			return text
		}
		s.e2bRun(t, box, `{"code":"import os\nx = 'own'\nos.makedirs('data/in it')\nopen('f', 'w').write('shared')"}`)
		one, two := create(`{}`), create(`{"language":"python","cwd":"data/in it"}`)
		if one.Language != "python" || one.CWD != "/home/user" || two.CWD != "/home/user/data/in it" {
			t.Errorf("the contexts are %+v and %+v", one, two)
		}
		for _, test := range []struct {
			in         e2bContext
			code, want string
		}{
			{one, "'x' in globals(), open('f').read()", "(False, 'shared')"},
			{one, "x = 'one'\nasync def f(): return x\nx", "one"},
			{two, "import os\nx = 'two'\nopen('g', 'w').write('by two'); os.path.basename(os.getcwd())", "in it"},
			{one, "await f()", "one"},
			{one, "open('data/in it/g').read()", "by two"},
			{two, "x", "two"},
			{two, "1/0", "ZeroDivisionError"},
			{two, "%%bash\nexit 3", "CalledProcessError"},
			{e2bContext{ID: "_python"}, "x", "own"},
			{create(`{"cwd":"/tmp"}`), "import os; os.getcwd()", "/tmp"},
			{e2bContext{ID: "_python"}, "import tempfile; open(tempfile.gettempdir() + '/t', 'w').write('tmp')", "3"},
			{one, "import tempfile; open(tempfile.gettempdir() + '/t').read()", "tmp"},
			{one, "import json; json.mine = 1", ""},
			{two, "import json; hasattr(json, 'mine')", "False"},
		} {
			if got := value(test.in, test.code); got != test.want {
				t.Errorf("%q is %q, want %q", test.code, got, test.want)
			}
		}
		for _, line := range s.e2bRun(t, box, `{"context_id":"`+one.ID+`","code":"import os; os.environ['KEY'] + x","env_vars":{"KEY":"its "}}`) {
			if line["type"] == "result" && line["text"] != "its one" || line["type"] == "error" {
				t.Errorf("with a variable of the environment: %v", line)
			}
		}
		s.Kill9()
		s.Restart(t)
		if got := value(one, "x"); got != "one" {
			t.Errorf("with the next server x is %q", got)
		}
		endless := s.queue(t, one.ID, "print('begun', flush=True)\nwhile True: pass")
		for event, err := range s.Client().ExecutionEvents(within(t), one.ID, endless, 0) {
			if err != nil {
				t.Fatal(err)
			}
			if _, begun := event.Body.(api.Stream); begun {
				break
			}
		}
		if got := value(two, "x") + " " + s.e2bText(t, box, "x").(string); got != "two own" { // beside the one that runs
			t.Errorf("beside a cell: %s", got)
		}
		waiting := s.queue(t, one.ID, "x = 'never'")
		ask("POST", "/"+one.ID+"/restart", "", http.StatusOK)
		for id, want := range map[string]api.ExecutionStatus{endless: api.StatusDied, waiting: api.StatusCancelled} {
			if e := s.ended(t, one.ID, id); e.Status != want {
				t.Errorf("the restart leaves %q %s, want %s", e.Code, e.Status, want)
			}
		}
		if got := value(one, "'x' in globals()") + " " + value(two, "x") + " " + s.e2bText(t, box, "x").(string); got != "False two own" {
			t.Errorf("after the restart of one context: %s", got)
		}
		if got := value(one, "import os; os._exit(3)") + " " + value(one, "2") + " " + value(two, "x"); got != "KernelDied 2 two" {
			t.Errorf("after the death of one context: %s", got)
		}
		ask("DELETE", "/"+two.ID, "", http.StatusNoContent)
		s.e2bCall(t, "POST", "/e2b/execute", box.EnvdAccessToken, box.SandboxID, `{"context_id":"`+two.ID+`","code":"1"}`, http.StatusNotFound)
		value(one, "x = 'again'")
		s.e2bCall(t, "POST", "/e2b/sandboxes/"+box.SandboxID+"/pause", s.Token, "", "", http.StatusNoContent)
		if got := value(one, "x") + " " + s.e2bText(t, box, "x").(string); got != "again own" {
			t.Errorf("after a pause: %s", got)
		}
		ask("POST", "/_python/restart", "", http.StatusOK)
		if got := value(one, "'x' in globals()"); got != "False" {
			t.Errorf("after the restart of all: %s", got)
		}
		s.wantBeside(t, box, one)
	})
}

func TestE2BContextsShareThePackages(t *testing.T) {
	t.Parallel()
	s := indexed(t, asRoot, indextest.Standard(t), "")
	box := s.e2bCreate(t, s.Token, `{}`)
	create := func() string {
		answer := s.e2bCall(t, "POST", "/e2b/contexts", box.EnvdAccessToken, box.SandboxID, `{}`, http.StatusOK)
		return decode[e2bContext](t, string(answer.body)).ID
	}
	one, two := create(), create()
	const version = "import importlib.metadata; print(importlib.metadata.version('greet'))"
	runOK(t, s.Client(), one, "%pip install greet==1.0")
	for _, context := range []string{"_python", one, two} {
		if got := s.e2bPrints(t, box, context, version); got != "1.0\n" {
			t.Errorf("in context %s the package is %q", context, got)
		}
	}
	// One after the other, through the programs of two contexts at the same time.
	first, second := begin(t, s.Client(), one, "!pip install greet==2.0"), begin(t, s.Client(), two, "!pip install greet==2.0")
	for id, context := range map[string]string{first: one, second: two} {
		if e := theEnd(t, s.Client(), context, id); e.Status != api.StatusOK {
			t.Errorf("the installation in %s: %s %s", context, e.Status, e.Text)
		}
	}
	if got := s.e2bPrints(t, box, "_python", version); got != "2.0\n" {
		t.Errorf("the package is %q", got)
	}
	for _, context := range []string{one, two} {
		if events := packageEvents(t, s, context); len(events) == 0 || !events[len(events)-1].OK {
			t.Errorf("the log of %s has %v", context, events)
		}
	}
}

func TestAHostileE2BContextEndsAlone(t *testing.T) {
	t.Parallel()
	s, box, ask, create := e2bContexts(t, "namespace", asRoot, `{}`)
	s.want(t, call{method: "PATCH", path: "/v1/sessions/" + box.SandboxID, body: `{"limits":{"memory_bytes":400000000}}`}, http.StatusOK, "")
	own, hostile, other := e2bContext{ID: "_python"}, create(`{}`), create(`{}`)
	prints := func(c e2bContext, code, want string) {
		t.Helper()
		if got := s.e2bPrints(t, box, c.ID, code); got != want {
			t.Errorf("%s: %q prints %q, want %q", c.ID, code, got, want)
		}
	}
	prints(own, "import os; x = 'own'", "")
	prints(other, "x = 'other'", "")
	prints(hostile, "import mmap\nm = mmap.mmap(-1, 1 << 30)\nfor i in range(0, 1 << 30, 4096): m[i] = 1", "KernelDied")
	prints(own, "print(x)", "own\n")
	prints(other, "print(x)", "other\n")
	prints(hostile, "import os, time\ntry:\n    while True:\n        if os.fork() == 0: time.sleep(1000)\nexcept OSError as e: print(e.errno)", "11\n")
	ask("POST", "/"+hostile.ID+"/restart", "", http.StatusOK)
	prints(own, "print(x, sum(name.isdigit() for name in os.listdir('/proc')) < 20)", "own True\n")
	prints(hostile, "import os, signal; os.kill(2, signal.SIGKILL); print('killed')", "killed\n")
	for _, c := range []e2bContext{own, hostile, other} {
		for s.e2bPrints(t, box, c.ID, "1") == "KernelDied" { // a cell that the old sandbox still got
		}
		prints(c, "print('x' in globals())", "False\n")
	}
}

// Where no control group holds the memory of a sandbox, the cell that takes it is interrupted, and at worst its context ends: not
// one that has variables and is idle.
func TestE2BContextsKeepTheirVariablesWhenAnotherOneTakesTheMemory(t *testing.T) {
	t.Parallel()
	s, box, _, create := e2bContexts(t, "landlock", asUser, `{}`)
	s.want(t, call{method: "PATCH", path: "/v1/sessions/" + box.SandboxID, body: `{"limits":{"memory_bytes":500000000}}`}, http.StatusOK, "")
	own, idle, hungry := e2bContext{ID: "_python"}, create(`{}`), create(`{}`)
	prints := func(c e2bContext, code, want string) {
		t.Helper()
		if got := s.e2bPrints(t, box, c.ID, code); got != want {
			t.Errorf("%s: %q prints %q, want %q", c.ID, code, got, want)
		}
	}
	prints(own, "x = 'own'", "")
	prints(idle, "x = b'x' * 220_000_000", "")
	prints(hungry, "import time\nx = 'hungry'\ndef take():\n    block = b'x' * 280_000_000\n    time.sleep(60)\ntake()", "MemoryError")
	prints(hungry, "print(x)", "hungry\n")
	prints(idle, "print(len(x))", "220000000\n")
	prints(hungry, "x = b'x' * 280_000_000\nwhile True:\n    try: time.sleep(60)\n    except BaseException: pass", "KernelDied")
	prints(own, "print(x)", "own\n")
	prints(idle, "print(len(x))", "220000000\n")
	prints(hungry, "print('x' in globals())", "False\n")
}

// A call in which a process cannot be interrupted, nor stopped, does not keep its context.
func TestAnE2BContextThatCannotBeStoppedIsDeleted(t *testing.T) {
	t.Parallel()
	eachTier(t, func(t *testing.T, tier string, who identity) {
		s, box, ask, create := e2bContexts(t, tier, who, `{}`)
		own, stuck, other := e2bContext{ID: "_python"}, create(`{}`), create(`{}`)
		if got := s.e2bPrints(t, box, own.ID, "import os; x = 'own'; os.mkfifo('fifo')"); got != "" {
			t.Fatal(got)
		}
		stop := "import os\nprint('begun', flush=True)\nos.posix_spawn('/bin/true', ['true'], {}, file_actions=[(os.POSIX_SPAWN_OPEN, 0, 'fifo', os.O_RDONLY, 0)])"
		id := s.queue(t, stuck.ID, stop)
		for event, err := range s.Client().ExecutionEvents(within(t), stuck.ID, id, 0) {
			if err != nil {
				t.Fatal(err)
			}
			if _, begun := event.Body.(api.Stream); begun {
				break
			}
		}
		ask("POST", "/"+stuck.ID+"/restart", "", http.StatusOK)
		if e := s.ended(t, stuck.ID, id); e.Status != api.StatusDied {
			t.Errorf("its cell is %s", e.Status)
		}
		s.queue(t, stuck.ID, stop)
		ask("DELETE", "/"+stuck.ID, "", http.StatusNoContent)
		for _, c := range []e2bContext{own, other} {
			if got := s.e2bPrints(t, box, c.ID, "print(globals().get('x', 'other'))"); got != map[e2bContext]string{own: "own\n", other: "other\n"}[c] {
				t.Errorf("beside it, %q is printed", got)
			}
		}
		s.e2bCall(t, "DELETE", "/e2b/sandboxes/"+box.SandboxID, s.Token, "", "", http.StatusNoContent)
	})
}

// wantBeside checks that the API shows the session of a context, that this changes nothing that belongs to its sandbox, and that it ends
// with that.
func (s *Server) wantBeside(t *testing.T, box e2bSandbox, c e2bContext) {
	t.Helper()
	path := "/v1/sessions/" + c.ID
	if info, err := s.Client().Session(within(t), c.ID); err != nil || info.Beside != box.SandboxID {
		t.Errorf("the session of a context is %+v (%v)", info, err)
	}
	for _, refused := range []struct{ method, path, body string }{
		{"PATCH", "", `{"limits":{"memory_bytes":300000000}}`}, {"PATCH", "", `{"network":{"mode":"full"}}`},
		{"PATCH", "", `{"checkpoints":{"mode":"auto"}}`}, {"POST", "/checkpoints", `{}`}, {"POST", "/fork", `{}`},
		{"POST", "/reset", `{"keep_files":false}`},
	} {
		answer := s.want(t, call{method: refused.method, path: path + refused.path, body: refused.body}, http.StatusBadRequest, api.CodeInvalidRequest)
		if !strings.Contains(string(answer.body), box.SandboxID) {
			t.Errorf("%s %s %s: %s", refused.method, refused.path, refused.body, answer.body)
		}
	}
	s.e2bCall(t, "GET", "/e2b/sandboxes/"+c.ID, s.Token, "", "", http.StatusNotFound)
	if listed := s.e2bCall(t, "GET", "/e2b/v2/sandboxes", s.Token, "", "", http.StatusOK); strings.Contains(string(listed.body), c.ID) {
		t.Errorf("a context is listed as a sandbox: %s", listed.body)
	}
	s.e2bCall(t, "DELETE", "/e2b/sandboxes/"+box.SandboxID, s.Token, "", "", http.StatusNoContent)
	s.want(t, call{method: "GET", path: path}, http.StatusNotFound, api.CodeSessionNotFound)
}
