package host_test

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"talaria/kernel"
	"talaria/kernel/command"
	"talaria/kernel/host"
	"talaria/kernel/kerneltest"
	"talaria/kernel/record"
)

// BenchmarkExecute measures one small cell from Execute to its last record.
func BenchmarkExecute(b *testing.B) {
	fake := kerneltest.NewFake(inCell(func(run *kerneltest.Runner, id string) {
		run.Send(map[string]any{"type": "result", "id": id, "data": map[string]any{"text/plain": "2"}, "metadata": map[string]any{}})
	}))
	benchmark(b, fake)
}

// BenchmarkRawOutput measures 100 MB written to fd 1.
func BenchmarkRawOutput(b *testing.B) {
	const size = 100 << 20
	b.SetBytes(size)
	chunk := []byte(strings.Repeat("some text of a line that a program prints\n", 23831)) // 1 MB
	benchmark(b, kerneltest.NewFake(inCell(func(run *kerneltest.Runner, _ string) {
		for sent := 0; sent < size; sent += len(chunk) {
			_, _ = run.Stdout.Write(chunk)
		}
	})))
}

// BenchmarkPrint measures 100 MB printed at Python's level, in the pieces that the runner sends.
func BenchmarkPrint(b *testing.B) {
	const size = 100 << 20
	b.SetBytes(size)
	text := strings.Repeat("some text of a line that a program prints\n", 1560)
	quoted, err := json.Marshal(text)
	if err != nil {
		b.Fatal(err)
	}
	benchmark(b, kerneltest.NewFake(inCell(func(run *kerneltest.Runner, id string) {
		line := fmt.Appendf(nil, "\n{\"type\":\"stream\",\"id\":%q,\"name\":\"stdout\",\"text\":%s,\"mark\":1}\n", id, quoted)
		for sent := 0; sent < size; sent += len(text) {
			run.Write(line)
		}
	})))
}

// benchmark runs cells one after the other and takes their records as a socket would, without decoding them.
func benchmark(b *testing.B, fake *kerneltest.Fake) {
	fake.Pipes = true
	h := host.NewHost(host.HostConfig{Backend: fake, SpoolDir: b.TempDir()})
	key := record.Key{Session: "s", Generation: 1}
	if _, err := h.Start(b.Context(), key, kernel.Environment{}, kernel.Spec{}); err != nil {
		b.Fatal(err)
	}
	defer func() { _ = h.Close(b.Context()) }()
	after := uint64(0)
	for i := 0; b.Loop(); i++ {
		if err := command.Tell(b.Context(), h, key, command.Execution{ID: fmt.Sprint(i)}); err != nil {
			b.Fatal(err)
		}
		for finished := false; !finished; {
			encoded, last, err := h.Read(b.Context(), key, after)
			if err != nil {
				b.Fatal(err)
			}
			after, finished = last, lastKind(encoded) == kindFinished
			h.Ack(key, after)
		}
	}
}

const kindFinished = 9

// lastKind returns the kind of the last of the encoded records.
func lastKind(encoded []byte) byte {
	for {
		size := 8 + binary.LittleEndian.Uint32(encoded)
		if int(size) == len(encoded) {
			return encoded[24]
		}
		encoded = encoded[size:]
	}
}

// BenchmarkIdleKernel reports the memory of an idle kernel that has run a cell, not counting the fake.
func BenchmarkIdleKernel(b *testing.B) {
	const kernels = 1000
	fake := kerneltest.NewFake(func(run *kerneltest.Runner) {
		run.Ready()
		f, _ := run.Read()
		_, _ = run.Stdout.Write([]byte(strings.Repeat("x", 100_000)))
		run.Stream(f.ID, "stdout", strings.Repeat("x", 100_000), 0)
		run.Done(f.ID, "ok", false)
		<-run.Context().Done()
	})
	fake.Pipes = true
	for b.Loop() {
		h := host.NewHost(host.HostConfig{Backend: fake, SpoolDir: b.TempDir()})
		keys := make([]record.Key, kernels)
		before := inUse()
		for i := range keys {
			keys[i] = record.Key{Session: fmt.Sprint("s", i), Generation: 1}
			if _, err := h.Start(b.Context(), keys[i], kernel.Environment{}, kernel.Spec{}); err != nil {
				b.Fatal(err)
			}
		}
		ready := inUse()
		for _, key := range keys {
			if err := command.Tell(b.Context(), h, key, command.Execution{ID: "0198c1de-7a55-7b21-9d2e-000000000001"}); err != nil {
				b.Fatal(err)
			}
			for after, finished := uint64(0), false; !finished; h.Ack(key, after) {
				encoded, last, err := h.Read(b.Context(), key, after)
				if err != nil {
					b.Fatal(err)
				}
				after, finished = last, lastKind(encoded) == kindFinished
			}
		}
		idle := inUse()
		b.ReportMetric(float64(ready.heap-before.heap)/kernels, "heap-B/ready")
		b.ReportMetric(float64(idle.heap-before.heap)/kernels, "heap-B/idle")
		b.ReportMetric(float64(idle.stacks-before.stacks)/kernels, "stack-B/idle")
		b.ReportMetric(float64(idle.goroutines-before.goroutines)/kernels, "goroutines/idle")
		if err := h.Close(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}

type memory struct {
	heap, stacks uint64
	goroutines   int
}

func inUse() memory {
	runtime.GC()
	runtime.GC() // the second collection empties pools
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return memory{m.HeapAlloc, m.StackInuse, runtime.NumGoroutine()}
}
