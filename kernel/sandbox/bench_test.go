package sandbox_test

import (
	"bufio"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"talaria/kernel"
	"talaria/kernel/sandbox"
)

// times are how long repetitions took.
type times []time.Duration

func (d times) report(b *testing.B) {
	slices.Sort(d)
	milliseconds := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
	b.ReportMetric(milliseconds(d[0]), "min-ms")
	b.ReportMetric(milliseconds(d[len(d)/2]), "p50-ms")
	b.ReportMetric(milliseconds(d[len(d)*95/100]), "p95-ms")
	b.ReportMetric(0, "ns/op")
}

func benchmarkCreate(b *testing.B, backend *sandbox.Backend, env kernel.Environment, fresh bool) {
	var took times
	for b.Loop() {
		start := time.Now()
		s, err := backend.Create(b.Context(), env, fresh)
		if err != nil {
			b.Fatal(err)
		}
		took = append(took, time.Since(start))
		if err := s.Close(); err != nil {
			b.Fatal(err)
		}
	}
	took.report(b)
}

func BenchmarkCreateCold(b *testing.B) {
	backend, env := warm(b, stateDir(b))
	benchmarkCreate(b, backend, env, true)
}

func BenchmarkCreateForked(b *testing.B) {
	backend, env := warm(b, stateDir(b))
	benchmarkCreate(b, backend, env, false)
}

// benchmarkTake measures the work left for a session when a parked sandbox is ready.
func benchmarkTake(b *testing.B, fresh bool) {
	dir := stateDir(b)
	backend, env := warm(b, dir)
	spec := newSpec(b, dir)
	spec.Limits = kernel.Limits{MemoryBytes: 2 << 30, CPUs: 1, PIDs: 256, TmpBytes: 64 << 20}
	var parked []kernel.Sandbox
	defer func() {
		for _, s := range parked {
			s.Close()
		}
	}()
	var took times
	for b.Loop() {
		// Several at a time, so that work that Create postpones is done by then.
		for len(parked) < 8 && len(took)%8 == 0 {
			s, err := backend.Create(b.Context(), env, fresh)
			if err != nil {
				b.Fatal(err)
			}
			parked = append(parked, s)
		}
		s := parked[0]
		parked = parked[1:]
		start := time.Now()
		if err := s.Seal(b.Context(), spec); err != nil {
			b.Fatal(err)
		}
		p, err := s.Start(b.Context(), kernel.Program{})
		if err != nil {
			b.Fatal(err)
		}
		awaitReady(b, p)
		took = append(took, time.Since(start))
		closeStreams(p)
		if err := s.Close(); err != nil {
			b.Fatal(err)
		}
	}
	took.report(b)
}

func BenchmarkTake(b *testing.B) { benchmarkTake(b, false) }

func BenchmarkTakeCold(b *testing.B) { benchmarkTake(b, true) }

// BenchmarkIdle measures the memory of kernels that have done nothing yet.
func BenchmarkIdle(b *testing.B) {
	const count = 20
	dir := stateDir(b)
	backend, env := warm(b, dir)
	var sandboxes []kernel.Sandbox
	for range count {
		s, err := backend.Create(b.Context(), env, false)
		if err != nil {
			b.Fatal(err)
		}
		defer s.Close()
		if err := s.Seal(b.Context(), newSpec(b, dir)); err != nil {
			b.Fatal(err)
		}
		p, err := s.Start(b.Context(), kernel.Program{})
		if err != nil {
			b.Fatal(err)
		}
		defer closeStreams(p)
		awaitReady(b, p)
		sandboxes = append(sandboxes, s)
	}
	for b.Loop() {
		var pss, dirty int
		for _, s := range sandboxes {
			pids, err := sandbox.PIDs(s)
			if err != nil {
				b.Fatal(err)
			}
			for _, pid := range pids {
				pss += rollup(b, pid, "Pss")
				dirty += rollup(b, pid, "Private_Dirty")
			}
		}
		b.ReportMetric(float64(pss)/1024/count, "PSS-MiB")
		b.ReportMetric(float64(dirty)/1024/count, "dirty-MiB")
	}
	b.ReportMetric(0, "ns/op")
}

// rollup returns a field of a process's memory, in kB.
func rollup(tb testing.TB, pid int, field string) int {
	tb.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
	if err != nil {
		tb.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, field+":"); ok {
			var kB int
			if _, err := fmt.Sscan(rest, &kB); err != nil {
				tb.Fatal(err)
			}
			return kB
		}
	}
	tb.Fatalf("/proc/%d/smaps_rollup has no %s", pid, field)
	return 0
}

func awaitReady(tb testing.TB, p kernel.Process) {
	tb.Helper()
	lines := bufio.NewScanner(p.Control())
	for lines.Scan() {
		if strings.Contains(lines.Text(), `"ready"`) {
			return
		}
	}
	tb.Fatalf("the runner is not ready: %v", lines.Err())
}

func closeStreams(p kernel.Process) {
	p.Stdout().Close()
	p.Stderr().Close()
	if p.Control() != nil {
		p.Control().Close()
	}
}

// BenchmarkUsage measures reading a session's usage once, idle and with twenty processes.
func BenchmarkUsage(b *testing.B) {
	dir := stateDir(b)
	backend, env := warm(b, dir)
	for _, children := range []int{0, 20} {
		b.Run(fmt.Sprint(children, " children"), func(b *testing.B) {
			s, err := backend.Create(b.Context(), env, false)
			if err != nil {
				b.Fatal(err)
			}
			defer s.Close()
			if err := s.Seal(b.Context(), newSpec(b, dir)); err != nil {
				b.Fatal(err)
			}
			p, err := s.Start(b.Context(), kernel.Program{Args: []string{env.Python, "-c", fmt.Sprintf(`
import os, time
for _ in range(%d):
    if not os.fork(): time.sleep(1000)
print("up", flush=True)
time.sleep(1000)`, children)}})
			if err != nil {
				b.Fatal(err)
			}
			defer closeStreams(p)
			bufio.NewScanner(p.Stdout()).Scan()
			b.ReportAllocs()
			for b.Loop() {
				if _, err := s.Usage(b.Context()); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
