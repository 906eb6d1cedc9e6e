package store_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"talaria/store"
)

// Settled runs once for each write, however it ends.
func TestSettledRunsOnceForEachWrite(t *testing.T) {
	s := open(t, t.TempDir())
	calls := make(chan string, 16)
	write := func(name string, apply func(*store.Tx) error) store.Write {
		return store.Write{
			Apply: apply, Committed: func() { calls <- name + " committed" }, Settled: func() { calls <- name + " settled" },
		}
	}
	fine := func(*store.Tx) error { return nil }
	if err := s.Do(t.Context(), write("fine", fine)); err != nil {
		t.Fatal(err)
	}
	refused := errors.New("refused")
	if err := s.Do(t.Context(), write("refused", func(*store.Tx) error { return refused })); !errors.Is(err, refused) {
		t.Fatal(err)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if err := s.Do(ended, write("ended", fine)); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	var of store.Sequence
	release, first := slow(t, s, t.Context(), &of)
	leaving, leave := context.WithCancel(t.Context())
	left := write("left", func(*store.Tx) error { leave(); return nil })
	left.Sequence = &of
	if err := s.Do(leaving, left); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	release()
	if err := <-first; err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil { // waits for what its caller has left
		t.Fatal(err)
	}
	if err := s.Do(t.Context(), write("closed", fine)); !errors.Is(err, store.ErrClosed) {
		t.Fatal(err)
	}
	close(calls)
	var got []string
	for call := range calls {
		got = append(got, call)
	}
	want := []string{"fine committed", "fine settled", "refused settled", "ended settled", "left committed", "left settled", "closed settled"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
