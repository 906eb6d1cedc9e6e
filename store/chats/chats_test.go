package chats_test

import (
	"errors"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"talaria/store/chats"
)

func open(t *testing.T, path string) *chats.Store {
	t.Helper()
	s, err := chats.Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func do(t *testing.T, s *chats.Store, run func(*chats.Tx) error) {
	t.Helper()
	if err := s.Do(t.Context(), run); err != nil {
		t.Fatal(err)
	}
}

func TestOneGatewayAtATimeUsesADatabase(t *testing.T) {
	path := filepath.Join(t.TempDir(), "chats.db")
	first := open(t, path)
	if _, err := chats.Open(t.Context(), path); !errors.Is(err, chats.ErrLocked) {
		t.Errorf("a second gateway gets %v", err)
	}
	guest, err := chats.OpenGuest(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	do(t, guest, func(tx *chats.Tx) error { return tx.PutCode("hash", true, time.Now().Add(time.Minute)) })
	if err := guest.Close(); err != nil {
		t.Fatal(err)
	}
	do(t, first, func(tx *chats.Tx) error {
		if admin, ok, err := tx.TakeCode("hash"); !admin || !ok || err != nil {
			t.Errorf("the guest's code: %t, %t, %v", admin, ok, err)
		}
		if _, ok, _ := tx.TakeCode("hash"); ok {
			t.Error("a code is valid twice")
		}
		return nil
	})
}

func TestAFailedTransactionChangesNothing(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "chats.db"))
	failure := errors.New("failure")
	if err := s.Do(t.Context(), func(tx *chats.Tx) error {
		if _, err := tx.AddUpdate("1", "chat", []byte("{}"), "5"); err != nil {
			return err
		}
		return failure
	}); !errors.Is(err, failure) {
		t.Errorf("%v", err)
	}
	do(t, s, func(tx *chats.Tx) error {
		n, err := tx.WaitingUpdates("chat")
		position, _ := tx.Position()
		if n != 0 || position != "" {
			t.Errorf("%d updates, position %q", n, position)
		}
		return err
	})
}

// What ended long ago is deleted, and what is left to do stays, however old it is.
func TestPruneKeepsWhatIsLeftToDo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, filepath.Join(t.TempDir(), "chats.db"))
		do(t, s, func(tx *chats.Tx) error {
			var errs []error
			for _, id := range []string{"handled", "waits"} {
				_, err := tx.AddUpdate(id, "chat", []byte("{}"), "")
				errs = append(errs, err)
			}
			u, _, err := tx.NextUpdate("chat")
			errs = append(errs, err, tx.Handled(u.N))
			for _, key := range []string{"sent", "given up", "planned"} {
				chat := "chat"
				if key == "given up" {
					chat = "forbidden"
				}
				_, err := tx.Say(chat, key, []byte("{}"))
				errs = append(errs, err)
			}
			row, _, err := tx.RowByKey("sent")
			errs = append(errs, err, tx.SetRow(row.N, chats.Sent, "m1"), tx.GiveUp("forbidden"), tx.PutCode("old", false, time.Now().Add(time.Minute)))
			return errors.Join(errs...)
		})
		check := func(when string, wantSent, wantGivenUp bool) {
			t.Helper()
			do(t, s, func(tx *chats.Tx) error {
				_, sent, err1 := tx.RowByKey("sent")
				_, givenUp, err2 := tx.RowByKey("given up")
				_, planned, err3 := tx.RowByKey("planned")
				waiting, err4 := tx.WaitingUpdates("chat")
				if sent != wantSent || givenUp != wantGivenUp || !planned || waiting != 1 {
					t.Errorf("%s: sent %t, given up %t, planned %t, %d updates wait", when, sent, givenUp, planned, waiting)
				}
				return errors.Join(err1, err2, err3, err4)
			})
		}
		prune := func() { do(t, s, func(tx *chats.Tx) error { return tx.Prune(time.Now().Add(-time.Hour)) }) }
		time.Sleep(time.Minute)
		prune()
		check("after a minute", true, true)
		time.Sleep(2 * time.Hour)
		prune()
		check("after two hours", false, false)
		do(t, s, func(tx *chats.Tx) error {
			added, err := tx.AddUpdate("waits", "chat", []byte("{}"), "")
			if added {
				t.Error("an update that waits was added again")
			}
			if _, ok, _ := tx.TakeCode("old"); ok {
				t.Error("an expired code is valid")
			}
			return err
		})
	})
}
