package gateway

import (
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"talaria/api"
	"talaria/store/chats"
)

// A pause that Telegram asked for holds after a restart too.
func TestG07ThePaceIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "chats.db")
		at := Chat{ID: "-7", Group: true}
		for turn := range 3 {
			store, err := chats.Open(t.Context(), path)
			if err != nil {
				t.Fatal(err)
			}
			p, err := loadPaces(t.Context(), store, tempoOf(api.RenderTelegram))
			if err != nil {
				t.Fatal(err)
			}
			wait := time.Until(p.ready(at, 1, false))
			switch turn {
			case 0:
				if wait > 0 {
					t.Errorf("a new chat has to wait %v", wait)
				}
				for range 20 {
					time.Sleep(time.Until(p.ready(at, 1, false)))
					one, ok := p.take(at, 1, false)
					if !ok {
						t.Fatal("a message may not be sent when it was said that it may be")
					}
					keep(t, store, at, one)
				}
			case 1:
				if wait < 40*time.Second {
					t.Errorf("after 20 messages in a group within 20 seconds, the next one may follow after %v", wait)
				}
				keep(t, store, at, p.park(at, 5*time.Minute))
			case 2:
				if wait != 5*time.Minute {
					t.Errorf("the pause is %v after a restart, want 5 minutes", wait)
				}
			}
			if err := store.Close(); err != nil {
				t.Fatal(err)
			}
		}
	})
}

func keep(t *testing.T, store *chats.Store, at Chat, p pace) {
	t.Helper()
	if err := store.Do(t.Context(), func(tx *chats.Tx) error { return tx.PutPace(at.ID, encoded(p)) }); err != nil {
		t.Fatal(err)
	}
}
