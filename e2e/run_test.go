package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"talaria/api"
)

// oneRun is a run and what is expected of it.
type oneRun struct {
	name    string
	request string // JSON, without the braces
	verdict api.Verdict
	stdout  string // all of it, or a beginning if it ends with "…"
	stderr  string // a part
	reason  string
	compile string // a part of the compiler's words
}

// post runs a program.
func (s *Server) run(t *testing.T, request string) api.RunResult {
	t.Helper()
	a := s.want(t, call{method: "POST", path: "/v1/run", body: "{" + request + "}"}, http.StatusOK, "")
	return decode[api.RunResult](t, string(a.body))
}

func (s *Server) check(t *testing.T, r oneRun) {
	t.Helper()
	got := s.run(t, r.request)
	head, isHead := strings.CutSuffix(r.stdout, "…")
	if got.Verdict != r.verdict || got.Reason != r.reason || !isHead && got.Stdout != r.stdout || isHead && !strings.HasPrefix(got.Stdout, head) ||
		!strings.Contains(got.Stderr, r.stderr) {
		t.Errorf("%s: %.2000s", r.name, fmt.Sprintf("%+v, compiled %+v", got, got.Compile))
	}
	if (got.ExitCode == 0) != (r.verdict == api.VerdictOK) && r.verdict != api.VerdictOutputLimit {
		t.Errorf("%s: exit code %d with the verdict %s", r.name, got.ExitCode, got.Verdict)
	}
	if r.compile != "" && (got.Compile == nil || !strings.Contains(got.Compile.Stderr+got.Compile.Stdout, r.compile)) {
		t.Errorf("%s: the compiler said %+v, want %q", r.name, got.Compile, r.compile)
	}
}

// hello has the same program in every language: it prints its first argument and what it reads.
var hello = map[string]string{
	"python": `import sys; print(sys.argv[1], sys.stdin.read())`,
	"cpp": `#include <iostream>
int main(int, char **a) { std::string s; std::cin >> s; std::cout << a[1] << " " << s << "\n"; }`,
	"c": `#include <stdio.h>
int main(int n, char **a) { char s[9]; if (scanf("%8s", s) != 1) return 1; printf("%s %s\n", a[1], s); return 0; }`,
	"javascript": `console.log(process.argv[2], require("fs").readFileSync(0, "utf8"))`,
	"java":       `public class Greeter { public static void main(String[] a) { System.out.println(a[0] + " " + new java.util.Scanner(System.in).next()); } }`,
	"go": `package main
import "os"
func main() { b := make([]byte, 9); n, _ := os.Stdin.Read(b); os.Stdout.WriteString(os.Args[1] + " " + string(b[:n]) + "\n") }`,
	"rust": `fn main() { let mut s = String::new(); std::io::stdin().read_line(&mut s).unwrap(); println!("{} {}", std::env::args().nth(1).unwrap(), s); }`,
	"bash": `read s; echo "$1 $s"`,
}

func quoted(t *testing.T, text string) string {
	t.Helper()
	b, err := json.Marshal(text)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestProgramsOfEveryLanguageRun skips a language that this machine lacks, and checks that the server says how to get it.
func TestProgramsOfEveryLanguageRun(t *testing.T) {
	t.Parallel()
	s := start(t, options{})
	for language, code := range hello {
		t.Run(language, func(t *testing.T) {
			request := fmt.Sprintf(`"language":%q,"code":%s,"args":["hello"],"stdin":"world","limits":{"time_s":60},"compile_limits":{"time_s":300}`, language, quoted(t, code))
			ctx, cancel := context.WithTimeout(t.Context(), programPatience) // more than the limits together
			defer cancel()
			a, err := s.tryDo(ctx, call{method: "POST", path: "/v1/run", body: "{" + request + "}"})
			if err != nil {
				t.Fatal(err)
			}
			if a.status == http.StatusUnprocessableEntity {
				problem := decode[api.Error](t, string(a.body))
				if problem.Code != api.CodeLanguageUnavailable || !strings.Contains(problem.Detail, "apt-get install ") {
					t.Errorf("refused with %+v", problem)
				}
				t.Skipf("SKIP: %s", problem.Detail)
			}
			got := decode[api.RunResult](t, string(a.body))
			if got.Verdict != api.VerdictOK || strings.TrimSpace(got.Stdout) != "hello world" || got.ExitCode != 0 || got.Usage.CPUMS < 0 || got.Usage.PeakMemoryBytes <= 0 {
				t.Errorf("%d %+v, compiled %+v", a.status, got, got.Compile)
			}
		})
	}
	s.want(t, call{method: "POST", path: "/v1/run", body: `{"language":"cobol","code":""}`}, http.StatusUnprocessableEntity, api.CodeLanguageUnavailable)
	if got := s.run(t, `"language":"C++","code":"int main() { return 3; }"`); got.ExitCode != 3 || got.Language != "cpp" || got.Compile == nil {
		t.Errorf("an alias: %+v", got)
	}
}

func TestEveryVerdictIsGiven(t *testing.T) {
	t.Parallel()
	s := start(t, options{})
	// slow compiles for as long as its depth says, in 2^depth steps, and does nothing then.
	slow := func(depth int) string {
		return quoted(t, fmt.Sprintf("template<int N,int M> struct F { static const int v = F<N-1,2*M>::v + F<N-1,2*M+1>::v; };\n"+
			"template<int M> struct F<0,M> { static const int v = 1; };\nint main() { return F<%d,1>::v == 0; }", depth))
	}
	bomb := "import os\nwhile True:\n  try: os.fork()\n  except OSError: print('held', flush=True); os._exit(1)"
	for _, r := range []oneRun{
		{name: "ok", request: `"language":"python","code":"print(1+1)"`, verdict: api.VerdictOK, stdout: "2\n"},
		{name: "exit code", request: `"language":"python","code":"import sys; sys.exit(7)"`, verdict: api.VerdictRuntimeError, reason: "exit:7"},
		{name: "exception", request: `"language":"python","code":"print(1)\n1/0"`, verdict: api.VerdictRuntimeError, reason: "exit:1", stdout: "1\n",
			stderr: "Traceback (most recent call last):\n  File \"main.py\", line 2, in <module>\n"},
		{name: "syntax", request: `"language":"python","code":"print("`, verdict: api.VerdictRuntimeError, reason: "exit:1", stderr: "SyntaxError"},
		{name: "signal", request: `"language":"python","code":"import os; os.abort()"`, verdict: api.VerdictRuntimeError, reason: "signal:SIGABRT"},
		{name: "segfault", request: `"language":"c","code":"#include <signal.h>\nint main(void) { raise(SIGSEGV); }"`, verdict: api.VerdictRuntimeError, reason: "signal:SIGSEGV"},
		{name: "does not compile", request: `"language":"c","code":"int main() { return x; }"`, verdict: api.VerdictCompileError, reason: "exit:1", compile: "undeclared"},
		{name: "time", request: `"language":"python","code":"print(1, flush=True)\nimport time\ntime.sleep(1000)","limits":{"time_s":4}`, verdict: api.VerdictTimeLimit,
			reason: "time_limit", stdout: "1\n"},
		{name: "CPU time", request: `"language":"python","code":"while True: pass","limits":{"time_s":60,"cpu_s":0.5}`, verdict: api.VerdictTimeLimit, reason: "cpu_limit"},
		{name: "time of the compiler alone", request: `"language":"cpp","code":` + slow(24) + `,"limits":{"time_s":60},"compile_limits":{"time_s":1}`,
			verdict: api.VerdictCompileError, reason: "time_limit"},
		{name: "time of the program alone", request: `"language":"cpp","code":` + slow(15) + `,"limits":{"time_s":1},"compile_limits":{"time_s":110}`,
			verdict: api.VerdictOK},
		{name: "time of a child", request: `"language":"bash","code":"sleep 1000 & echo $!; wait","limits":{"time_s":4}`, verdict: api.VerdictTimeLimit, reason: "time_limit", stdout: "…"},
		{name: "memory", request: `"language":"python","code":"b = []\nwhile True: b.append(bytearray(1 << 20))","limits":{"memory_bytes":67108864,"time_s":60}`,
			verdict: api.VerdictMemoryLimit, reason: "memory_limit"},
		{name: "output", request: `"language":"python","code":"while True: print('x' * 100)","limits":{"output_bytes":1000,"time_s":60}`, verdict: api.VerdictOutputLimit,
			reason: "output_limit", stdout: "xxxx…"},
		{name: "a child that stays", request: `"language":"bash","code":"sleep 1000 & disown; echo done"`, verdict: api.VerdictOK, stdout: "done\n"},
		{name: "fork bomb", request: `"language":"python","code":` + quoted(t, bomb) + `,"limits":{"time_s":20,"pids":16}`, verdict: api.VerdictRuntimeError,
			reason: "exit:1", stdout: "held\n…"},
		{name: "disk", request: `"language":"python","code":"f = open('big', 'wb')\nwhile True: f.write(bytes(1 << 20))"`, verdict: api.VerdictRuntimeError, reason: "exit:1", stderr: "too large"},
		{name: "network", request: `"language":"python","code":"import socket; socket.create_connection(('127.0.0.1', 22))"`, verdict: api.VerdictRuntimeError, reason: "exit:1",
			stderr: "Error"},
		{name: "files", request: `"language":"python","files":[{"name":"main.py","content":"from lib.a import b; print(b, open('data.txt').read())"},` +
			`{"name":"lib/a.py","content":"b = 5"},{"name":"data.txt","content":"é"}],"entry_file":"main.py"`, verdict: api.VerdictOK, stdout: "5 é\n"},
		{name: "C files", request: `"language":"c","files":[{"name":"main.c","content":"int f(void); int main(void) { return f(); }"},` +
			`{"name":"f.c","content":"int f(void) { return 0; }"}],"entry_file":"main.c"`, verdict: api.VerdictOK},
		{name: "invalid UTF-8", request: `"language":"python","code":"import os; os.write(1, b'a\\xff')"`, verdict: api.VerdictOK, stdout: "a\uFFFD"},
	} {
		t.Run(r.name, func(t *testing.T) { s.check(t, r) })
	}
	t.Run("nothing of one run is in the next", func(t *testing.T) {
		s.run(t, `"language":"bash","code":"echo secret > file; echo secret > /tmp/file; echo secret > /dev/shm/file; echo secret > $HOME/file"`)
		s.check(t, oneRun{name: "next", request: `"language":"bash","code":"cat file /tmp/file /dev/shm/file $HOME/file 2>/dev/null; ls"`, verdict: api.VerdictOK, stdout: "main.sh\n"})
	})
}

func TestARunIsRefusedForWhatItAsks(t *testing.T) {
	t.Parallel()
	s := start(t, options{config: "run:\n  owner_runs: 2\n  concurrency: 1\n"})
	post := func(body string, status int, code api.Code) {
		t.Helper()
		s.want(t, call{method: "POST", path: "/v1/run", body: body}, status, code)
	}
	for _, name := range []string{"../x", "/etc/x", "a/../../x", "", "a//b", "./a", "a/", "x\x00y", strings.Repeat("n", 256)} {
		post(fmt.Sprintf(`{"language":"python","files":[{"name":%s,"content":""}]}`, quoted(t, name)), http.StatusForbidden, api.CodePathOutside)
	}
	for _, body := range []string{
		`{}`, `{"language":"python"}`, `{"language":"python","code":"","files":[{"name":"a","content":""}]}`, `{"language":"python","code":"","what":1}`,
		`{"language":"python","code":5}`, `{"language":"python","code":""} x`, `{"language":"python","code":"","limits":{"time_s":0}}`,
		`{"language":"python","code":"","limits":{"memory_bytes":1}}`, `{"language":"python","code":"","args":["a\u0000b"]}`,
		`{"language":"python","files":[{"name":"a","content":""},{"name":"b","content":""}],"entry_file":"c"}`,
		`{"language":"python","files":[{"name":"a","content":""},{"name":"a/b","content":""}],"entry_file":"a"}`,
		`{"language":"python","files":[{"name":"a/b","content":""},{"name":"a","content":""}],"entry_file":"a"}`,
		`{"language":"python","code":"\ud800"}`,
	} {
		post(body, http.StatusBadRequest, api.CodeInvalidRequest)
	}
	post(`{"language":"python","code":"","limits":{"time_s":100000}}`, http.StatusUnprocessableEntity, api.CodeLimitExceeded)
	post(`{"language":"python","code":"`+strings.Repeat("#", api.MaxBody)+`"}`, http.StatusRequestEntityTooLarge, api.CodePayloadTooLarge)
	s.want(t, call{method: "POST", path: "/v1/run", token: "-", body: `{}`}, http.StatusUnauthorized, api.CodeUnauthorized)

	var all sync.WaitGroup
	statuses := make([]int, 6)
	for i := range statuses {
		all.Go(func() {
			statuses[i] = s.do(t, call{method: "POST", path: "/v1/run", body: `{"language":"python","code":"import time; time.sleep(1)"}`}).status
		})
	}
	all.Wait()
	refused := 0
	for _, status := range statuses {
		if status == http.StatusTooManyRequests {
			refused++
		} else if status != http.StatusOK {
			t.Errorf("status %d", status)
		}
	}
	if refused == 0 || refused > 4 {
		t.Errorf("statuses %v where two runs may be under way", statuses)
	}
}

func TestFiftyRunsAtOnceAllEnd(t *testing.T) {
	t.Parallel()
	s := start(t, options{})
	ctx := withinProgram(t)
	var all sync.WaitGroup
	for i := range 50 {
		all.Go(func() {
			a, err := s.tryDo(ctx, call{method: "POST", path: "/v1/run", body: fmt.Sprintf(`{"language":"python","code":"print(%d)","limits":{"time_s":120}}`, i)})
			if err != nil {
				t.Errorf("run %d: %v", i, err)
				return
			}
			if got := decode[api.RunResult](t, string(a.body)); got.Stdout != fmt.Sprintf("%d\n", i) {
				t.Errorf("run %d: %d %+v", i, a.status, got)
			}
		})
	}
	all.Wait()
}

// TestARunEndsWithItsServer kills the server while a program runs. The host survives, and the program does not.
func TestARunEndsWithItsServer(t *testing.T) {
	t.Parallel()
	everyTier(t, func(t *testing.T, tier string, who identity) {
		s := start(t, options{as: who, args: []string{"--tier", tier, "--min-tier", tier}})
		s.check(t, oneRun{name: "first", request: `"language":"python","code":"print(5)"`, verdict: api.VerdictOK, stdout: "5\n"})
		runs := watchRuns(t, filepath.Join(s.StateDir, "sessions"))
		answered := make(chan struct{})
		go func() {
			defer close(answered)
			request, _ := http.NewRequest(http.MethodPost, s.URL+"/v1/run", strings.NewReader(
				`{"language":"python","code":"import os, time\nif os.fork() == 0: os.setsid()\ntime.sleep(3600)","limits":{"time_s":300}}`))
			request.Header.Set("Authorization", "Bearer "+s.Token)
			request.Header.Set("Content-Type", "application/json")
			if res, err := http.DefaultClient.Do(request); err == nil {
				_ = res.Body.Close()
			}
		}()
		one := next(t, runs.made)
		s.Kill9()
		<-answered
		for next(t, runs.gone) != one { // the first run's may be on its way
		}
		s.Restart(t)
		s.check(t, oneRun{name: "after", request: `"language":"python","code":"print(6)"`, verdict: api.VerdictOK, stdout: "6\n"})
	})
}

// TestClientsOfOneShotEnginesRunPrograms is a client written from what such engines answer.
func TestClientsOfOneShotEnginesRunPrograms(t *testing.T) {
	t.Parallel()
	s := start(t, options{config: "origins: [\"https://editor.example.org\"]\nfronts:\n  engine:\n    addr: 127.0.0.1:0\n"})
	own := *s
	own.URL = s.Fronts["engine"]
	for _, at := range []struct {
		server *Server
		prefix string
	}{{s, "/engine"}, {&own, ""}, {&own, "/engine"}} {
		a := at.server.want(t, call{method: "GET", path: at.prefix + "/", token: "-"}, http.StatusOK, "")
		if string(a.body) != "UP!" {
			t.Errorf("GET %s/ answers %q", at.prefix, a.body)
		}
		for _, slash := range []string{"", "/"} {
			a := at.server.want(t, call{method: "POST", path: at.prefix + "/execute" + slash, body: `{"language":"python","code":"print(1+1)"}`}, http.StatusOK, "")
			if string(a.body) != `{"code":0,"output":"2\n","std_log":""}` {
				t.Errorf("%s/execute%s answers %s", at.prefix, slash, a.body)
			}
		}
	}
	for _, c := range []struct{ path, body, want string }{
		{"/execute/", `{"language":"python","code":"import sys; sys.exit(3)"}`, `{"code":3,"output":"","std_log":""}`},
		{"/v2/execute/", `{"language":"python","files":[{"name":"a.py","content":"import b"},{"name":"b.py","content":"print('x\\n')"}],"entry_file":"a.py"}`,
			`{"stdout":"x\n","stderr":"","exit_code":0}`},
		{"/execute", `{"language":"python","code":"print(1)","further":[1]}`, `{"code":0,"output":"1\n","std_log":""}`},
	} {
		if a := s.want(t, call{method: "POST", path: "/engine" + c.path, body: c.body}, http.StatusOK, ""); string(a.body) != c.want {
			t.Errorf("%s %s answers %s, want %s", c.path, c.body, a.body, c.want)
		}
	}
	type executed struct {
		Code   int
		Output string
		StdLog string `json:"std_log"`
	}
	for body, words := range map[string]string{
		`{"language":"c++","code":"int main() { return x; }"}`:              "not declared",
		`{"language":"python","code":"1/0"}`:                                "ZeroDivisionError",
		`{"language":"python","code":"import os; os.kill(os.getpid(), 9)"}`: "SIGKILL",
		`{"language":"python","code":"while True: print('x' * 1000)"}`:      "output limit",
	} {
		a := s.want(t, call{method: "POST", path: "/engine/execute/", body: body}, http.StatusOK, "")
		if got := decode[executed](t, string(a.body)); got.Code == 0 || !strings.Contains(got.StdLog, words) {
			t.Errorf("%s: %.1000s", body, a.body)
		}
	}
	s.want(t, call{method: "POST", path: "/engine/execute/", token: "-", body: `{"language":"python","code":""}`}, http.StatusUnauthorized, "")
	s.want(t, call{method: "POST", path: "/engine/execute/", token: "wrong", body: `{"language":"python","code":""}`}, http.StatusUnauthorized, "")
	s.want(t, call{method: "POST", path: "/engine/execute/", body: `{"language":"cobol","code":""}`}, http.StatusUnprocessableEntity, "")
	s.want(t, call{method: "POST", path: "/engine/execute/", body: `[`}, http.StatusBadRequest, "")
	a := own.want(t, call{method: "OPTIONS", path: "/execute/", token: "-", header: map[string]string{
		"Origin": "https://editor.example.org", "Access-Control-Request-Method": "POST"}}, http.StatusNoContent, "")
	if got := a.header.Get("Access-Control-Allow-Origin"); got != "https://editor.example.org" {
		t.Errorf("CORS allows %q", got)
	}
	own.want(t, call{method: "OPTIONS", path: "/execute/", token: "-", header: map[string]string{
		"Origin": "https://evil.example", "Access-Control-Request-Method": "POST"}}, http.StatusForbidden, "")
}

// runExamples matches the examples of docs/run.md.
var runExamples = regexp.MustCompile("(?s)<!-- example: run-([a-z]+) -->\n```sh\n(.*?)```")

func TestTheExamplesOfRunsRun(t *testing.T) {
	t.Parallel()
	s := start(t, options{})
	text, err := os.ReadFile("../docs/run.md")
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"python": "sum: 6\n", "files": "42\n"}
	found := runExamples.FindAllStringSubmatch(string(text), -1)
	if len(found) != len(want) {
		t.Errorf("docs/run.md has %d examples, want %d", len(found), len(want))
	}
	for _, example := range found {
		cmd := exec.CommandContext(within(t), "sh", "-c", example[2])
		cmd.Env = append(os.Environ(), "TALARIA_URL="+s.URL, "TALARIA_TOKEN="+s.Token)
		out, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		if got := decode[api.RunResult](t, string(out)); got.Verdict != api.VerdictOK || got.Stdout != want[example[1]] {
			t.Errorf("%s printed %s", example[1], out)
		}
	}
}
