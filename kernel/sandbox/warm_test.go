package sandbox_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"talaria/kernel/sandbox"
)

func TestPausesGrowWhileForkServersDieYoung(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const ms = time.Millisecond
		got := sandbox.Pauses(t.Context(), 0, 0, time.Second, 2*time.Minute, 0)
		if want := []time.Duration{100 * ms, 200 * ms, 400 * ms, 100 * ms, 200 * ms}; !slices.Equal(got, want) {
			t.Errorf("%v, not %v", got, want)
		}
		got = sandbox.Pauses(t.Context(), make([]time.Duration, 12)...)
		if last := got[len(got)-1]; last != time.Minute {
			t.Errorf("the longest is %v", last)
		}
	})
}
