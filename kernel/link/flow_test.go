package link

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"talaria/kernel"
	"talaria/kernel/command"
	"talaria/kernel/host"
	"talaria/kernel/kerneltest"
	"talaria/kernel/record"
)

// A server that takes nothing is sent about one window, however much waits for it, and continues as it takes more.
func TestWhatAServerDoesNotTakeStaysWithTheHost(t *testing.T) {
	const mib = 40
	fake := kerneltest.NewFake(kerneltest.Cells(func(c *kerneltest.Cell) {
		for range mib {
			c.Print(strings.Repeat("x", 1<<20))
		}
	}))
	folder, err := NewFolder(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	host := host.NewHost(host.HostConfig{Backend: fake, SpoolDir: folder.Spool()})
	ctx, cancel := context.WithCancel(t.Context())
	ready, ended := make(chan struct{}), make(chan error, 1)
	go func() { ended <- Serve(ctx, ServerConfig{Folder: folder, Host: host, Ready: func() { close(ready) }}) }()
	<-ready
	defer func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	key := record.Key{Session: "a", Generation: 1}
	if _, err := host.Start(ctx, key, kernel.Environment{}, kernel.Spec{}); err != nil {
		t.Fatal(err)
	}
	if err := command.Tell(t.Context(), host, key, command.Execution{ID: "e1"}); err != nil {
		t.Fatal(err)
	}
	for after := uint64(0); ; { // until all of it is in the spool
		records, err := host.Next(ctx, key, after)
		if err != nil {
			t.Fatal(err)
		}
		after = records[len(records)-1].KSeq
		if _, ok := records[len(records)-1].Body.(record.Finished); ok {
			break
		}
	}

	u, _, err := dial(ctx, folder.Path)
	if err != nil {
		t.Fatal(err)
	}
	defer u.Close()
	sent, last := 0, uint64(0)
	c := newCaller(newConn(u), func(encoded []byte) {
		records, err := record.Decode(key, encoded)
		if err != nil || records[0].KSeq != last+1 {
			t.Errorf("records from %d after %d, %v", records[0].KSeq, last, err)
		}
		sent, last = sent+len(encoded), records[len(records)-1].KSeq
	})
	if err := c.open(ctx, opAttach, attachBody{Protocol: 1, Key: key}, nil); err != nil {
		t.Fatal(err)
	}
	if err := c.writeNumber(frameRead, 0); err != nil {
		t.Fatal(err)
	}
	read := func(until func() bool, long time.Duration) error {
		_ = u.SetReadDeadline(time.Now().Add(long))
		for !until() {
			if err := c.next(); err != nil {
				return err
			}
		}
		return nil
	}
	for taken := 0; sent < mib<<20; taken = sent {
		full := func() bool { return sent-taken >= window || sent >= mib<<20 }
		if err := read(full, 20*time.Second); err != nil {
			t.Fatalf("after %d bytes, of which %d are taken: %v", sent, taken, err)
		}
		// That nothing more is sent shows only in nothing arriving.
		never := func() bool { return false }
		if err := read(never, 50*time.Millisecond); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatal(err)
		}
		if waiting := sent - taken; waiting > window+1<<21 {
			t.Fatalf("%d bytes are sent that nobody took", waiting)
		}
		if err := c.writeNumber(frameTaken, uint64(sent-taken)); err != nil {
			t.Fatal(err)
		}
	}
}
