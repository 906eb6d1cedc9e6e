package host

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"syscall"
	"testing"

	"talaria/kernel"
	"talaria/kernel/command"
)

// pipedProcess is a process whose two pipes the test writes.
type pipedProcess struct {
	out, err *os.File // what a program reads
	done     chan struct{}
}

func (p *pipedProcess) Control() io.ReadWriteCloser { return nil }
func (p *pipedProcess) Stdout() *os.File            { return p.out }
func (p *pipedProcess) Stderr() *os.File            { return p.err }
func (p *pipedProcess) Signal(syscall.Signal) error { return os.ErrProcessDone }
func (p *pipedProcess) Done() <-chan struct{}       { return p.done }
func (p *pipedProcess) Exit() kernel.Exit           { return kernel.Exit{Code: 3} }

func startPiped(t *testing.T) (p *program, out, errs *os.File, process *pipedProcess) {
	t.Helper()
	outRead, outWrite, err1 := os.Pipe()
	errRead, errWrite, err2 := os.Pipe()
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	process = &pipedProcess{out: outRead, err: errRead, done: make(chan struct{})}
	p = newProgram(command.ProgramInfo{ID: "1"}, process, nil)
	go p.run()
	t.Cleanup(func() { <-p.done; outWrite.Close(); errWrite.Close() })
	return p, outWrite, errWrite, process
}

func TestAllOutputOfAProgramReachesAReaderThatIsSlowerThanIt(t *testing.T) {
	p, out, errs, process := startPiped(t)
	want := bytes.Repeat([]byte("0123456789abcdef"), 4*command.ProgramBytes/16)
	go func() {
		_, _ = out.Write(want) // waits for the reader
		_, _ = errs.WriteString("and an error")
		close(process.done) // though the pipes stay open
	}()
	var stdout, stderr []byte
	for {
		piece, err := p.next(context.Background(), command.ReadProgram{Stdout: int64(len(stdout)), Stderr: int64(len(stderr))})
		if err != nil {
			t.Fatal(err)
		}
		stdout, stderr = append(stdout, piece.Stdout.Data...), append(stderr, piece.Stderr.Data...)
		if piece.Ended {
			if piece.Code != 3 {
				t.Errorf("the exit code is %d", piece.Code)
			}
			break
		}
	}
	if !bytes.Equal(stdout, want) || string(stderr) != "and an error" {
		t.Errorf("%d bytes of %d, and %q", len(stdout), len(want), stderr)
	}
}

func TestTheEndOfAProgramIsReadAgain(t *testing.T) {
	p, out, _, process := startPiped(t)
	if _, err := out.WriteString("abc"); err != nil {
		t.Fatal(err)
	}
	close(process.done)
	<-p.done
	for after, want := range map[int64]string{0: "abc", 2: "c", 3: "", 100: ""} {
		piece, err := p.next(context.Background(), command.ReadProgram{Stdout: after})
		if err != nil || string(piece.Stdout.Data) != want || !piece.Ended {
			t.Errorf("after %d comes %+v (%v)", after, piece, err)
		}
	}
	over, cancel := context.WithCancel(context.Background())
	cancel()
	waiting, _, _, last := startPiped(t)
	if _, err := waiting.next(over, command.ReadProgram{}); !errors.Is(err, context.Canceled) {
		t.Errorf("a wait that was called off ends with %v", err)
	}
	close(last.done)
}
