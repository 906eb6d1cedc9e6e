package transfer

import (
	"context"
	"errors"
	"iter"
	"testing"
	"testing/synctest"
	"time"
)

// oneThenSilence yields 1, and then nothing until ctx ends.
func oneThenSilence(ctx context.Context) iter.Seq2[int, error] {
	return func(yield func(int, error) bool) {
		if yield(1, nil) {
			<-ctx.Done()
			yield(0, context.Cause(ctx))
		}
	}
}

func TestARelayWhoseClientIsGoneEndsDuringSilence(t *testing.T) {
	gone := errors.New("gone")
	fine, fail := func() error { return nil }, func() error { return gone }
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		err := Relay(t.Context(), oneThenSilence, time.Second, func(int) error { return gone }, fine)
		if !errors.Is(err, gone) || time.Since(begin) != 0 {
			t.Errorf("the relay ended with %v after %v", err, time.Since(begin))
		}
		seen := 0
		err = Relay(t.Context(), oneThenSilence, time.Second, func(n int) error { seen += n; return nil }, fail)
		if !errors.Is(err, gone) || seen != 1 || time.Since(begin) != time.Second {
			t.Errorf("after %d values and %v the relay ended with %v", seen, time.Since(begin), err)
		}
	})
}
