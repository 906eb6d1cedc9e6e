package e2e

import (
	"bufio"
	"errors"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"

	"talaria/api"
	"talaria/client"
)

// wantNoSessions checks that a program has deleted its temporary session.
func (s *Server) wantNoSessions(t *testing.T) {
	t.Helper()
	page, err := s.Client().Sessions(within(t), client.SessionFilter{})
	if err != nil || len(page.Items) > 0 {
		t.Errorf("the program left %d sessions: %v", len(page.Items), err)
	}
}

// running is a program with its streams.
type running struct {
	*exec.Cmd
	in       io.WriteCloser
	out, err *bufio.Reader
	closeOut func() error
}

func (s *Server) begin(t *testing.T, args ...string) *running {
	t.Helper()
	cmd := s.command(within(t), append(args, "--state-dir", s.StateDir)...)
	in, errIn := cmd.StdinPipe()
	out, errOut := cmd.StdoutPipe()
	stderr, errErr := cmd.StderrPipe()
	if err := errors.Join(errIn, errOut, errErr, cmd.Start()); err != nil {
		t.Fatal(err)
	}
	return &running{cmd, in, bufio.NewReader(out), bufio.NewReader(stderr), out.Close}
}

func (r *running) ends(t *testing.T, status int) {
	t.Helper()
	_ = r.Wait()
	if got := r.ProcessState.ExitCode(); got != status {
		t.Errorf("the program ends with %v, not %d", r.ProcessState, status)
	}
}

// catchHangup has SIGHUP end programs that a test starts: they would inherit that the tests ignore it, as below nohup.
func catchHangup(t *testing.T) {
	caught := make(chan os.Signal, 1)
	signal.Notify(caught, syscall.SIGHUP)
	t.Cleanup(func() { signal.Stop(caught) })
}

func TestExecDeletesItsSessionHoweverItEnds(t *testing.T) {
	t.Parallel()
	catchHangup(t)
	s := start(t, manual)
	t.Run("nobody reads", func(t *testing.T) {
		r := s.begin(t, "exec", "-c", "while True: print(1)")
		if _, err := r.out.ReadString('\n'); err != nil {
			t.Fatal(err)
		}
		if err := r.closeOut(); err != nil {
			t.Fatal(err)
		}
		r.ends(t, 128+int(syscall.SIGPIPE))
		s.wantNoSessions(t)
	})
	for _, sent := range []syscall.Signal{syscall.SIGTERM, syscall.SIGHUP, syscall.SIGINT} {
		t.Run(sent.String(), func(t *testing.T) {
			r := s.begin(t, "exec", "-c", "import time\nprint('begun', flush=True)\ntime.sleep(600)")
			if _, err := r.out.ReadString('\n'); err != nil {
				t.Fatal(err)
			}
			if err := r.Process.Signal(sent); err != nil {
				t.Fatal(err)
			}
			r.ends(t, 128+int(sent))
			s.wantNoSessions(t)
		})
	}
	t.Run("full disk", func(t *testing.T) {
		full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer full.Close()
		cmd := s.command(within(t), "exec", "-c", "print(1)", "--state-dir", s.StateDir)
		var stderr strings.Builder
		cmd.Stdout, cmd.Stderr = full, &stderr
		_ = cmd.Run()
		if got := cmd.ProcessState.ExitCode(); got != 1 || !strings.Contains(stderr.String(), "write the output: no space left on device") {
			t.Errorf("exit status %d, %q", got, stderr.String())
		}
		s.wantNoSessions(t)
	})
	t.Run("repl", func(t *testing.T) {
		x := s.onTerminal(t, "repl")
		x.await(`>>> `)
		x.enter("import time; print('beg' + 'un'); time.sleep(600)\r")
		x.await(`begun`)
		if err := x.cmd.Process.Signal(syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
		x.ends(128 + int(syscall.SIGHUP))
		s.wantNoSessions(t)
	})
	t.Run("queued", func(t *testing.T) {
		c := s.Client()
		id := session(t, c, api.SessionRequest{})
		busy, err := c.Attach(within(t), id, client.AttachOptions{})
		if err != nil {
			t.Fatal(err)
		}
		defer busy.Close()
		if _, err := busy.Execute(within(t), api.ExecutionRequest{Code: new("import time; time.sleep(600)")}); err != nil {
			t.Fatal(err)
		}
		r := s.begin(t, "exec", "-s", id, "--json", "-c", "1")
		if line, err := r.out.ReadString('\n'); err != nil || !strings.Contains(line, "execution_queued") {
			t.Fatal(line, err)
		}
		if err := r.Process.Signal(syscall.SIGINT); err != nil {
			t.Fatal(err)
		}
		r.ends(t, 130)
	})
}

func TestExecWaitsForTheAnswerOfAnybody(t *testing.T) {
	t.Parallel()
	s := start(t, manual)
	asked := func(t *testing.T, args ...string) *running {
		t.Helper()
		r := s.begin(t, append([]string{"exec", "-c", "print('Hi', input('Who? '))"}, args...)...)
		if prompt, err := r.err.ReadString(' '); err != nil || prompt != "Who? " {
			t.Fatalf("%q, %v", prompt, err)
		}
		return r
	}
	for _, sent := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
		t.Run(sent.String(), func(t *testing.T) {
			r := asked(t)
			if err := r.Process.Signal(sent); err != nil {
				t.Fatal(err)
			}
			r.ends(t, 128+int(sent))
			s.wantNoSessions(t)
		})
	}
	t.Run("another client", func(t *testing.T) {
		r := asked(t, "-s", "shared")
		found, err := s.Client().Session(within(t), "shared")
		if err != nil || found.PendingInput == nil {
			t.Fatalf("no question is open: %v", err)
		}
		if err := s.Client().Input(within(t), "shared", api.InputRequest{RequestID: &found.PendingInput.RequestID, Value: "Bob"}); err != nil {
			t.Fatal(err)
		}
		if said, err := r.out.ReadString('\n'); err != nil || said != "Hi Bob\n" {
			t.Errorf("%q, %v", said, err)
		}
		r.ends(t, 0)
	})
	t.Run("password", func(t *testing.T) {
		x := s.onTerminal(t, "exec", "-c", "import getpass; print('has', len(getpass.getpass('Key? ')))")
		x.await(`Key\? `)
		x.enter("hunter2\n")
		if seen := x.ends(0); !strings.Contains(seen, "has 7") || strings.Contains(seen, "hunter2") {
			t.Errorf("the terminal shows %q", seen)
		}
	})
	t.Run("echo", func(t *testing.T) { // what is pasted while the prompt is still being shown
		terminal, in, err := pty.Open()
		if err != nil {
			t.Fatal(err)
		}
		defer terminal.Close()
		defer in.Close()
		cmd := s.command(within(t), "exec", "-c", "import getpass; getpass.getpass('Key? ' + 'x' * 60_000)", "--state-dir", s.StateDir)
		cmd.Stdin = in
		prompt, to, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		defer prompt.Close()
		if _, err := unix.FcntlInt(to.Fd(), unix.F_SETPIPE_SZ, 4096); err != nil { // less than the prompt
			t.Fatal(err)
		}
		cmd.Stderr = to
		if err := errors.Join(cmd.Start(), to.Close()); err != nil {
			t.Fatal(err)
		}
		if _, err := prompt.Read(make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
		if settings, err := unix.IoctlGetTermios(int(in.Fd()), unix.TCGETS); err != nil || settings.Lflag&unix.ECHO != 0 {
			t.Errorf("the terminal shows what is typed (%v)", err)
		}
		if _, err := terminal.WriteString("hunter2\n"); err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, prompt)
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
	})
}
