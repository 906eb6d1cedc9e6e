package host_test

import (
	"context"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"talaria/kernel/command"
	"talaria/kernel/host"
	"talaria/kernel/kerneltest"
	"talaria/kernel/record"
)

func TestTextIsHandedOutAtOnceAndJoinedUnderLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, kerneltest.Cells(func(c *kerneltest.Cell) {
			c.Print("first")
			for range 3 {
				time.Sleep(9 * time.Millisecond)
				c.Print(".")
			}
			time.Sleep(103 * time.Millisecond)
			c.Print("quiet")
			c.Print("!")
			c.PrintErr("err")
			c.PrintErr("or")
			c.Print("end")
		}))
		began := time.Now()
		r.execute(command.Execution{ID: "e1"})
		at := func(want time.Duration, line string) {
			t.Helper()
			r.expect(r.until(is[record.Stream]), line)
			if took := time.Since(began); took != want {
				t.Errorf("%s came after %v, want %v", line, took, want)
			}
		}
		r.until(is[record.Started])
		at(0, `e1: stdout "first"`)
		at(50*time.Millisecond, `e1: stdout "..."`)
		at(130*time.Millisecond, `e1: stdout "quiet"`)
		at(130*time.Millisecond, `e1: stdout "!"`)
		at(130*time.Millisecond, `e1: stderr "error"`)
		at(130*time.Millisecond, `e1: stdout "end"`)
		r.expect(r.untilFinished(), "e1: finished ok")
	})
}

func TestTextThatComesApartIsNotJoinedUnlessItOverwritesItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, kerneltest.Cells(func(c *kerneltest.Cell) {
			for _, text := range []string{"1\n", "2\n", "3", "\rA", "\rB"} {
				c.Print(text)
				time.Sleep(20 * time.Millisecond)
			}
			c.Print("\rC") // joined with those before
			c.Print("!")
			time.Sleep(10 * time.Millisecond)
			c.Print("\n")
		}))
		began := time.Now()
		r.execute(command.Execution{ID: "e1"})
		r.until(is[record.Started])
		for _, want := range []struct {
			after time.Duration
			line  string
		}{
			{0, `e1: stdout "1\n"`}, {20, `e1: stdout "2\n"`}, {40, `e1: stdout "3"`}, {90, `e1: stdout "\rB"`}, {110, `e1: stdout "\rC!\n"`},
		} {
			r.expect(r.until(is[record.Stream]), want.line)
			if took := time.Since(began); took != want.after*time.Millisecond {
				t.Errorf("%s came after %v, want %v", want.line, took, want.after*time.Millisecond)
			}
		}
		r.expect(r.untilFinished(), "e1: finished ok")
	})
}

func TestPiecesHaveAtMost64KiBAndWholeRunes(t *testing.T) {
	whole := strings.Repeat("aß€😀", 40_000)
	r := newRig(t, kerneltest.Cells(func(c *kerneltest.Cell) {
		c.Print("x")
		c.Print(whole)
		c.Print(whole[:1])
	}))
	r.execute(command.Execution{ID: "e1"})
	records := r.untilFinished()
	if got := text(records, "stdout"); got != "x"+whole+whole[:1] {
		t.Errorf("%d bytes came, want %d", len(got), len(whole)+2)
	}
	for _, rec := range records {
		if s, ok := rec.Body.(record.Stream); ok && (len(s.Text) > 64<<10 || !utf8.ValidString(s.Text)) {
			t.Errorf("a piece of %d bytes, valid %v", len(s.Text), utf8.ValidString(s.Text))
		}
	}
	if n := len(records); n > 2+3+len(whole)/(64<<10)+1 {
		t.Errorf("%d records", n)
	}
}

func TestReadsAreBoundedAndTheSameUntilTheyAreAcknowledged(t *testing.T) {
	r := newRig(t, kerneltest.Cells(func(c *kerneltest.Cell) {
		for range 5000 {
			c.Clear(false)
		}
		c.Result(strings.Repeat("x", 3<<20))
		c.Raise("E", strings.Repeat("x", 3<<20))
	}), func(cfg *host.HostConfig, _ *kerneltest.Fake) { cfg.SpoolBytes = 64 << 20 })
	r.execute(command.Execution{ID: "e1"})
	var all []record.Record
	for after := uint64(0); after < 5004; {
		encoded, last, err := r.host.Read(t.Context(), r.key, after)
		if err != nil {
			t.Fatal(err)
		}
		batch, err := record.Decode(r.key, encoded)
		if err != nil || batch[0].KSeq != after+1 || batch[len(batch)-1].KSeq != last {
			t.Fatalf("after %d to %d: %d records, %v", after, last, len(batch), err)
		}
		if len(encoded) > 1<<20 && len(batch) > 1 {
			t.Errorf("%d records of %d bytes", len(batch), len(encoded))
		}
		all, after = append(all, batch...), last
	}
	if !is[record.Result](all[5001]) || len(all[5001].Body.(record.Result).Data["text/plain"]) != 3<<20+2 {
		t.Errorf("the record after 5001 is %T", all[5001].Body)
	}
	for _, after := range []uint64{5003, 17, 0, 5001, 3000, 2999, 5002} {
		batch, err := r.host.Next(t.Context(), r.key, after)
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(all[after:int(after)+len(batch)], batch) {
			t.Errorf("after %d others come again", after)
		}
	}
	r.host.Ack(r.key, 4000)
	if batch, err := r.host.Next(t.Context(), r.key, 4000); err != nil || batch[0].KSeq != 4001 {
		t.Errorf("after what was acknowledged: %v", err)
	}
}

func TestReadersStopWhenTheConsumerLagsAndGoOnWithIt(t *testing.T) {
	const limit, total = 256 << 10, 4 << 20
	chunk := strings.Repeat("0123456789abcdef", 512)
	lagging := func(cfg *host.HostConfig, _ *kerneltest.Fake) { cfg.SpoolBytes = limit }
	t.Run("frames", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, kerneltest.Cells(func(c *kerneltest.Cell) {
				for range total / len(chunk) {
					c.Print(chunk)
				}
			}), lagging)
			r.execute(command.Execution{ID: "e1"})
			synctest.Wait() // nothing moves any more
			if size := waiting(r); size < limit/2 || size > 2*limit {
				t.Errorf("%d bytes are buffered", size)
			}
			if got := text(r.untilFinished(), "stdout"); len(got) != total {
				t.Errorf("%d bytes came", len(got))
			}
		})
	})
	t.Run("pipes", func(t *testing.T) {
		r := newRig(t, inCell(func(run *kerneltest.Runner, _ string) {
			for range total / len(chunk) {
				write(run.Stdout, chunk)
			}
		}), withPipes, lagging)
		r.execute(command.Execution{ID: "e1"})
		if got := text(r.untilFinished(), "stdout"); len(got) != total {
			t.Errorf("%d bytes came", len(got))
		}
	})
}

// waiting returns how many bytes of text the host holds, without acknowledging any.
func waiting(r *rig) int {
	size := 0
	for after := uint64(0); ; {
		ctx, cancel := context.WithTimeout(r.Context(), time.Second)
		batch, err := r.host.Next(ctx, r.key, after)
		cancel()
		if err != nil {
			return size
		}
		after = batch[len(batch)-1].KSeq
		size += len(text(batch, "stdout"))
	}
}

func TestWhatWasWrittenBeforeDeathArrivesThoughTheConsumerLagged(t *testing.T) {
	r := newRig(t, kerneltest.Cells(func(c *kerneltest.Cell) {
		for range 30 {
			c.Print(strings.Repeat("x", 1000))
			write(c.Runner.Stderr, strings.Repeat("y", 1000))
		}
		c.Exit(1)
	}), withPipes, func(cfg *host.HostConfig, _ *kerneltest.Fake) { cfg.SpoolBytes = 4096 })
	r.execute(command.Execution{ID: "e1"})
	waitGone(r)
	records := r.untilDied()
	if out, errs := text(records, "stdout"), text(records, "stderr"); len(out) != 30_000 || len(errs) != 30_000 {
		t.Errorf("%d and %d bytes came", len(out), len(errs))
	}
}

func TestEndsNeedNoConsumer(t *testing.T) {
	flood := func(run *kerneltest.Runner) {
		run.Ready()
		_, _ = run.Read()
		chunk := make([]byte, 64<<10)
		for run.Context().Err() == nil {
			_, _ = run.Stdout.Write(chunk)
			run.Stream("e1", "stderr", string(chunk), 0)
		}
	}
	small := func(cfg *host.HostConfig, _ *kerneltest.Fake) {
		cfg.SpoolBytes = 64 << 10
		cfg.InterruptGrace = time.Millisecond
	}
	t.Run("stop", func(t *testing.T) {
		r := newRig(t, flood, withPipes, small)
		r.execute(command.Execution{ID: "e1"})
		if _, err := r.host.Next(t.Context(), r.key, 1); err != nil {
			t.Fatal(err)
		}
		if err := r.host.Stop(t.Context(), r.key, "reset"); err != nil {
			t.Fatal(err)
		}
		records := r.untilDied()
		r.expect(records[len(records)-1:], "e1: died reset")
	})
	t.Run("time-out", func(t *testing.T) {
		r := newRig(t, flood, withPipes, small)
		r.execute(command.Execution{ID: "e1", Timeout: 5 * time.Millisecond})
		waitGone(r)
		records := r.untilDied()
		r.expect(records[len(records)-1:], "e1: died timeout timed out")
	})
	t.Run("death", func(t *testing.T) {
		r := newRig(t, flood, withPipes, small)
		r.execute(command.Execution{ID: "e1"})
		if _, err := r.host.Next(t.Context(), r.key, 1); err != nil {
			t.Fatal(err)
		}
		r.fake.KillAll(9)
		waitGone(r)
		records := r.untilDied()
		r.expect(records[len(records)-1:], "e1: died signal:SIGKILL")
	})
}

// waitGone waits for the last record without acknowledging any.
func waitGone(r *rig) {
	for after := uint64(0); ; {
		batch, err := r.host.Next(r.Context(), r.key, after)
		if err != nil {
			return
		}
		after = batch[len(batch)-1].KSeq
	}
}
