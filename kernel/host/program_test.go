package host

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
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

// A program that ended is kept while somebody reads what it printed, however many others start.
func TestAnEndedProgramIsKeptForItsReader(t *testing.T) {
	k := &interpreter{}
	run := func(id string) (p *program, end func()) {
		p, out, _, process := startPiped(t)
		p.info.ID = id
		if id == "slow" {
			_, _ = out.Write(bytes.Repeat([]byte("x"), 100_000))
		}
		k.programs.list = append(k.programs.list, p)
		return p, func() { close(process.done); <-p.done }
	}
	slow, end := run("slow")
	end()
	first, err := k.readProgram(t.Context(), command.ReadProgram{ID: "slow"})
	if err != nil || first.Ended {
		t.Fatalf("the first piece: ended %t, %v", first.Ended, err)
	}
	for i := range command.MaxPrograms - 1 {
		_, end := run(fmt.Sprint("running ", i))
		defer end()
	}
	if _, err := k.admitProgram(); err != nil {
		t.Fatal(err)
	}
	if _, err := k.admitProgram(); !errors.Is(err, command.ErrTooManyPrograms) {
		t.Errorf("one more than may run starts: %v", err)
	}
	for at := int64(len(first.Stdout.Data)); ; {
		next, err := k.readProgram(t.Context(), command.ReadProgram{ID: "slow", Stdout: at})
		if err != nil {
			t.Fatalf("after %d bytes: %v", at, err)
		}
		if at += int64(len(next.Stdout.Data)); next.Ended {
			if at != 100_000 {
				t.Errorf("%d bytes arrived, want 100_000", at)
			}
			break
		}
	}
	k.programs.starting = 0
	if _, err := k.admitProgram(); err != nil {
		t.Fatal(err)
	}
	if slices.Contains(k.programs.list, slow) {
		t.Error("it is kept after all of it was read")
	}
}

// Programs that nobody reads are kept up to a bound.
func TestEndedProgramsAreBounded(t *testing.T) {
	k := &interpreter{}
	for i := range 3 * command.MaxPrograms {
		if _, err := k.admitProgram(); err != nil {
			t.Fatalf("program %d: %v", i, err)
		}
		p, _, _, process := startPiped(t)
		k.programs.starting--
		k.programs.list = append(k.programs.list, p)
		close(process.done)
		<-p.done
	}
	if n := len(k.programs.list); n > command.MaxPrograms+forSlowReaders {
		t.Errorf("%d ended programs are kept", n)
	}
}

func TestANameThatIsTooLongIsThatOfNoProgram(t *testing.T) {
	if err := startError(fmt.Errorf("start: %w", syscall.ENAMETOOLONG)); !errors.Is(err, command.ErrNoProgram) {
		t.Errorf("%v, want %v", err, command.ErrNoProgram)
	}
}
