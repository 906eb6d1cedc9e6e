package e2e

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"talaria/api"
	"talaria/client"
)

// installKernel installs the kernel for Jupyter clients that have the returned variables.
func (s *Server) installKernel(t *testing.T, args ...string) (variables []string) {
	t.Helper()
	data := t.TempDir()
	variables = []string{"PATH=" + systemPath, "HOME=" + s.home, "TMPDIR=" + s.temp, "TERM=xterm", "JUPYTER_DATA_DIR=" + data,
		"JUPYTER_RUNTIME_DIR=" + filepath.Join(data, "runtime")}
	cmd := s.command(within(t), append([]string{"jupyter", "install", "--state-dir", s.StateDir}, args...)...)
	cmd.Env = append(cmd.Env, variables...)
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("install the kernel: %v: %s", err, out)
	}
	path := strings.TrimSpace(string(out))
	spec, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if path != filepath.Join(data, "kernels", "talaria", "kernel.json") || bytes.Contains(spec, []byte(s.Token)) {
		t.Errorf("%s contains %s", path, spec)
	}
	return variables
}

func TestJupyterClientsRunThroughZeroMQ(t *testing.T) {
	t.Parallel()
	s := start(t, options{})
	cmd := exec.CommandContext(withinProgram(t), jupyterPython(t), "testdata/jupyter/zeromq.py")
	cmd.Env = s.installKernel(t)
	cmd.Stderr, cmd.WaitDelay = s.out, ending
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	sessions := func(want int) {
		t.Helper()
		if list, err := s.Client().Sessions(within(t), client.SessionFilter{}); err != nil || len(list.Items) != want {
			t.Errorf("there are %d sessions, want %d: %v", len(list.Items), want, err)
		}
	}
	told := map[string]func(){
		"kill the server":      func() { s.Kill9(); s.Restart(t) },
		"the session is there": func() { sessions(1) },
		"the session is gone":  func() { sessions(0) },
	}
	for lines := bufio.NewScanner(stdout); lines.Scan(); {
		do := told[lines.Text()]
		if do == nil {
			t.Errorf("the client prints %q", lines.Text())
			continue
		}
		delete(told, lines.Text())
		do()
		fmt.Fprintln(stdin, "done")
	}
	if err := cmd.Wait(); err != nil || len(told) > 0 {
		t.Errorf("the client ended with %v, before %d of its steps", err, len(told))
	}
}

func TestJupyterConsoleUsesALastingSession(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../docs/jupyter.md")
	if err != nil {
		t.Fatal(err)
	}
	if commands := "```sh\ntalaria jupyter install\njupyter console --kernel talaria\n```"; !bytes.Contains(page, []byte(commands)) {
		t.Errorf("docs/jupyter.md does not have the commands of this test: %s", commands)
	}
	s := start(t, options{})
	variables := s.installKernel(t, "--session", "work")
	console := func() *screen {
		cmd := exec.CommandContext(withinProgram(t), jupyterPython(t), "/usr/bin/jupyter-console", "--kernel", "talaria", "--simple-prompt")
		cmd.Env = variables
		return screenOf(t, cmd)
	}
	x := console()
	x.await(`In \[1\]: $`)
	x.enter("x = 6 * 7; x\r")
	x.await(`Out\[1\]: 42\s+In \[2\]: $`)
	x.enter("name = input('who? ')\r")
	x.await(`who\? $`)
	x.enter("me\r")
	x.await(`In \[3\]: $`)
	x.enter("print('be' + 'gun'); import time; time.sleep(600)\r")
	x.await(`begun`)
	x.enter("\x03")
	x.await(`KeyboardInterrupt\s+In \[4\]: $`)
	x.enter("\x04")
	x.await(`exit`)
	x.enter("y\r")
	x.ends(0)
	made, err := s.Client().CreateToken(within(t), "work", api.SessionTokenRequest{Rights: []api.Right{api.RightRead, api.RightRun}})
	if err != nil {
		t.Fatal(err)
	}
	variables = append(variables, "TALARIA_TOKEN="+made.Token)
	x = console()
	x.await(`In \[\d\]: $`)
	x.enter("x + 1\r")
	x.await(`Out\[\d\]: 43`)
	s.want(t, call{method: "DELETE", path: "/v1/sessions/work"}, 204, "")
}

func TestAJupyterKernelSaysWhyItCannotStart(t *testing.T) {
	t.Parallel()
	s := start(t, options{})
	dir := t.TempDir()
	file := func(text string) string {
		t.Helper()
		path := filepath.Join(dir, "connection.json")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	ports := `"shell_port": 1, "control_port": 2, "stdin_port": 3, "iopub_port": 4, "hb_port": 5`
	for want, args := range map[string][]string{
		"set TALARIA_TOKEN":            {"install", "--token", "t"},
		"--name may contain only":      {"install", "--name", "a/b"},
		"--session must be":            {"install", "--session", "a/b"},
		"--connection-file is missing": {"kernel"},
		"no such file":                 {"kernel", "-f", filepath.Join(dir, "nothing")},
	} {
		s.fails(t, 2, want, append([]string{"jupyter"}, args...)...)
	}
	for text, want := range map[string]string{
		`{"transport": "pgm"}`: `"pgm"`,
		`{"transport": "tcp", "ip": "127.0.0.1", "key": "k", "signature_scheme": "hmac-md5", ` + ports + `}`:  "hmac-md5",
		`{"transport": "tcp", "ip": "127.0.0.1", "key": "", ` + strings.Replace(ports, "5", "70000", 1) + `}`: "hb_port is 70000",
		`[]`: "is not a connection file",
	} {
		s.fails(t, 2, want, "jupyter", "kernel", "-f", file(text))
	}
}

// fails runs the program, which is to fail with this status and text.
func (s *Server) fails(t *testing.T, status int, want string, args ...string) {
	t.Helper()
	cmd := s.command(within(t), append(args, "--state-dir", s.StateDir)...)
	var problem bytes.Buffer
	cmd.Stderr = &problem
	_ = cmd.Run() // its status is in ProcessState
	if got := cmd.ProcessState.ExitCode(); got != status || !strings.Contains(problem.String(), want) {
		t.Errorf("%q exits with %d and %q, want %d and %q", args, got, problem.String(), status, want)
	}
}
