package store_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"talaria/api"
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

// A cell that is interrupted ends after those that waited behind it and were cancelled.
func TestAnExecutionWhoseEventsAreThereIsNotForgottenWithLaterOnes(t *testing.T) {
	s := open(t, t.TempDir())
	add := func(id string, finishedSeq int64) {
		do(t, s, func(tx *store.Tx) error {
			one := store.Execution{Session: 1, ID: id, Code: strings.Repeat("x", 100), Status: api.StatusQueued}
			n, err := tx.InsertExecution(one)
			if err != nil {
				return err
			}
			one.N, one.FinishedAt, one.FinishedSeq = n, new(int64), finishedSeq
			return tx.FinishExecution(one)
		})
	}
	do(t, s, func(tx *store.Tx) error { return tx.InsertSession(sample(1, "ann", "s")) })
	add("interrupted", 4)
	add("cancelled", 3)
	add("newest", 5)
	do(t, s, func(tx *store.Tx) error {
		for seq := range int64(5) {
			if err := tx.InsertEvent(1, store.Event{Seq: seq + 1, Type: "stream", Body: []byte("{}"), Size: 2}); err != nil {
				return err
			}
		}
		_, _, _, err := tx.TrimLog(1, 4)
		return err
	})
	do(t, s, func(tx *store.Tx) error { _, err := tx.ForgetExecutions(1, 1000, 1); return err })
	list, err := s.Executions(t.Context(), 1, 0, 10)
	if err != nil || len(list) != 2 || list[1].ID != "interrupted" {
		t.Errorf("%d are left: %+v, %v", len(list), list, err)
	}
}
