package link_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"talaria/kernel/command"
	"talaria/kernel/record"
)

// untilShown reads up to a display and returns its number and size, without acknowledging anything.
func (r *reader) untilShown(ctx context.Context) (kseq uint64, size int, err error) {
	r.Helper()
	for {
		batch, err := r.client.Next(ctx, r.key, r.after)
		if err != nil {
			return 0, 0, err
		}
		last := batch[len(batch)-1]
		r.after = last.KSeq
		if shown, ok := last.Body.(record.Display); ok {
			return last.KSeq, len(shown.Data["text/plain"]), nil
		}
	}
}

func TestLargeRecordsComeAsOthersAreAcknowledged(t *testing.T) {
	const size = 24<<20 + len(`""`)
	dir := t.TempDir()
	serve(t, dir)
	c := open(t, dir, noSpawn)
	a, b, small := begin(t, c, "a"), begin(t, c, "b"), begin(t, c, "small")
	a.execute("e1", "show 24")
	first, got, err := a.untilShown(t.Context())
	if err != nil || got != size {
		t.Fatalf("%d bytes, %v", got, err)
	}
	b.execute("e1", "show 24")
	// That nothing more is taken into memory shows only in nothing arriving.
	short, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if _, _, err := b.untilShown(short); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("a second large record came beside the first: %v", err)
	}
	small.execute("e1", "echo at once")
	small.until(is[record.Finished])
	c.Ack(a.key, first)
	if _, got, err := b.untilShown(t.Context()); err != nil || got != size {
		t.Fatalf("%d bytes, %v", got, err)
	}
}

// Whoever acknowledges the first record may be waiting for an answer.
func TestAnswersDoNotWaitForASecondLargeRecord(t *testing.T) {
	dir := t.TempDir()
	s := serve(t, dir)
	c := open(t, dir, noSpawn)
	r := begin(t, c, "a")
	r.execute("e1", "show 2")
	first, _, err := r.untilShown(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	after := first
	untilHostFinished := func() {
		t.Helper()
		for finished := false; !finished; {
			batch, err := s.host.Next(t.Context(), r.key, after)
			if err != nil {
				t.Fatal(err)
			}
			for _, one := range batch {
				after = one.KSeq
				finished = finished || is[record.Finished](one)
			}
		}
	}
	untilHostFinished() // a kernel that runs e1 refuses e2
	r.execute("e2", "show 31")
	untilHostFinished()
	// That the second one is not sent shows only in answers arriving all the time.
	for begin := time.Now(); time.Since(begin) < time.Second; time.Sleep(10 * time.Millisecond) {
		if _, err := command.Ask(t.Context(), c, r.key, command.ReadUsage{}); err != nil {
			t.Fatal(err)
		}
	}
	c.Ack(r.key, first)
	if _, got, err := r.untilShown(t.Context()); err != nil || got != 31<<20+len(`""`) {
		t.Fatalf("%d bytes, %v", got, err)
	}
}

func TestABrokenConnectionHoldsNoLargeRecordsUp(t *testing.T) {
	dir := t.TempDir()
	serve(t, dir)
	c := open(t, dir, noSpawn)
	for _, name := range []string{"a", "b", "c"} {
		r := begin(t, c, name)
		r.execute("e1", "show 31")
		if _, _, err := r.untilShown(t.Context()); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		c.Break(r.key, false) // and it is never acknowledged
	}
}
