package host_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"runtime"
	"strings"
	"sync"
	"testing"

	"talaria/kernel"
	"talaria/kernel/command"
	"talaria/kernel/host"
	"talaria/kernel/kerneltest"
	"talaria/kernel/record"
)

// TestHostileFramesAreDroppedAndTheCellGoesOn is row K09; the kernel survives as well.
func TestHostileFramesAreDroppedAndTheCellGoesOn(t *testing.T) {
	r := newRig(t, inCell(func(run *kerneltest.Runner, id string) {
		if id == "e0" {
			return
		}
		for _, junk := range []string{
			"\n\n\n", "half a frame {\"type\":\"done\",", "\x00\xff\xfe\n", `{"type":"ready","mark":"00000000"}`,
			`{"type":"done","id":"other","status":"ok","interrupted":false}`,
			`{"type":"result","id":"e0","data":{"text/plain":"\"forged\""},"metadata":{}}`,
			`{"type":"error","id":"e0","ename":"E","evalue":"","traceback":[]}`,
			`{"type":"ask","id":"e0","ask":"q","kind":"input","body":{"prompt":"","password":false}}`,
			`{"type":"died","id":"` + id + `"}`,
			strings.Repeat("[", 1_000_000),
		} {
			run.Write([]byte(junk + "\n"))
		}
		for range 2 { // the first one counts
			run.Send(map[string]any{"type": "result", "id": id, "data": map[string]any{"text/plain": "v"}, "metadata": map[string]any{}})
		}
		run.Done(id, "ok", false)
		run.Done(id, "error", true)
	}))
	r.execute(command.Execution{ID: "e0", AllowStdin: true})
	r.expect(r.untilFinished(), "e0: started", "e0: finished ok")
	r.execute(command.Execution{ID: "e1", AllowStdin: true})
	r.expect(r.untilFinished(), "e1: started",
		`e1: stderr "\n[an output of this cell was dropped: jsontext: invalid character 'h' at start of value]\n"`, // once
		`e1: result "v"`, "e1: finished ok")
}

func TestOutputBelongsToTheCellThatItNames(t *testing.T) {
	r := newRig(t, inCell(func(run *kerneltest.Runner, id string) {
		for _, of := range []string{"e1", "e2", "never", ""} {
			run.Stream(of, "stdout", "for "+of, 0)
			run.Send(map[string]any{"type": "clear", "id": of, "wait": false})
		}
	}))
	r.execute(command.Execution{ID: "e1"})
	r.expect(r.untilFinished(), "e1: started",
		`e1: stdout "for e1"`, "e1: clear false", `e1: stdout "for e2"`, "e1: clear false",
		`e1: stdout "for never"`, "e1: clear false", `e1: stdout "for "`, "e1: clear false", "e1: finished ok")
	r.execute(command.Execution{ID: "e2"})
	r.expect(r.untilFinished(), "e2: started",
		`e1: stdout "for e1"`, "e1: clear false", `e2: stdout "for e2"`, "e2: clear false",
		`e2: stdout "for never"`, "e2: clear false", `e2: stdout "for "`, "e2: clear false", "e2: finished ok")
}

// TestALineWithoutEndIsPassedOverWithoutBeingKept is row K09.
func TestALineWithoutEndIsPassedOverWithoutBeingKept(t *testing.T) {
	const size = 256 << 20
	var peak uint64
	r := newRig(t, inCell(func(run *kerneltest.Runner, id string) {
		chunk := bytes.Repeat([]byte("x"), 1<<20)
		for sent := 0; sent < size; sent += len(chunk) {
			run.Write(chunk)
			if sent%(32<<20) == 0 {
				var m runtime.MemStats
				runtime.ReadMemStats(&m)
				peak = max(peak, m.HeapInuse)
			}
		}
		run.Write([]byte("\n"))
		run.Stream(id, "stdout", "still here", 0)
	}))
	r.execute(command.Execution{ID: "e1"})
	r.expect(r.untilFinished(), "e1: started",
		`e1: stderr "\n[an output of this cell was dropped: frame too long; the limit is 33 MiB]\n"`, `e1: stdout "still here"`, "e1: finished ok")
	if peak > 224<<20 {
		t.Errorf("%d MiB were in use", peak>>20)
	}
}

func TestALargeValuePasses(t *testing.T) {
	value := strings.Repeat("v", 16<<20)
	r := newRig(t, kerneltest.Cells(func(c *kerneltest.Cell) { c.Result(value) }))
	r.execute(command.Execution{ID: "e1"})
	records := r.untilFinished()
	if got := records[1].Body.(record.Result).Data["text/plain"]; len(got) != len(value)+2 {
		t.Errorf("%d bytes came", len(got))
	}
}

func TestFramesWrittenJustBeforeDeathArrive(t *testing.T) {
	r := newRig(t, kerneltest.Cells(func(c *kerneltest.Cell) {
		for range 30 {
			c.Print(strings.Repeat("x", 1000))
		}
		_, _ = io.WriteString(c.Runner.Stdout, strings.Repeat("y", 30_000))
		c.Exit(1)
	}), withPipes)
	r.execute(command.Execution{ID: "e1"})
	if got := text(r.untilDied(), "stdout"); strings.Count(got, "x") != 30_000 || strings.Count(got, "y") != 30_000 {
		t.Errorf("%d bytes came", len(got))
	}
}

// stalled is the interpreter of kernels that send part of a large frame, and the rest once they may; the execution
// "whole" may send everything at once.
func stalled(size int, sent func(), rest <-chan struct{}) kerneltest.Script {
	return inCell(func(run *kerneltest.Runner, id string) {
		run.Write([]byte(`{"type":"display","id":"` + id + `","metadata":{},"data":{"text/plain":"`))
		chunk := bytes.Repeat([]byte("x"), 1<<20)
		for range size >> 20 {
			run.Write(chunk)
		}
		if id != "whole" {
			sent()
			<-rest
		}
		run.Write([]byte("\"}}\n"))
	})
}

func TestLargeFramesThatAreNotWholeTakeNoMemoryAndHoldUpNobody(t *testing.T) {
	const kernels, size = 4, 24 << 20
	var parts sync.WaitGroup
	rest := make(chan struct{})
	fake := kerneltest.NewFake(stalled(size, parts.Done, rest))
	h := host.NewHost(host.HostConfig{Backend: fake, SpoolDir: t.TempDir()})
	defer func() { _ = h.Close(context.Background()) }()
	var rigs []*rig
	for i := range kernels {
		r := &rig{T: t, host: h, fake: fake, key: record.Key{Session: fmt.Sprint("s", i), Generation: 1}}
		if _, err := h.Start(t.Context(), r.key, kernel.Environment{}, kernel.Spec{}); err != nil {
			t.Fatal(err)
		}
		rigs = append(rigs, r)
	}
	before := heap()
	for _, r := range rigs[1:] {
		parts.Add(1)
		r.execute(command.Execution{ID: "e1"})
	}
	parts.Wait()
	if more := heap() - before; more > 32<<20 {
		t.Errorf("%d halves of frames took %d MiB", kernels-1, more>>20)
	}
	rigs[0].execute(command.Execution{ID: "whole"})
	for i, r := range rigs {
		if i == 1 {
			close(rest)
		}
		got := r.untilFinished()
		if shown := got[1].Body.(record.Display).Data["text/plain"]; len(shown) != size+2 {
			t.Errorf("%d bytes of %d came", len(shown), size+2)
		}
	}
}

// heap returns how much memory is in use.
func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
