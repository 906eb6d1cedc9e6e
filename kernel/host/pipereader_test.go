package host_test

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"

	"talaria/kernel/command"
	"talaria/kernel/host"
	"talaria/kernel/kerneltest"
	"talaria/kernel/record"
)

// inCell makes a script with one cell from a function that acts as the runner in it.
func inCell(do func(run *kerneltest.Runner, id string)) kerneltest.Script {
	return func(run *kerneltest.Runner) {
		run.Ready()
		for {
			f, ok := run.Read()
			if !ok {
				return
			}
			if f.Type == "execute" {
				do(run, f.ID)
				run.Done(f.ID, "ok", false)
			}
		}
	}
}

func mark(n int) string { return fmt.Sprintf("\x1e%s:%d\x1e", kerneltest.Mark, n) }

func write(w io.Writer, s string) { _, _ = io.WriteString(w, s) }

func TestRawOutputBelongsToItsCellAndComesBeforeItsEnd(t *testing.T) {
	r := newRig(t, inCell(func(run *kerneltest.Runner, id string) {
		write(run.Stdout, "raw "+id)
		write(run.Stderr, "bad "+id)
		run.Send(map[string]any{"type": "result", "id": id, "data": map[string]any{"text/plain": "v"}, "metadata": map[string]any{}})
		write(run.Stdout, "after")
	}), withPipes)
	for i := range 500 {
		id := fmt.Sprintf("e%d", i)
		r.execute(command.Execution{ID: id})
		records := r.untilFinished()
		for _, rec := range records {
			if rec.ExecutionID != id {
				t.Fatalf("%s came in cell %s", word(rec), id)
			}
		}
		out, result := "", -1
		for i, rec := range records {
			if is[record.Result](rec) {
				result, out = i, text(records[:i], "stdout")
			}
		}
		if result < 0 || !strings.HasPrefix(out, "raw "+id) || text(records[:result], "stderr") != "bad "+id {
			t.Fatalf("cell %s:\n%s", id, words(records))
		}
		if got := text(records, "stdout"); got != "raw "+id+"after" {
			t.Fatalf("cell %s printed %q", id, got)
		}
	}
}

func TestMarksOrderRawAndPythonOutput(t *testing.T) {
	both := func(run *kerneltest.Runner, n int) {
		write(run.Stdout, mark(n))
		write(run.Stderr, mark(n))
	}
	r := newRig(t, inCell(func(run *kerneltest.Runner, id string) {
		first := len(id)*1000 + 1
		for n := first; n < first+20; n++ {
			write(run.Stdout, fmt.Sprintf("<c%d>", n-first))
			both(run, n)
			if n%2 == 0 {
				write(run.Stdout, fmt.Sprintf("<late%d>", n-first))
			}
			run.Stream(id, "stdout", fmt.Sprintf("<py%d>", n-first), n)
		}
	}), withPipes)
	want := ""
	for i := range 20 {
		want += fmt.Sprintf("<c%d><py%d>", i, i)
		if i%2 == 1 { // the first mark is odd
			want += fmt.Sprintf("<late%d>", i)
		}
	}
	id := "e"
	for range 100 {
		id += "e"
		r.execute(command.Execution{ID: id})
		if got := text(r.untilFinished(), "stdout"); got != want {
			t.Fatalf("got  %s\nwant %s", got, want)
		}
	}
}

func TestAMarkInPiecesIsRemoved(t *testing.T) {
	gate := make(chan struct{})
	r := newRig(t, inCell(func(run *kerneltest.Runner, id string) {
		m := mark(1)
		for i, piece := range []string{"before" + m[:1], m[1:5], m[5 : len(m)-2], m[len(m)-2:] + "after"} {
			write(run.Stdout, piece)
			if i < 3 {
				<-gate // until the previous piece has been read
			}
		}
		write(run.Stderr, mark(1))
		run.Send(map[string]any{"type": "clear", "id": id, "wait": false, "mark": 1})
	}), withPipes)
	r.execute(command.Execution{ID: "e1"})
	r.expect(r.until(is[record.Stream]), "e1: started", `e1: stdout "before"`)
	for range 3 {
		gate <- struct{}{}
	}
	r.expect(r.untilFinished(), "e1: clear false", `e1: stdout "after"`, "e1: finished ok")
}

func TestForgedMarksHoldUpNothing(t *testing.T) {
	cases := []struct {
		name string
		do   func(run *kerneltest.Runner, id string)
		want string
	}{
		{"no mark in the pipe", func(run *kerneltest.Runner, id string) {
			write(run.Stdout, "a")
			run.Stream(id, "stdout", "b", 7)
		}, "ab"},
		{"no frame for the mark", func(run *kerneltest.Runner, _ string) {
			write(run.Stdout, "a"+mark(7)+"b"+mark(8)+"c")
		}, "abc"},
		{"half a mark at the end", func(run *kerneltest.Runner, _ string) {
			write(run.Stdout, "a"+mark(7)[:9])
		}, "a" + mark(7)[:9]},
		{"no marks at all", func(run *kerneltest.Runner, _ string) {
			write(run.Stdout, "\x1e\x1e0123:\x1e"+kerneltest.Mark+"\x1e"+kerneltest.Mark+":\x1e"+kerneltest.Mark+":1x")
		}, "\x1e\x1e0123:\x1e" + kerneltest.Mark + "\x1e" + kerneltest.Mark + ":\x1e" + kerneltest.Mark + ":1x"},
		{"another runner's mark", func(run *kerneltest.Runner, _ string) {
			write(run.Stdout, "a\x1efedcba9876543210:5\x1eb")
		}, "a\x1efedcba9876543210:5\x1eb"},
		{"a huge mark", func(run *kerneltest.Runner, _ string) {
			write(run.Stdout, "\x1e"+kerneltest.Mark+":99999999999999999999\x1e")
		}, "\x1e" + kerneltest.Mark + ":99999999999999999999\x1e"},
		{"a mark out of order", func(run *kerneltest.Runner, id string) {
			write(run.Stdout, "a"+mark(9)+"b")
			run.Stream(id, "stderr", "x", 1<<50)
			write(run.Stdout, "c")
		}, "abc"},
		{"megabytes behind a mark", func(run *kerneltest.Runner, _ string) {
			write(run.Stdout, mark(3)+strings.Repeat("z", 5<<20)+mark(4)+"end")
		}, strings.Repeat("z", 5<<20) + "end"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, inCell(c.do), withPipes)
			r.execute(command.Execution{ID: "e1"})
			if got := text(r.untilFinished(), "stdout"); got != c.want {
				t.Errorf("got %d bytes %.100q, want %d", len(got), got, len(c.want))
			}
		})
	}
}

func TestWhatIsHeldBehindAMarkComesWithItsFrameOrWhenItIsTooMuch(t *testing.T) {
	gate := make(chan struct{})
	r := newRig(t, inCell(func(run *kerneltest.Runner, id string) {
		write(run.Stderr, mark(1))
		write(run.Stdout, "a"+mark(1)+"b")
		run.Send(map[string]any{"type": "clear", "id": id, "wait": false, "mark": 1})
		<-gate
		write(run.Stdout, mark(2)+strings.Repeat("z", 1<<20+1))
		<-gate
	}), withPipes)
	r.execute(command.Execution{ID: "e1"})
	r.expect(r.until(is[record.Clear]), "e1: started", `e1: stdout "a"`, "e1: clear false")
	r.expect(r.until(is[record.Stream]), `e1: stdout "b"`)
	gate <- struct{}{}
	for size := 0; size < 1<<20; {
		size += len(text(r.until(is[record.Stream]), "stdout"))
	}
	gate <- struct{}{}
	r.untilFinished()
}

func TestRunesAreWholeWhateverTheReads(t *testing.T) {
	gate := make(chan struct{})
	euro := "€"
	r := newRig(t, inCell(func(run *kerneltest.Runner, id string) {
		write(run.Stdout, "a"+euro[:2])
		<-gate
		write(run.Stdout, euro[2:]+"\xff\xfe|\xe2\x82|\xf0\x9f\x98")
	}), withPipes)
	r.execute(command.Execution{ID: "e1"})
	r.expect(r.until(is[record.Stream]), "e1: started", `e1: stdout "a"`)
	gate <- struct{}{}
	if got, want := text(r.untilFinished(), "stdout"), euro+"��|�|�"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestAGrandchildThatHoldsThePipesDelaysNothing(t *testing.T) {
	r := newRig(t, kerneltest.Cells(func(c *kerneltest.Cell) {
		c.Runner.Linger()
		write(c.Runner.Stdout, "raw")
		c.Print("py")
		c.Exit(7)
	}), withPipes)
	r.execute(command.Execution{ID: "e1"})
	records := r.untilDied()
	if got := text(records, "stdout"); len(got) != len("rawpy") {
		t.Errorf("printed %q", got)
	}
	r.expect(records[len(records)-1:], "e1: died exit:7")
	r.ends()
}

func TestLateOutputBelongsToTheLastCellAndAWriterWithoutEndEndsNone(t *testing.T) {
	const writers = 4
	chunk := strings.Repeat("tick\n", 10_000)
	var stop sync.WaitGroup
	r := newRig(t, inCell(func(run *kerneltest.Runner, id string) {
		if id == "e1" {
			for range writers {
				stop.Go(func() {
					for run.Context().Err() == nil {
						write(run.Stdout, chunk)
					}
				})
			}
		}
	}), withPipes)
	for _, id := range []string{"e1", "e2", "e3"} {
		r.execute(command.Execution{ID: id})
		r.untilFinished()
		rec := r.until(is[record.Stream])
		if got := rec[len(rec)-1].ExecutionID; got != id {
			t.Errorf("late output of %s belongs to %q", id, got)
		}
	}
	if err := r.host.Stop(t.Context(), r.key, "reset"); err != nil {
		t.Fatal(err)
	}
	stop.Wait()
}

// TestWhatThePipesHoldWhenACellStartsIsNotOfThatCell is row K02.
func TestWhatThePipesHoldWhenACellStartsIsNotOfThatCell(t *testing.T) {
	gate := make(chan struct{})
	r := newRig(t, func(run *kerneltest.Runner) {
		run.Ready()
		f, _ := run.Read()
		run.Done(f.ID, "ok", false)
		<-gate
		write(run.Stdout, "late")
		<-gate
		write(run.Stdout, "later") // stays in the pipe: the buffer is full
		gate <- struct{}{}
		f, _ = run.Read()
		run.Done(f.ID, "ok", false)
		run.Read()
	}, withPipes, func(cfg *host.HostConfig, _ *kerneltest.Fake) { cfg.SpoolBytes, cfg.JoinWindow = 1, -1 })
	r.execute(command.Execution{ID: "e1"})
	r.untilFinished()
	gate <- struct{}{}
	for after := uint64(r.used); ; { // without an acknowledgement
		batch, err := r.host.Next(t.Context(), r.key, after)
		if err != nil {
			t.Fatal(err)
		}
		if is[record.Stream](batch[len(batch)-1]) {
			break
		}
		after += uint64(len(batch))
	}
	gate <- struct{}{}
	<-gate
	r.execute(command.Execution{ID: "e2"})
	r.expect(r.untilFinished(), `e1: stdout "late"`, `e1: stdout "later"`, "e2: started", "e2: finished ok")
}
