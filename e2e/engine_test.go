package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"talaria/api"
)

// cellsOfBothEngines print the same in each engine.
var cellsOfBothEngines = []struct{ code, text string }{
	{"get_ipython().__class__.__name__", "'ZMQInteractiveShell'"},
	{"'IPKernelApp' in get_ipython().config", "True"},
	{"from IPython import get_ipython as other\nother() is get_ipython()", "True"},
	{"%env TAL_X=1\nimport os; os.environ['TAL_X']", "env: TAL_X=1\n'1'"},
	{"lines = !printf 'a\\nb\\n'\nlines.n, lines.s", "('a\\nb', 'a b')"},
	{"!exit 3\n_exit_code", "3"},
	{"%%bash\nfor i in 1 2; do echo b$i; done", "b1\nb2"},
	{"%%capture kept\nprint('hidden')", ""},
	{"kept.stdout", "'hidden\\n'"},
	{"import asyncio\nawait asyncio.sleep(0.01, 8)", "8"},
	{"Out[max(Out)]", "8"},
}

func TestBothEnginesRunCells(t *testing.T) {
	t.Parallel()
	if err := exec.Command("/usr/bin/python3", "-c", "import IPython").Run(); err != nil {
		t.Skip("/usr/bin/python3 has no IPython: apt-get install python3-ipython")
	}
	for _, engine := range []string{"stdlib", "ipython"} {
		t.Run(engine, func(t *testing.T) {
			t.Parallel()
			s := start(t, options{args: []string{"--engine", engine, "--python", "/usr/bin/python3"}})
			for _, isolation := range []api.IsolationMode{api.IsolationDefault, api.IsolationStrict} {
				session, err := s.Client().CreateSession(within(t), api.SessionRequest{Isolation: &isolation})
				if err != nil {
					t.Fatal(err)
				}
				if session.Kernel.Engine != engine {
					t.Errorf("%s: the engine of the session is %q", isolation, session.Kernel.Engine)
				}
				for _, cell := range cellsOfBothEngines {
					e := run(t, s.Client(), session.ID, cell.code)
					if text := strings.TrimRight(e.Text, "\n"); text != cell.text || e.Status != api.StatusOK {
						t.Errorf("%s: %s %s: %q, not %q", isolation, cell.code, e.Status, text, cell.text)
					}
				}
			}
		})
	}
}

func TestEngineThatIsMissingFailsTheStart(t *testing.T) {
	t.Parallel()
	venv := filepath.Join(t.TempDir(), "venv")
	if out, err := exec.Command("/usr/bin/python3", "-I", "-m", "venv", "--without-pip", venv).CombinedOutput(); err != nil {
		t.Skipf("/usr/bin/python3 makes no virtual environment: %s", out)
	}
	python := filepath.Join(venv, "bin", "python3")
	for _, args := range [][]string{{"doctor"}, {"serve", "--addr", "127.0.0.1:0"}} {
		cmd := exec.Command(binary, append(args, "--state-dir", filepath.Join(t.TempDir(), "state"))...)
		cmd.Env = append(os.Environ(), "TALARIA_ENGINE=ipython", "TALARIA_PYTHON="+python)
		out, err := cmd.CombinedOutput()
		if err == nil {
			t.Errorf("%s: went well", args[0])
		}
		for _, part := range []string{"engine", "IPython", "install", "engine: stdlib"} {
			if !strings.Contains(string(out), part) {
				t.Errorf("%s does not say %q: %s", args[0], part, out)
			}
		}
	}
}

// TestAStartThatIsInterruptedBlamesNoPython ends the server while it runs an interpreter to find out about it.
func TestAStartThatIsInterruptedBlamesNoPython(t *testing.T) {
	t.Parallel()
	state, dir := t.TempDir(), t.TempDir()
	fifo, python := filepath.Join(dir, "runs"), filepath.Join(dir, "python3")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := writeProgram(python, []byte("#!/bin/sh\necho > "+fifo+"; sleep 1000\n")); err != nil {
		t.Fatal(err)
	}
	var said strings.Builder
	serve := exec.CommandContext(within(t), binary, "serve", "--state-dir", state, "--addr", "127.0.0.1:0", "--python", python)
	serve.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir}
	serve.Stdout, serve.Stderr = &said, &said
	if err := serve.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.ReadFile(fifo); err != nil { // waits until it runs
		t.Fatal(err)
	}
	if err := serve.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := serve.Wait(); err == nil || said.String() != "talaria: terminated\n" {
		t.Errorf("%v: %s", err, said.String())
	}
	hosts := func() string {
		out, err := exec.Command(binary, "host", "list", "--state-dir", state).CombinedOutput()
		if err != nil {
			t.Fatal(err)
		}
		return string(out)
	}
	if list := hosts(); strings.Count(list, "\n") != 1 {
		t.Errorf("it leaves a host:\n%s", list)
	}
	// One that was killed before it was ready.
	if err := os.MkdirAll(filepath.Join(state, "hosts", "01a21eaa-262a-7745-921b-51edaa10b76f"), 0o700); err != nil {
		t.Fatal(err)
	}
	if list := strings.Fields(hosts()); strings.Join(list[5:], " ") != "01a21eaa-262a-7745-921b-51edaa10b76f ended - - 0" {
		t.Errorf("the hosts are %q", list)
	}
}
