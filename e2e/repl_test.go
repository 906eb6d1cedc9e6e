package e2e

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"

	"talaria/api"
	"talaria/client"
)

// screen is a program on a terminal of its own.
type screen struct {
	*testing.T
	cmd   *exec.Cmd
	tty   *os.File
	bytes chan []byte // closed at the end of the terminal
	seen  string      // since the last match
}

// onTerminal starts the program on a terminal.
func (s *Server) onTerminal(t *testing.T, args ...string) *screen {
	t.Helper()
	return s.onTerminalOf(t, []string{"TERM=xterm"}, args...)
}

// onTerminalOf starts the program on a terminal that sets these variables.
func (s *Server) onTerminalOf(t *testing.T, variables []string, args ...string) *screen {
	t.Helper()
	cmd := s.command(within(t), append(args, "--state-dir", s.StateDir)...)
	cmd.Env = append(cmd.Env, variables...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: s.credential}
	return screenOf(t, cmd)
}

// screenOf starts a program on a terminal.
func screenOf(t *testing.T, cmd *exec.Cmd) *screen {
	t.Helper()
	tty, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: 24, Cols: 100})
	if err != nil {
		t.Fatal(err)
	}
	x := &screen{T: t, cmd: cmd, tty: tty, bytes: make(chan []byte)}
	done := make(chan struct{})
	go func() {
		defer close(x.bytes)
		for {
			b := make([]byte, 4096)
			n, err := tty.Read(b)
			if n > 0 {
				select {
				case x.bytes <- b[:n]:
				case <-done:
					return
				}
			}
			if err != nil {
				return
			}
		}
	}()
	t.Cleanup(func() {
		close(done)
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		tty.Close()
	})
	return x
}

// await waits until the terminal shows something after the last match.
func (x *screen) await(pattern string) string {
	x.Helper()
	return x.press("", pattern)
}

// press enters keys, and again each second until the terminal shows something: a kernel on a busy machine may answer too late.
func (x *screen) press(keys, pattern string) string {
	x.Helper()
	re := regexp.MustCompile(pattern)
	patience := time.After(startup)
	again := time.NewTicker(time.Second)
	defer again.Stop()
	if keys == "" {
		again.Stop()
	} else {
		x.enter(keys)
	}
	for {
		if at := re.FindStringIndex(x.seen); at != nil {
			found := x.seen[:at[1]]
			x.seen = x.seen[at[1]:]
			return found
		}
		select {
		case b, more := <-x.bytes:
			if !more {
				x.Fatalf("the program ended; %q is not in %q", pattern, x.seen)
			}
			x.seen += string(b)
		case <-again.C:
			x.enter(keys)
		case <-patience:
			x.Fatalf("%q does not come; there is %q", pattern, x.seen)
		}
	}
}

func (x *screen) enter(keys string) {
	x.Helper()
	if _, err := io.WriteString(x.tty, keys); err != nil {
		x.Fatal(err)
	}
}

// ends waits for the end of the program, and returns what it has shown since the last match.
func (x *screen) ends(status int) string {
	x.Helper()
	for b := range x.bytes {
		x.seen += string(b)
	}
	_ = x.cmd.Wait()
	if got := x.cmd.ProcessState.ExitCode(); got != status {
		x.Errorf("the program exits with %d, not %d", got, status)
	}
	return x.seen
}

func TestReplRunsCellsAndAttachShowsThem(t *testing.T) {
	t.Parallel()
	s := start(t, options{})
	x := s.onTerminal(t, "repl", "--session", "work")
	x.await(`>>> $`)
	x.enter("import math; x = 6\r")
	x.await(`\n.*>>> $`)

	x.enter("math.sqr")
	x.press("\t", `math\.sqrt`) // the one name that fits
	x.enter("(16)\r")
	x.await(`\n4\.0\r\n`)

	x.await(`>>> $`)
	x.enter("for i in range(2):\r")
	x.await(`\.\.\. +`)
	x.enter("print('row', i)\r")
	x.await(`\.\.\. +`)
	x.enter("\r") // the indentation is not intended
	x.await(`\nrow 0\r\nrow 1\r\n`)

	x.await(`>>> $`)
	x.enter("import time; print('beg' + 'un'); time.sleep(600)\r")
	x.await(`\nbegun\r\n`)
	x.enter("\x03")
	x.await(`\[interrupted; variables kept\]`)

	x.await(`>>> $`)
	x.enter("half a li\x03")
	x.await(`KeyboardInterrupt`)

	x.await(`>>> $`)
	x.enter("n = input('wh' + 'o? ')\r")
	x.await(`who\? $`)
	x.enter("Ada\r")
	x.await(`>>> $`)
	x.enter("print('hi', n, x)\r")
	x.await(`\nhi Ada 6\r\n`)
	x.await(`>>> $`)
	x.enter("1/0\r")
	x.await(`ZeroDivisionError`)
	x.await(`>>> $`)
	x.enter("\x04")
	x.ends(0)

	x = s.onTerminal(t, "attach", "work")
	log := x.await(`>>> $`)
	for _, want := range []string{"In [1]: ", "hi Ada 6", "ZeroDivisionError"} {
		if !strings.Contains(log, want) {
			t.Errorf("the log lacks %q: %q", want, log)
		}
	}
	x.enter("\x1b[A") // the last line of the last run
	x.await(`1/0`)
	x.enter("\x03")
	x.await(`>>> $`)
	x.enter("x * 7\r")
	x.await(`\n42\r\n`)
	x.await(`>>> $`)
	x.enter("exit\r")
	x.ends(0)
}

func TestReplFailsIfAFileCouldNotBeSaved(t *testing.T) {
	t.Parallel()
	catchHangup(t)
	s := start(t, options{})
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	x := s.onTerminal(t, "repl", "--session", "work", "--artifacts", filepath.Join(file, "below"))
	x.await(`>>> $`)
	x.enter("n = open('out.csv', 'w').write('x')\r")
	x.await(`save "out.csv": not a directory`)
	x.await(`>>> $`)
	x.enter("\x04")
	x.ends(1)

	x = s.onTerminal(t, "repl", "--artifacts", filepath.Join(file, "below")) // in a session that ends with it
	x.await(`>>> $`)
	x.enter("n = open('out.csv', 'w').write('y')\r")
	x.await(`save "out.csv": not a directory`)
	x.await(`>>> $`)
	if err := x.cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	x.ends(128 + int(syscall.SIGHUP))
	page, err := s.Client().Sessions(t.Context(), client.SessionFilter{})
	if err != nil || len(page.Items) != 2 {
		t.Errorf("the session with the only copy of the file was deleted: %+v, %v", page.Items, err)
	}
}

func TestReplNeedsATerminal(t *testing.T) {
	t.Parallel()
	s := start(t, options{})
	out, err := s.command(within(t), "repl", "--state-dir", s.StateDir).CombinedOutput()
	if err == nil || !regexp.MustCompile(`talaria repl needs a terminal; \S*talaria exec reads cells from files and pipes`).Match(out) {
		t.Errorf("without a terminal: %v: %s", err, out)
	}
}

// onePixel is a PNG.
const onePixel = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGNgAAAAAgABSK+kcQAAAABJRU5ErkJggg=="

func TestTheProgramUsesColourAndDrawsOnATerminal(t *testing.T) {
	t.Parallel()
	s := start(t, options{})
	runOK(t, s.Client(), session(t, s.Client(), api.SessionRequest{ID: new("work")}), "pass")
	for _, c := range []struct {
		name      string
		variables []string
		coloured  bool
	}{
		{"a terminal", []string{"TERM=xterm"}, true},
		{"NO_COLOR", []string{"TERM=xterm", "NO_COLOR=1"}, false},
		{"an empty NO_COLOR", []string{"TERM=xterm", "NO_COLOR="}, true},
		{"a dumb terminal", []string{"TERM=dumb"}, false},
	} {
		shown := s.onTerminalOf(t, c.variables, "sessions").ends(0) + s.onTerminalOf(t, c.variables, "exec", "-s", "work", "-c", "1/0").ends(1)
		if got := strings.Contains(shown, "\x1b["); got != c.coloured || !strings.Contains(shown, "ZeroDivisionError: division by zero") {
			t.Errorf("%s: there is colour: %v, in %q", c.name, got, shown)
		}
		if want := "\x1b[31m\x1b[1mZeroDivisionError: division by zero\x1b[0m"; c.coloured && !strings.Contains(shown, want) {
			t.Errorf("%s: %q lacks %q", c.name, shown, want)
		}
	}
	out, err := s.command(within(t), "sessions", "--state-dir", s.StateDir).Output()
	if err != nil || strings.Contains(string(out), "\x1b") {
		t.Errorf("a pipe gets %q (%v)", out, err)
	}

	picture := []string{"exec", "-s", "work", "-c", "from IPython.display import Image, display\n" +
		"import base64; display(Image(base64.b64decode('" + onePixel + "')))"}
	for _, c := range []struct {
		variables []string
		want      string
	}{
		{[]string{"TERM=xterm-kitty"}, "\x1b_Ga=T,f=100,q=2,m=0;" + onePixel + "\x1b\\"},
		{[]string{"TERM=xterm", "TERM_PROGRAM=WezTerm"}, ":" + onePixel + "\a"},
		{[]string{"TERM=xterm"}, "[image; --artifacts DIR saves it]"},
	} {
		if shown := s.onTerminalOf(t, c.variables, picture...).ends(0); !strings.Contains(shown, c.want) {
			t.Errorf("%v: %q lacks %q", c.variables, shown, c.want)
		}
	}
}
