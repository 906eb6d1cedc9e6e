package gateway

import (
	"context"
	"log/slog"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"talaria/api"
	"talaria/store/chats"
)

// quiet is a platform on which nothing is sent.
type quiet struct{ Platform }

func (quiet) Name() string             { return "telegram" }
func (quiet) Target() api.RenderTarget { return api.RenderTelegram }

// A chat in which nothing is left to do gives up its goroutines and its pace; one with something to do keeps them.
func TestIdleChatsAreRetired(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, err := chats.Open(t.Context(), filepath.Join(t.TempDir(), "chats.db"))
		if err != nil {
			t.Fatal(err)
		}
		b := New(Config{Platform: quiet{}, Store: store, Log: slog.New(slog.DiscardHandler)})
		ctx, fatal := context.WithCancelCause(context.Background())
		b.running, b.fatal = ctx, fatal
		if b.paces, err = loadPaces(ctx, store, b.tempo); err != nil {
			t.Fatal(err)
		}
		idle, busy := Chat{ID: "1"}, Chat{ID: "2"}
		for _, at := range []Chat{idle, busy} {
			if err := store.Do(ctx, func(tx *chats.Tx) error { return tx.PutChat(b.key(at), encoded(record{Chat: at}), at == busy) }); err != nil {
				t.Fatal(err)
			}
			p, _ := b.paces.take(at, 1, false)
			if at == busy {
				p = b.paces.park(at, time.Hour)
			}
			keep(t, store, at, p)
			b.chat(at)
			time.Sleep(time.Second)
		}
		check := func(when string, want ...Chat) {
			t.Helper()
			if err := b.retire(ctx); err != nil {
				t.Fatal(err)
			}
			if err := b.prune(ctx); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			for _, at := range want {
				if b.chats[b.key(at)] == nil {
					t.Errorf("%s, chat %s is retired", when, at.ID)
				}
			}
			if len(b.chats) != len(want) {
				t.Errorf("%s, there are %d chats, want %d", when, len(b.chats), len(want))
			}
			if err := store.Do(ctx, func(tx *chats.Tx) error {
				paces, err := tx.Paces()
				if len(paces) != len(want) || len(b.paces.all) != len(want) {
					t.Errorf("%s, there are %d paces and %d stored ones, want %d", when, len(b.paces.all), len(paces), len(want))
				}
				return err
			}); err != nil {
				t.Fatal(err)
			}
		}
		check("at once", idle, busy)
		time.Sleep(idleTime)
		check("later", busy)
		b.chat(idle) // an update
		if b.chats[b.key(idle)] == nil {
			t.Error("an update does not start a chat again")
		}
		time.Sleep(idleTime + time.Second)
		if err := store.Do(ctx, func(tx *chats.Tx) error { return tx.PutChat(b.key(busy), encoded(record{Chat: busy}), false) }); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		check("at last")
		b.work.Wait() // all goroutines have ended, although the bot has not
		fatal(nil)
		if err := store.Close(); err != nil {
			t.Fatal(err)
		}
	})
}
