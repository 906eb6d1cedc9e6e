package files

import (
	"fmt"
	"testing"
)

func TestWatchesAreCountedForSessionsAndOwners(t *testing.T) {
	var c Watches
	var releases []func()
	admit := func(owner, session string) bool {
		release, err := c.take(owner, session)
		if err == nil {
			releases = append(releases, release)
		}
		return err == nil
	}
	for range maxSessionWatches {
		if !admit("a", "1") {
			t.Fatal("a session may not have its watches")
		}
	}
	if admit("a", "1") {
		t.Error("a session has more watches than its limit")
	}
	for n := maxSessionWatches; n < maxOwnerWatches; n++ {
		if !admit("a", "2") {
			t.Fatal("an owner may not have his watches")
		}
	}
	if admit("a", "3") {
		t.Error("an owner has more watches than his limit")
	}
	for n := maxOwnerWatches; n < maxWatches; n++ {
		if !admit(fmt.Sprint("owner", n), "1") {
			t.Fatal("the limits of one owner hold for another")
		}
	}
	if admit("last", "1") {
		t.Error("there are more watches than the limit")
	}
	for _, release := range releases {
		release()
	}
	if len(c.by) != 0 || !admit("a", "1") {
		t.Errorf("after all were released, %v are counted", c.by)
	}
}
