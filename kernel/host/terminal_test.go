package host_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"talaria/kernel/command"
	"talaria/kernel/host"
	"talaria/kernel/kerneltest"
)

// newTerminals makes a rig whose sandboxes run that shell. No terminal may be open at the end.
func newTerminals(t *testing.T, shell kerneltest.Shell) *rig {
	t.Helper()
	t.Cleanup(func() {
		links, err := filepath.Glob("/proc/self/fd/*")
		if err != nil {
			t.Fatal(err)
		}
		for _, fd := range links {
			if name, _ := os.Readlink(fd); strings.HasPrefix(name, "/dev/pt") {
				t.Errorf("%s is open still", name)
			}
		}
	})
	return newRig(t, kerneltest.Cells(cells), func(_ *host.HostConfig, f *kerneltest.Fake) { f.Shell = shell })
}

func cells(*kerneltest.Cell) {}

func (r *rig) open() string {
	r.Helper()
	id, err := command.Ask(r.Context(), r.host, r.key, command.OpenTerminal{Size: command.TerminalSize{Rows: 24, Cols: 80}})
	if err != nil {
		r.Fatal(err)
	}
	return id
}

func (r *rig) write(id, text string) {
	r.Helper()
	if n, err := command.Ask(r.Context(), r.host, r.key, command.WriteTerminal{ID: id, Data: []byte(text)}); err != nil || n != len(text) {
		r.Fatalf("typed %d of %q: %v", n, text, err)
	}
}

// shows reads from an offset until wanted has come, or to the end if wanted is "".
func (r *rig) shows(id string, after int64, wanted string) (shown string, last command.TerminalOutput) {
	r.Helper()
	ctx, cancel := context.WithTimeout(r.Context(), patience)
	defer cancel()
	var all bytes.Buffer
	for !last.Ended && (wanted == "" || !strings.Contains(all.String(), wanted)) {
		var err error
		if last, err = command.Ask(ctx, r.host, r.key, command.ReadTerminal{ID: id, After: after}); err != nil {
			r.Fatalf("after %q: %v", all.String(), err)
		}
		if all.Len() > 0 && last.Offset != after {
			r.Fatalf("%d follows on %d", last.Offset, after)
		}
		all.Write(last.Data)
		after = last.Offset + int64(len(last.Data))
	}
	return all.String(), last
}

func TestATerminalShowsWhatIsTypedAndAnswered(t *testing.T) {
	r := newTerminals(t, kerneltest.Lines)
	id := r.open()
	r.write(id, "hello\n")
	if shown, _ := r.shows(id, 0, "[hello]\r\n"); shown != "hello\r\n[hello]\r\n" {
		t.Errorf("it shows %q", shown)
	}
	if shown, _ := r.shows(id, 8, "\n"); shown != "hello]\r\n" {
		t.Errorf("from 8 on it shows %q", shown)
	}
	r.write(id, "exit 7\n")
	for range 2 { // it can still be read, from every offset
		if _, last := r.shows(id, 16, ""); last.Code != 7 {
			t.Errorf("it ended with %d", last.Code)
		}
	}
	if _, last := r.shows(id, 1<<40, ""); last.Offset != int64(len("hello\r\n[hello]\r\nexit 7\r\n")) {
		t.Errorf("behind its end it is at %d", last.Offset)
	}
	r.write(id, "lost\n") // this is discarded
	if err := command.Tell(t.Context(), r.host, r.key, command.ResizeTerminal{ID: id, Size: command.TerminalSize{}}); err != nil {
		t.Error(err)
	}
}

func TestASizeReachesTheShell(t *testing.T) {
	sizes := make(chan *unix.Winsize, 1)
	r := newTerminals(t, func(_ context.Context, terminal *os.File) int {
		for b := make([]byte, 100); ; {
			if _, err := terminal.Read(b); err != nil {
				return 1
			}
			conn, err := terminal.SyscallConn()
			if err != nil {
				return 2
			}
			_ = conn.Control(func(fd uintptr) {
				size, _ := unix.IoctlGetWinsize(int(fd), unix.TIOCGWINSZ)
				sizes <- size
			})
		}
	})
	id := r.open()
	for _, c := range []struct {
		size       command.TerminalSize
		rows, cols uint16
	}{
		{command.TerminalSize{Rows: 40, Cols: 120}, 40, 120},
		{command.TerminalSize{Rows: 0, Cols: 65535}, 1, 1000},
	} {
		if err := command.Tell(t.Context(), r.host, r.key, command.ResizeTerminal{ID: id, Size: c.size}); err != nil {
			t.Fatal(err)
		}
		r.write(id, "\n")
		if got := <-sizes; got == nil || got.Row != c.rows || got.Col != c.cols {
			t.Errorf("%+v arrives as %+v", c.size, got)
		}
	}
}

// A process that the shell left running holds the terminal; the last output is still the shell's.
func TestTheLastWordsOfAShellAreKept(t *testing.T) {
	words := strings.Repeat("0123456789", 300)
	var holders []*os.File
	r := newTerminals(t, func(_ context.Context, terminal *os.File) int {
		fd, err := unix.FcntlInt(terminal.Fd(), unix.F_DUPFD_CLOEXEC, 0)
		if err != nil {
			return 1
		}
		holders = append(holders, os.NewFile(uintptr(fd), "holder"))
		_, _ = io.WriteString(terminal, words)
		return 3
	})
	for range 30 {
		id := r.open()
		if shown, last := r.shows(id, 0, ""); shown != words || last.Code != 3 {
			t.Fatalf("it shows %d bytes of %d, and ends with %d", len(shown), len(words), last.Code)
		}
	}
	for _, f := range holders {
		_ = f.Close()
	}
}

func TestOfMuchOutputTheEndIsKept(t *testing.T) {
	line := strings.Repeat("x", 98) + "\n"
	r := newTerminals(t, func(_ context.Context, terminal *os.File) int {
		for range 3 * command.TerminalBytes / 100 {
			if _, err := io.WriteString(terminal, line); err != nil {
				return 1
			}
		}
		_, _ = io.WriteString(terminal, "end")
		return 0
	})
	id := r.open()
	for after, ended := int64(0), false; !ended; { // a reader that is slower than the shell misses a part
		out, err := command.Ask(t.Context(), r.host, r.key, command.ReadTerminal{ID: id, After: after})
		if err != nil {
			t.Fatal(err)
		}
		after, ended = out.Offset+int64(len(out.Data)), out.Ended
	}
	const all = 3*command.TerminalBytes/100*100 + 3
	first, err := command.Ask(t.Context(), r.host, r.key, command.ReadTerminal{ID: id, After: 5})
	if err != nil || first.Offset != all-command.TerminalBytes {
		t.Errorf("it begins at %d of %d: %v", first.Offset, all, err)
	}
	if shown, _ := r.shows(id, 0, ""); len(shown) != command.TerminalBytes || !strings.HasSuffix(shown, "x\r\nend") {
		t.Errorf("%d bytes are kept", len(shown))
	}
}

func TestWhatAShellDoesNotReadIsTypedInPart(t *testing.T) {
	r := newTerminals(t, func(ctx context.Context, _ *os.File) int { <-ctx.Done(); return 0 })
	id := r.open()
	paste := []byte(strings.Repeat("a line\n", 200_000))
	n, err := command.Ask(t.Context(), r.host, r.key, command.WriteTerminal{ID: id, Data: paste})
	if err != nil || n >= len(paste) {
		t.Errorf("typed %d of %d: %v", n, len(paste), err)
	}
	if err := command.Tell(t.Context(), r.host, r.key, command.CloseTerminal{ID: id}); err != nil {
		t.Error(err)
	}
}

func TestATerminalIsClosedWhileItIsRead(t *testing.T) {
	for name, c := range map[string]struct {
		shell kerneltest.Shell
		code  int
	}{
		"one that heeds it":     {kerneltest.Lines, 128 + 1},
		"one that does not end": {func(ctx context.Context, _ *os.File) int { <-ctx.Done(); return 0 }, 128 + 9},
	} {
		t.Run(name, func(t *testing.T) {
			r := newTerminals(t, c.shell)
			id := r.open()
			r.write(id, "a\n")
			r.shows(id, 0, "a\r\n")
			ended := make(chan command.TerminalOutput)
			go func() {
				defer close(ended)
				for at := int64(3); ; {
					out, err := command.Ask(context.Background(), r.host, r.key, command.ReadTerminal{ID: id, After: at})
					if errors.Is(err, command.ErrNoTerminal) {
						return // between two pieces
					} else if err != nil {
						t.Error(err)
						return
					}
					if out.Ended {
						ended <- out
						return
					}
					at = out.Offset + int64(len(out.Data))
				}
			}()
			if err := command.Tell(t.Context(), r.host, r.key, command.CloseTerminal{ID: id}); err != nil {
				t.Fatal(err)
			}
			if out, ok := <-ended; ok && out.Code != c.code {
				t.Errorf("it ended with %d, want %d", out.Code, c.code)
			}
			if err := command.Tell(t.Context(), r.host, r.key, command.CloseTerminal{ID: id}); !errors.Is(err, command.ErrNoTerminal) {
				t.Errorf("closed twice: %v", err)
			}
		})
	}
}

func TestTerminalsGoWithTheirKernel(t *testing.T) {
	r := newTerminals(t, func(ctx context.Context, _ *os.File) int { <-ctx.Done(); return 0 })
	id, other := r.open(), r.open()
	ended := make(chan command.TerminalOutput, 1)
	go func() {
		out, err := command.Ask(context.Background(), r.host, r.key, command.ReadTerminal{ID: id, After: 0})
		if errors.Is(err, command.ErrNoKernel) { // it was told too late to wait
			out = command.TerminalOutput{Ended: true, Code: 128 + int(syscall.SIGKILL)}
		} else if err != nil {
			t.Error(err)
		}
		ended <- out
	}()
	if err := r.host.Stop(t.Context(), r.key, "checked"); err != nil {
		t.Fatal(err)
	}
	if out := <-ended; !out.Ended || out.Code != 128+int(syscall.SIGKILL) {
		t.Errorf("it ended with %+v", out)
	}
	_, readErr := command.Ask(t.Context(), r.host, r.key, command.ReadTerminal{ID: other, After: 0})
	_, openErr := command.Ask(t.Context(), r.host, r.key, command.OpenTerminal{Size: command.TerminalSize{}})
	_, writeErr := command.Ask(t.Context(), r.host, r.key, command.WriteTerminal{ID: other, Data: []byte("x")})
	for _, err := range []error{
		readErr, openErr, writeErr, command.Tell(t.Context(), r.host, r.key, command.CloseTerminal{ID: other}),
		command.Tell(t.Context(), r.host, r.key, command.ResizeTerminal{ID: other, Size: command.TerminalSize{}}),
	} {
		if !errors.Is(err, command.ErrNoKernel) {
			t.Errorf("when the kernel has gone: %v", err)
		}
	}
}

func TestTerminalsAreBounded(t *testing.T) {
	r := newTerminals(t, kerneltest.Lines)
	var ids []string
	for range command.MaxTerminals {
		ids = append(ids, r.open())
	}
	if _, err := command.Ask(t.Context(), r.host, r.key, command.OpenTerminal{Size: command.TerminalSize{}}); !errors.Is(err, command.ErrTooManyTerminals) {
		t.Fatalf("one more: %v", err)
	}
	r.write(ids[2], "exit 0\n")
	r.shows(ids[2], 0, "")
	ids = append(slices.Delete(ids, 2, 3), r.open())
	if got, err := command.Ask(t.Context(), r.host, r.key, command.ListTerminals{}); err != nil || !slices.Equal(got, ids) {
		t.Errorf("terminals %v, want %v: %v", got, ids, err)
	}
}

func TestAWaitForOutputEndsWithItsContext(t *testing.T) {
	r := newTerminals(t, kerneltest.Lines)
	id := r.open()
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if _, err := command.Ask(ctx, r.host, r.key, command.ReadTerminal{ID: id, After: 0}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("nothing comes: %v", err)
	}
	if _, err := command.Ask(t.Context(), r.host, r.key, command.ReadTerminal{ID: "other", After: 0}); !errors.Is(err, command.ErrNoTerminal) {
		t.Errorf("an unknown one: %v", err)
	}
}
