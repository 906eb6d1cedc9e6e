package store_test

import (
	"context"
	"database/sql"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"talaria/store"
)

func nothing(*store.Tx) error { return nil }

// slow starts a write whose Committed function runs until release is called, and returns when it runs.
func slow(t *testing.T, s *store.Store, ctx context.Context, of *store.Sequence) (release func(), result <-chan error) {
	t.Helper()
	running, held, done := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() {
		done <- s.Do(ctx, store.Write{Apply: nothing, Sequence: of, Committed: func() {
			close(running)
			<-held
		}})
	}()
	<-running
	return func() { close(held) }, done
}

func TestASlowCommittedDelaysNoOtherWrite(t *testing.T) {
	s := open(t, t.TempDir())
	var one, other store.Sequence
	release, result := slow(t, s, t.Context(), &one)
	defer func() {
		release()
		if err := <-result; err != nil {
			t.Error(err)
		}
	}()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for _, of := range []*store.Sequence{&other, nil} {
		ran := false
		err := s.Do(ctx, store.Write{Apply: nothing, Sequence: of, Committed: func() { ran = true }})
		if err != nil || !ran {
			t.Errorf("a write beside a slow one: %v; its Committed ran: %v", err, ran)
		}
	}
}

func TestCommittedWaitsForEarlierOnesOfItsSequence(t *testing.T) {
	s := open(t, t.TempDir())
	var of store.Sequence
	release, first := slow(t, s, t.Context(), &of)
	applied, ran, second := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() {
		second <- s.Do(t.Context(), store.Write{
			Apply:     func(*store.Tx) error { close(applied); return nil },
			Committed: func() { close(ran) },
			Sequence:  &of,
		})
	}()
	<-applied
	if err := s.Do(t.Context(), store.Write{Apply: nothing}); err != nil { // by now the second write is committed
		t.Fatal(err)
	}
	select {
	case <-ran:
		t.Error("the second Committed ran while the first did")
	case err := <-second:
		t.Errorf("the second write returned before its Committed ran: %v", err)
	default:
	}
	release()
	<-ran
	for _, result := range []<-chan error{first, second} {
		if err := <-result; err != nil {
			t.Error(err)
		}
	}
}

// A caller that no longer waits does not keep its Committed from running, and Close waits for it.
func TestCommittedRunsThoughItsCallerIsGone(t *testing.T) {
	s := open(t, t.TempDir())
	var of store.Sequence
	release, first := slow(t, s, t.Context(), &of)
	ctx, cancel := context.WithCancel(t.Context())
	ran := false
	applied, second := make(chan struct{}), make(chan error, 1)
	go func() {
		second <- s.Do(ctx, store.Write{
			Apply:     func(*store.Tx) error { close(applied); return nil },
			Committed: func() { ran = true },
			Sequence:  &of,
		})
	}()
	<-applied
	cancel()
	if err := <-second; !errors.Is(err, context.Canceled) {
		t.Fatalf("a write whose context ended: %v", err)
	}
	release()
	if err := errors.Join(<-first, s.Close()); err != nil {
		t.Error(err)
	}
	if !ran {
		t.Error("the store closed before Committed had run")
	}
}

// The journal of a session takes back its position in Aborted, which only Apply knows.
func TestAbortedRunsForAWriteThatWasAppliedOnly(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	do(t, s, func(tx *store.Tx) error { return tx.Exec("PRAGMA busy_timeout = 1") })
	applied, aborted := 0, 0
	write := func(apply func(*store.Tx) error) error {
		return s.Do(t.Context(), store.Write{
			Apply:   func(tx *store.Tx) error { applied++; return apply(tx) },
			Aborted: func() { aborted++ },
		})
	}

	other, err := sql.Open("sqlite3", filepath.Join(dir, "talaria.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	other.SetMaxOpenConns(1)
	if _, err := other.Exec("BEGIN IMMEDIATE"); err != nil {
		t.Fatal(err)
	}
	if err := write(nothing); err == nil || applied != 0 || aborted != 0 {
		t.Errorf("a write whose transaction cannot begin: %v; applied %d times, aborted %d times", err, applied, aborted)
	}
	if _, err := other.Exec("ROLLBACK"); err != nil {
		t.Fatal(err)
	}

	applied, aborted = 0, 0
	err = write(func(tx *store.Tx) error { // there is no such session, which only the commit finds out
		return errors.Join(tx.Exec("PRAGMA defer_foreign_keys = 1"), tx.InsertEvent(7, store.Event{Seq: 1, Type: "t", Body: []byte("{}")}))
	})
	if err == nil || applied != 1 || aborted != 1 {
		t.Errorf("a write whose commit fails: %v; applied %d times, aborted %d times", err, applied, aborted)
	}
	if err := write(nothing); err != nil || aborted != 1 {
		t.Errorf("a write afterwards: %v; aborted %d times", err, aborted)
	}
}
