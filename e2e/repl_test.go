package e2e

import (
	"io"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
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
	cmd := s.command(within(t), append(args, "--state-dir", s.StateDir)...)
	cmd.Env = append(cmd.Env, "TERM=xterm")
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: s.credential}
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
	re := regexp.MustCompile(pattern)
	patience := time.After(startup)
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

// ends waits for the end of the program.
func (x *screen) ends(status int) {
	x.Helper()
	for range x.bytes {
	}
	_ = x.cmd.Wait()
	if got := x.cmd.ProcessState.ExitCode(); got != status {
		x.Errorf("the program exits with %d, not %d", got, status)
	}
}

func TestReplRunsCellsAndAttachShowsThem(t *testing.T) {
	s := start(t, options{})
	x := s.onTerminal(t, "repl", "--session", "work")
	x.await(`>>> $`)
	x.enter("import math; x = 6\r")
	x.await(`\n.*>>> $`)

	x.enter("math.sqr\t") // the one name that fits
	x.await(`math\.sqrt`)
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

func TestReplNeedsATerminal(t *testing.T) {
	s := start(t, options{})
	out, err := s.command(within(t), "repl", "--state-dir", s.StateDir).CombinedOutput()
	if err == nil || !regexp.MustCompile(`talaria repl needs a terminal; \S*talaria exec reads cells from files and pipes`).Match(out) {
		t.Errorf("without a terminal: %v: %s", err, out)
	}
}
