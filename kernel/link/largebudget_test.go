package link_test

import (
	"context"
	"errors"
	"testing"
	"time"

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
