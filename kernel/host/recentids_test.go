package host

import (
	"fmt"
	"testing"
)

func TestAKernelRemembersOnlyTheLastExecutions(t *testing.T) {
	var r recentIDs
	id := func(n int) string { return fmt.Sprint("execution ", n) }
	const all = 3*maxRecentIDs + 5
	for n := range all {
		r.add(id(n))
		if n%1000 == 0 { // an execution that could not be handed over is tried again
			r.remove(id(n))
			if r.has(id(n)) {
				t.Fatalf("%d is still there", n)
			}
			r.add(id(n))
		}
	}
	if len(r.known) != maxRecentIDs || len(r.order) != maxRecentIDs {
		t.Errorf("%d ids are kept in %d places, want %d", len(r.known), len(r.order), maxRecentIDs)
	}
	for n := range all {
		if kept := n >= all-maxRecentIDs; r.has(id(n)) != kept {
			t.Fatalf("of %d executions, number %d is remembered: %v", all, n, !kept)
		}
	}
}
