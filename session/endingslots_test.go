package session

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

func TestOwnersSaveVariablesInTurnAtTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var e endingSlots
		var order []string
		now, most := 0, 0
		save := func(owner string, takes time.Duration) {
			go func() {
				if err := e.take(t.Context(), owner); err != nil {
					t.Error(err)
					return
				}
				e.mu.Lock() // also for what the test counts
				order = append(order, owner)
				now++
				most = max(most, now)
				e.mu.Unlock()
				time.Sleep(takes)
				e.mu.Lock()
				now--
				e.mu.Unlock()
				e.free()
			}()
			synctest.Wait()
		}
		for i := range 12 {
			save("ann", saveTimeAtEnd+time.Duration(i))
		}
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			if err := e.take(ctx, "eve"); err == nil {
				t.Error("a slot is given to somebody who has gone")
			}
		}()
		synctest.Wait()
		cancel()
		for _, owner := range []string{"bob", "bob", "bob", "eve"} {
			save(owner, time.Second)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		want := []string{"ann", "ann", "ann", "ann", "bob", "eve", "bob", "bob", "ann", "ann", "ann", "ann", "ann", "ann", "ann", "ann"}
		if !slices.Equal(order, want) {
			t.Errorf("the order is %q, want %q", order, want)
		}
		if most != endingAtOnce {
			t.Errorf("%d saved at once, want %d", most, endingAtOnce)
		}
		if len(e.given) > 0 || e.taken > 0 {
			t.Errorf("at last %v are given and %d taken", e.given, e.taken)
		}
	})
}

func TestKernelsShareTheTimeAtTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var e endingSlots
		if got := e.saveTime(); got != saveTimeAtEnd {
			t.Errorf("without a deadline a kernel may take %v", got)
		}
		for kernels, want := range map[int]time.Duration{0: 45 * time.Second, 4: 45 * time.Second, 12: 15 * time.Second, 500: saveTimeAtEnd} {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			e.share(ctx, kernels)
			cancel()
			if got := e.saveTime(); got != want {
				t.Errorf("each of %d kernels may take %v of a minute, want %v", kernels, got, want)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		e.share(ctx, 1)
		if got := e.saveTime(); got != saveTime {
			t.Errorf("with an hour left it may take %v, want no more than at other times, %v", got, saveTime)
		}
	})
}
