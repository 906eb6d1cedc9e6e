package store_test

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"talaria/store"
)

var longest = flag.Int64("longest-log", 100_000, "events of the longest log of BenchmarkLog; ten million take some minutes and 3 GB of disk")

// BenchmarkLog measures a log that has grown long: to append an event, to read the newest page, as a client does that attaches, and a
// page from the middle.
func BenchmarkLog(b *testing.B) {
	for _, events := range []int64{1_000, 100_000, 10_000_000} {
		if events > *longest {
			break
		}
		s, err := store.Open(b.Context(), b.TempDir(), slog.New(slog.DiscardHandler))
		if err != nil {
			b.Fatal(err)
		}
		if _, err := s.Begin(b.Context(), "boot-1"); err != nil {
			b.Fatal(err)
		}
		one := store.Event{Type: "stream", ExecutionID: "e1", Body: []byte(`{"name":"stdout","text":"a line of output that is about as long as lines are\n"}`)}
		one.Size = int64(len(one.Body))
		last := int64(0)
		add := func(n int64) {
			err := s.Do(context.Background(), store.Write{Apply: func(tx *store.Tx) error {
				for range n {
					one.Seq, one.Time = last+1, time.Now().UnixMilli()
					if err := tx.InsertEvent(1, one); err != nil {
						return err
					}
					last++
				}
				return nil
			}})
			if err != nil {
				b.Fatal(err)
			}
		}
		if err := s.Do(b.Context(), store.Write{Apply: func(tx *store.Tx) error { return tx.InsertSession(sample(1, "ann", "s")) }}); err != nil {
			b.Fatal(err)
		}
		for last < events {
			add(min(1_000, events-last))
		}
		read := func(b *testing.B, after int64) {
			for b.Loop() {
				page, err := s.Events(b.Context(), 1, after, 500)
				if err != nil || len(page) != 500 {
					b.Fatalf("%d events, %v", len(page), err)
				}
			}
		}
		b.Run(fmt.Sprintf("commit/%d", events), func(b *testing.B) {
			for b.Loop() {
				add(1)
			}
		})
		b.Run(fmt.Sprintf("newest500/%d", events), func(b *testing.B) { read(b, last-500) })
		b.Run(fmt.Sprintf("middle500/%d", events), func(b *testing.B) { read(b, events/2-500) })
		if err := s.Close(); err != nil {
			b.Fatal(err)
		}
	}
}
