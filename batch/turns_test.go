package batch

import (
	"fmt"
	"strings"
	"testing"
)

// order runs all there is, one item in each slot until all slots are taken, then always the one that has run longest, and
// tells which items began in which order.
func order(t *turns) string {
	type started struct {
		j *job
		e entry
	}
	var begun []string
	var running []started
	for {
		j, e, ok := t.next()
		if ok {
			begun = append(begun, fmt.Sprintf("%s%d", j.id, e.index))
			running = append(running, started{j, e})
			continue
		}
		if len(running) == 0 {
			return strings.Join(begun, " ")
		}
		t.release(running[0].j, running[0].e)
		running = running[1:]
	}
}

// waiting makes a job whose items name these sessions, "" being one of its own.
func waiting(id, owner string, concurrency int64, sessions ...string) *job {
	j := &job{id: id, owner: owner, concurrency: concurrency}
	for i, s := range sessions {
		j.queue = append(j.queue, entry{index: i, session: s})
	}
	return j
}

func TestTurnsGoRoundOwnersAndThenRoundTheirJobs(t *testing.T) {
	own := make([]string, 4)
	for _, test := range []struct {
		name  string
		slots int
		jobs  []*job
		want  string
	}{
		{"one job", 2, []*job{waiting("a", "ann", 0, own...)}, "a0 a1 a2 a3"},
		{"two owners, one with two jobs", 1, []*job{waiting("a", "ann", 0, own...), waiting("b", "ann", 0, own...), waiting("c", "bob", 0, own...)},
			"a0 c0 b0 c1 a1 c2 b1 c3 a2 b2 a3 b3"},
		{"an owner who comes later waits for one turn", 1, []*job{waiting("a", "ann", 0, own...), waiting("b", "bob", 0, "")}, "a0 b0 a1 a2 a3"},
		{"several slots", 3, []*job{waiting("a", "ann", 0, own...), waiting("b", "bob", 0, own...)}, "a0 b0 a1 b1 a2 b2 a3 b3"},
		{"items of one session follow each other", 2, []*job{waiting("a", "ann", 0, "s", "s", "", "s"), waiting("b", "ann", 0, "s", "")},
			"a0 b1 a1 a2 b0 a3"},
		{"two owners' sessions of one name", 2, []*job{waiting("a", "ann", 0, "s", "s"), waiting("b", "bob", 0, "s")}, "a0 b0 a1"},
	} {
		t.Run(test.name, func(t *testing.T) {
			turns := newTurns(test.slots)
			for _, j := range test.jobs {
				turns.add(j)
			}
			if got := order(&turns); got != test.want {
				t.Errorf("they begin as %s, want %s", got, test.want)
			}
			if turns.free != test.slots || len(turns.busy) > 0 {
				t.Errorf("in the end %d slots are free, and %v are busy", turns.free, turns.busy)
			}
		})
	}
}

func TestConcurrencyAndAPauseHoldAJobBack(t *testing.T) {
	turns := newTurns(8)
	bounded, paused := waiting("a", "ann", 2, "", "", ""), waiting("b", "ann", 0, "")
	paused.paused = true
	turns.add(bounded)
	turns.add(paused)
	for range 2 {
		if j, _, ok := turns.next(); !ok || j != bounded {
			t.Fatal("the bounded job does not run two")
		}
	}
	if j, e, ok := turns.next(); ok {
		t.Fatalf("item %d of job %s runs", e.index, j.id)
	}
	turns.remove(bounded)
	turns.remove(paused)
	if len(turns.owners) > 0 {
		t.Errorf("owners without jobs stay: %v", turns.owners)
	}
}

func TestAnItemThatRunsAlreadyTakesASlotEvenIfNoneIsFree(t *testing.T) {
	turns := newTurns(1)
	j := waiting("a", "ann", 0, "")
	turns.add(j)
	for i := range 2 {
		turns.adopt(j, entry{index: 7 + i})
	}
	if _, _, ok := turns.next(); ok {
		t.Error("a third one runs")
	}
	turns.release(j, entry{index: 7})
	turns.release(j, entry{index: 8})
	if _, e, ok := turns.next(); !ok || e.index != 0 {
		t.Error("nothing runs although the slot is free")
	}
}
