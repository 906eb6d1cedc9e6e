package e2e

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// inScript is the test of a script, which begins with its server, and not after the servers of all scripts.
type inScript struct{ *testing.T }

func (inScript) Parallel() {}

func (inScript) Verbose() bool { return testing.Verbose() }

func (s inScript) Run(name string, test func(testscript.T)) {
	s.T.Run(name, func(t *testing.T) { test(inScript{t}) })
}

// TestTheCommandsDoWhatTheyPrint runs the scripts of testdata/script, each against a server of its own.
func TestTheCommandsDoWhatTheyPrint(t *testing.T) {
	t.Parallel()
	scripts, err := filepath.Glob("testdata/script/*.txtar")
	if err != nil || len(scripts) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	for _, script := range scripts {
		t.Run(strings.TrimSuffix(filepath.Base(script), ".txtar"), func(t *testing.T) {
			t.Parallel()
			s := start(t, options{args: append([]string{"--interrupt-grace", "5s"}, manual.args...)})
			deadline, _ := t.Deadline() // none is the zero time
			testscript.RunT(inScript{t}, testscript.Params{
				Files:              []string{script},
				Deadline:           deadline,
				RequireUniqueNames: true,
				Cmds:               map[string]func(*testscript.TestScript, bool, []string){"exits": exits},
				Condition: func(name string) (bool, error) {
					if name != "root" {
						return false, fmt.Errorf("there is no condition %q", name)
					}
					return os.Getuid() == 0, nil
				},
				Setup: func(env *testscript.Env) error {
					env.Setenv("PATH", filepath.Dir(binary)+string(os.PathListSeparator)+os.Getenv("PATH"))
					env.Setenv("HOME", s.home)
					env.Setenv("TALARIA_STATE_DIR", s.StateDir)
					env.Setenv("SERVER_URL", s.URL)
					return nil
				},
			})
		})
	}
}

// exits runs a program that must end with the given status: exits 124 talaria exec …
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits status program [args...]")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		var ended *exec.ExitError
		if !errors.As(err, &ended) {
			ts.Fatalf("%v", err)
		}
		got = ended.ExitCode()
	}
	if got != want {
		ts.Fatalf("exit status %d, want %d", got, want)
	}
}
