package kerneltest

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"talaria/kernel"
)

// result is the exit and the output of a command.
type result struct {
	stdout, stderr string
	exit           kernel.Exit
}

// start runs a command, whose streams are closed at the end of the test.
func start(t *testing.T, s kernel.Sandbox, cmd kernel.Program) kernel.Process {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	p, err := s.Start(ctx, cmd)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.Stdout().Close()
		p.Stderr().Close()
		if control := p.Control(); control != nil {
			control.Close()
		}
	})
	return p
}

// python runs code to its end in an interpreter of its own, started as a command.
func (r *rig) python(t *testing.T, s kernel.Sandbox, code string) result {
	t.Helper()
	return finish(t, start(t, s, r.pythonCommand(code)))
}

func (r *rig) pythonCommand(code string) kernel.Program {
	return kernel.Program{Args: []string{r.env.Python, "-c", code}}
}

// finish waits for a command and reads all of its output.
func finish(t *testing.T, p kernel.Process) result {
	t.Helper()
	deadline := time.Now().Add(patience)
	stderr := make(chan string, 1)
	for _, f := range []*os.File{p.Stdout(), p.Stderr()} {
		if err := f.SetReadDeadline(deadline); err != nil {
			t.Fatalf("the output is not in non-blocking mode: %v", err)
		}
	}
	go func() {
		text, _ := io.ReadAll(p.Stderr())
		stderr <- string(text)
	}()
	stdout, err := io.ReadAll(p.Stdout())
	if err != nil {
		t.Fatalf("read output: %v", err)
	}
	res := result{stdout: string(stdout), stderr: <-stderr}
	wait(t, p)
	res.exit = p.Exit()
	return res
}

// wait waits for the end of a process.
func wait(t *testing.T, p kernel.Process) {
	t.Helper()
	select {
	case <-p.Done():
	case <-time.After(patience):
		t.Fatal("the process does not end")
	}
}

// output reads the lines of a process that keeps running.
func output(t *testing.T, p kernel.Process) lines {
	t.Helper()
	if err := p.Stdout().SetReadDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	return lines{t: t, scanner: bufio.NewScanner(p.Stdout())}
}

// prints runs code that must succeed and print want.
func (r *rig) prints(t *testing.T, s kernel.Sandbox, code, want string) {
	t.Helper()
	res := r.python(t, s, code)
	if res.exit != (kernel.Exit{}) || strings.TrimSpace(res.stdout) != want {
		t.Errorf("printed %q, not %q; %+v %s", res.stdout, want, res.exit, res.stderr)
	}
}

// hostPath returns the host's path of a directory of a Spec.
func hostPath(t *testing.T, dir *os.File) string {
	t.Helper()
	path, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", dir.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	return path
}
