package batch

import (
	"testing"
	"testing/synctest"
	"time"

	"talaria/store"
)

// A limit refuses all items that run at the time. However many these are, they are tried again for as long as one.
func TestItemsThatAreRefusedTogetherAreTriedAgainForAboutThreeMinutes(t *testing.T) {
	for _, slots := range []int{1, 4, 3 * maxRefusals} {
		synctest.Test(t, func(t *testing.T) {
			m := &Manager{turns: newTurns(slots), jobs: map[int64]*job{}, open: map[string]int{}}
			m.ctx = t.Context()
			j := m.newJob(store.Batch{N: 1, ID: "b", Owner: "ann", Total: int64(slots)})
			m.admit(j, nil)
			for i := range slots {
				m.turns.adopt(j, entry{index: i})
			}
			began := time.Now()
			for {
				again := 0
				for i := range slots {
					if m.pause(j, entry{index: i}) {
						again++
					}
				}
				if again == 0 {
					break
				}
				if again < slots {
					t.Fatalf("after %v, %d of %d items failed", time.Since(began), slots-again, slots)
				}
				m.mu.Lock()
				j.queue = nil // the end of the pause starts nothing
				for j.paused {
					m.mu.Unlock()
					time.Sleep(time.Second)
					m.mu.Lock()
				}
				for i := range slots {
					m.turns.adopt(j, entry{index: i})
				}
				m.mu.Unlock()
			}
			if took := time.Since(began); took < 170*time.Second || took > 200*time.Second {
				t.Errorf("%d items were tried again for %v", slots, took)
			}
		})
	}
}
