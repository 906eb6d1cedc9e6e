package e2e

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"talaria/client"
)

// TestTheClientLibraryInstallsAsThePagesSay runs the commands that stand before the first program of a reader's own, and
// then imports what they installed.
func TestTheClientLibraryInstallsAsThePagesSay(t *testing.T) {
	t.Parallel()
	s := start(t, options{})
	for _, page := range []struct{ file, section, folder, installed string }{
		{"../README.md", "Ten lines", ".", "sdk/talaria.js"},
		{"../examples/README.md", "", "examples", ".venv/bin/activate"},
	} {
		t.Run(page.file, func(t *testing.T) {
			root := t.TempDir()
			dir := filepath.Join(root, page.folder)
			for _, sub := range []string{filepath.Join(root, "bin"), dir} {
				if err := os.MkdirAll(sub, 0o755); err != nil {
					t.Fatal(err)
				}
			}
			if err := os.Symlink(binary, filepath.Join(root, "bin", "talaria")); err != nil {
				t.Fatal(err)
			}
			script := append(blocks(t, page.file, page.section), `python -c 'import talaria; print(talaria.__file__)'`)
			cmd := exec.CommandContext(within(t), "bash", "-euo", "pipefail", "-c", strings.Join(script, "\n"))
			cmd.Dir = dir
			cmd.Env = append(os.Environ(), "TALARIA_STATE_DIR="+s.StateDir, "PATH=/usr/bin:"+os.Getenv("PATH"))
			out, err := cmd.CombinedOutput()
			if err != nil || !strings.Contains(string(out), filepath.Join(dir, ".venv")) {
				t.Errorf("%v\n%s", err, out)
			}
			if _, err := os.Stat(filepath.Join(dir, page.installed)); err != nil {
				t.Error(err)
			}
		})
	}
}

// building is how long a build may take on a busy machine.
const building = 10 * time.Minute

// TestMakeRunServes runs the README's first command, opens what it prints, and ends it as Ctrl-C in a terminal does.
func TestMakeRunServes(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cmd := exec.Command("make", "-s", "run", "BIN="+filepath.Join(dir, "talaria"), "ARGS=--addr 127.0.0.1:0 --state-dir "+filepath.Join(dir, "state"))
	cmd.Dir, cmd.Stderr = "..", os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	interrupt := func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGINT) }
	late := time.AfterFunc(building, interrupt)
	defer late.Stop()
	served := false
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if url, ok := strings.CutPrefix(lines.Text(), "open "); ok && !served {
			served = true
			if err := client.New(strings.TrimSuffix(url, "/"), "").Healthy(within(t)); err != nil {
				t.Error(err)
			}
			interrupt()
		}
	}
	_ = cmd.Wait() // make says that it was interrupted
	if !served {
		t.Error("make run printed no address to open")
	}
}
