package store_test

import (
	"fmt"
	"slices"
	"testing"

	"talaria/store"
	"talaria/store/storetest"
)

// What is left for the last write of a deletion delays those of all other sessions.
func TestASessionIsEmptiedOfTheFilesOfItsCheckpoints(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	digests := make([]string, 1000)
	for i := range digests {
		digests[i] = fmt.Sprintf("%064x", i)
	}
	do(t, s, func(tx *store.Tx) error {
		for n := range int64(2) {
			if err := tx.InsertSession(sample(n+1, "ann", fmt.Sprint(n))); err != nil {
				return err
			}
			if _, err := tx.InsertCheckpoint(store.Checkpoint{Session: n + 1, ID: "c", Manifest: []byte{}}, slices.Values(digests)); err != nil {
				return err
			}
		}
		return nil
	})
	for more := true; more; {
		do(t, s, func(tx *store.Tx) (err error) { more, err = tx.EmptySession(1); return err })
	}
	var left int
	err := storetest.Open(t, dir).QueryRow(`SELECT count(*) FROM checkpoint_files`).Scan(&left)
	if err != nil || left != len(digests) { // those of the other session
		t.Errorf("%d files are left, %v", left, err)
	}
}
