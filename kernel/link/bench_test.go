package link_test

import (
	"context"
	"fmt"
	"runtime"
	"testing"

	"talaria/kernel"
	"talaria/kernel/command"
	"talaria/kernel/host"
	"talaria/kernel/kerneltest"
	"talaria/kernel/link"
	"talaria/kernel/record"
)

// benched is a host with a client in one process.
func benched(b *testing.B) (*host.Host, *link.Client) {
	b.Helper()
	dir := b.TempDir()
	folder, err := link.NewFolder(dir)
	if err != nil {
		b.Fatal(err)
	}
	fake := kerneltest.NewFake(kerneltest.Cells(cells))
	host := host.NewHost(host.HostConfig{Backend: fake, SpoolDir: folder.Spool()})
	ctx, cancel := context.WithCancel(context.Background())
	ready, ended := make(chan struct{}), make(chan error, 1)
	cfg := link.ServerConfig{Folder: folder, Host: host, Build: build, Ready: func() { close(ready) }}
	go func() { ended <- link.Serve(ctx, cfg) }()
	<-ready
	c, err := link.Open(ctx, link.ClientConfig{Dir: dir, Build: build, Spawn: noSpawn})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		_ = c.Close()
		cancel()
		if err := <-ended; err != nil {
			b.Error(err)
		}
	})
	return host, c
}

func started(b *testing.B, c *link.Client, session string) record.Key {
	b.Helper()
	if _, err := c.Start(context.Background(), key(session), kernel.Environment{}, kernel.Spec{}); err != nil {
		b.Fatal(err)
	}
	return key(session)
}

// untilFinished reads to the end of an execution and counts the bytes of text.
func untilFinished(b *testing.B, c *link.Client, k record.Key, after uint64, ack bool) (last uint64, text int64) {
	b.Helper()
	for {
		batch, err := c.Next(context.Background(), k, after)
		if err != nil {
			b.Fatal(err)
		}
		for _, r := range batch {
			if s, ok := r.Body.(record.Stream); ok {
				text += int64(len(s.Text))
			}
		}
		after = batch[len(batch)-1].KSeq
		if ack {
			c.Ack(k, after)
		}
		if is[record.Finished](batch[len(batch)-1]) {
			return after, text
		}
	}
}

// BenchmarkExecute measures a cell that does nothing: from the command to its last record, acknowledged.
func BenchmarkExecute(b *testing.B) {
	_, c := benched(b)
	k := started(b, c, "a")
	after := uint64(0)
	for i := 0; b.Loop(); i++ {
		if err := command.Tell(b.Context(), c, k, command.Execution{ID: fmt.Sprintf("e%d", i)}); err != nil {
			b.Fatal(err)
		}
		after, _ = untilFinished(b, c, k, after, true)
	}
}

// BenchmarkBacklog measures a server that comes back to 64 MiB of output.
func BenchmarkBacklog(b *testing.B) {
	_, c := benched(b)
	k := started(b, c, "a")
	if err := command.Tell(b.Context(), c, k, command.Execution{ID: "e1", Code: "fill 64"}); err != nil {
		b.Fatal(err)
	}
	_, size := untilFinished(b, c, k, 0, false)
	b.SetBytes(size)
	for b.Loop() {
		if _, err := c.Attach(context.Background(), k); err != nil {
			b.Fatal(err)
		}
		untilFinished(b, c, k, 0, false)
	}
}

// BenchmarkIdle reports what an idle kernel takes in the memory of host and server together, including the fake.
func BenchmarkIdle(b *testing.B) {
	_, c := benched(b)
	taken := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc + m.StackInuse
	}
	before, n := taken(), 0
	for b.Loop() {
		k := started(b, c, fmt.Sprintf("s%d", n))
		if n++; command.Tell(b.Context(), c, k, command.Execution{ID: "e1"}) != nil {
			b.Fatal("execute")
		}
		untilFinished(b, c, k, 0, true)
	}
	b.ReportMetric(float64(int64(taken())-int64(before))/float64(n), "B/kernel")
}
