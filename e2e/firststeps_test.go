package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
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
