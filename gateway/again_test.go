package gateway

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"talaria/api"
	"talaria/client"
	"talaria/store/chats"
)

// reply answers a request.
func reply(w http.ResponseWriter, status int, body string) {
	w.Header().Set("Content-Type", "application/json")
	if status != http.StatusOK {
		w.Header().Set("Content-Type", "application/problem+json")
	}
	w.WriteHeader(status)
	_, _ = w.Write([]byte(body))
}

// chatOn makes a chat on a server that answers so. Its goroutines are not running.
func chatOn(t *testing.T, server http.HandlerFunc) *chat {
	t.Helper()
	store, err := chats.Open(t.Context(), filepath.Join(t.TempDir(), "chats.db"))
	if err != nil {
		t.Fatal(err)
	}
	on := client.New("http://server.test", "token")
	on.HTTP = &http.Client{Transport: InProcess{server}}
	b := begun(t, Config{Platform: quiet{}, Client: on, Store: store, Log: slog.New(slog.DiscardHandler)})
	t.Cleanup(func() {
		b.fatal(nil)
		b.work.Wait()
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	return b.newChat("key", Chat{ID: "1"})
}

// A cell can be over before its update is recorded as handled: the bot was killed in between, or the answer of the server was lost.
// Another attempt must not wait for the end of the cell, which would hold up all that the chat sends from then on.
func TestAnUpdateWhoseCellIsOverIsHandled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := chatOn(t, func(w http.ResponseWriter, r *http.Request) {
			if strings.HasSuffix(r.URL.Path, "/executions") {
				t.Error("the cell is submitted again")
			}
			reply(w, http.StatusOK, `{}`)
		})
		ctx, store := c.bot.running, c.bot.Store
		u := Update{ID: "update", Chat: c.at, From: Person{ID: "1"}, Text: "1+1"}
		if err := store.Do(ctx, func(tx *chats.Tx) error {
			if _, err := tx.AddUpdate(u.ID, c.key, encoded(u), ""); err != nil {
				return err
			}
			return tx.PutCell(c.key, chats.Cell{Execution: executionID(u.ID, 0), Body: encoded(cell{By: u.From}), Done: true})
		}); err != nil {
			t.Fatal(err)
		}
		c.bot.work.Go(func() { c.handleUpdates(ctx) })
		c.bot.work.Go(func() { c.followCells(ctx) })
		time.Sleep(time.Minute)
		if err := store.Do(ctx, func(tx *chats.Tx) error {
			n, err := tx.WaitingUpdates(c.key)
			if said, ok, _ := tx.NextRow(c.key); n != 0 || ok {
				t.Errorf("%d updates wait, and the bot says %s", n, said.Body)
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
	})
}

// A bot that is killed before it has said that the server refuses a cell says so after its restart.
func TestACellThatWasRefusedIsRefusedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := chatOn(t, func(w http.ResponseWriter, r *http.Request) {
			if strings.HasSuffix(r.URL.Path, "/executions") {
				reply(w, http.StatusTooManyRequests, `{"code":"queue_full","detail":"the queue is full"}`)
				return
			}
			reply(w, http.StatusOK, `{}`)
		})
		c.attached.set(true)
		for range 2 {
			if _, err := c.run(c.bot.running, "cell", Person{ID: "1"}, "1+1"); codeOf(err) != api.CodeQueueFull {
				t.Errorf("the cell is not refused: %v", err)
			}
		}
		if open, err := c.anyOpen(c.bot.running); open || err != nil {
			t.Errorf("that a cell is open is %t, %v", open, err)
		}
	})
}

// taker is a platform that takes files, and keeps what is in them.
type taker struct {
	quiet
	got *[]string
}

func (p taker) Send(ctx context.Context, _ Chat, m Message) (string, error) {
	if len(m.Files) == 0 {
		*p.got = append(*p.got, m.Text)
		return "1", nil
	}
	in, err := m.Files[0].Open(ctx)
	if err != nil {
		return "", err
	}
	defer in.Close()
	content, err := io.ReadAll(in)
	*p.got = append(*p.got, m.Files[0].Name+": "+string(content))
	return "1", err
}

// A server that is away for a while, for example because it is updated, costs no file. One that fails does not hold up the rest.
func TestFilesWaitForTheServer(t *testing.T) {
	for problem, want := range map[string]string{
		"":                                       "a.png: a chart", // as a proxy answers
		`{"code":"internal_error","status":500}`: "<code>a.png</code> could not be uploaded.",
	} {
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			c := chatOn(t, func(w http.ResponseWriter, _ *http.Request) {
				if time.Since(began) < 5*time.Minute {
					reply(w, http.StatusBadGateway, problem)
					return
				}
				_, _ = w.Write([]byte("a chart"))
			})
			var got []string
			c.bot.Platform = taker{got: &got}
			if err := c.do(t.Context(), func(tx *chats.Tx) error { return c.say(tx, "result", saying{File: "a.png"}, plain("and a text")) }); err != nil {
				t.Fatal(err)
			}
			c.bot.work.Go(func() { c.sendAll(c.bot.running) })
			time.Sleep(10 * time.Minute)
			synctest.Wait()
			if want := []string{want, "and a text"}; !slices.Equal(got, want) {
				t.Errorf("after %q, the chat got %q, want %q", problem, got, want)
			}
		})
	}
}

// Somebody deletes the session of a chat. Cells of the deleted one are over; one that waits until the events of the new one can be
// read is not.
func TestACellThatWaitsIsNotLostWithADeletedSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := chatOn(t, func(w http.ResponseWriter, r *http.Request) {
			if strings.Contains(r.URL.Path, "/executions/") {
				reply(w, http.StatusNotFound, `{"code":"execution_not_found"}`)
				return
			}
			reply(w, http.StatusOK, `{"log_id":"new log","first_seq":1}`)
		})
		ctx := c.bot.running
		if err := c.do(ctx, func(tx *chats.Tx) error {
			return errors.Join(tx.PutChat(c.key, []byte("{}"), false), tx.PutCursor(c.key, "old log", 7),
				tx.PutCell(c.key, chats.Cell{Execution: "old", Body: encoded(cell{})}))
		}); err != nil {
			t.Fatal(err)
		}
		c.bot.work.Go(func() {
			if _, err := c.run(ctx, "new", Person{ID: "1"}, "1+1"); err == nil {
				t.Error("the cell was submitted while nothing followed it")
			}
		})
		synctest.Wait()
		if err := c.lost(ctx, api.Errorf(api.CodeLogChanged, "the log was replaced")); err != nil {
			t.Fatal(err)
		}
		if err := c.do(ctx, func(tx *chats.Tx) error {
			at, _, err1 := tx.Chat(c.key)
			open, err2 := tx.OpenCells(c.key)
			said, _, err3 := tx.NextRow(c.key)
			if at.LogID != "new log" || at.Seq != 0 || len(open) != 1 || open[0].Execution != "new" || said.Key != "result:old/0" {
				t.Errorf("the chat is at %q, %d, the open cells are %+v, and the bot says %s: %s", at.LogID, at.Seq, open, said.Key, said.Body)
			}
			return errors.Join(err1, err2, err3)
		}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * attachTime)
	})
}

// After a power failure, or when its database was restored from a copy, the server may lack events that the bot has handled.
func TestALogThatLacksEventsIsFollowedFromItsBeginning(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/ws") {
			reply(w, http.StatusBadRequest, `{"code":"invalid_request","detail":"after is 7, beyond last_seq 5"}`)
			return
		}
		reply(w, http.StatusOK, `{"log_id":"log","first_seq":1,"last_seq":5}`)
	}))
	defer server.Close()
	c := chatOn(t, nil)
	c.bot.Client = client.New(server.URL, "token")
	ctx := c.bot.running
	if err := c.do(ctx, func(tx *chats.Tx) error {
		return errors.Join(tx.PutChat(c.key, []byte("{}"), false), tx.PutCursor(c.key, "log", 7))
	}); err != nil {
		t.Fatal(err)
	}
	if err := c.follow(ctx); err != nil {
		t.Error(err)
	}
	if err := c.do(ctx, func(tx *chats.Tx) error {
		at, _, err := tx.Chat(c.key)
		if at.LogID != "log" || at.Seq != 0 {
			t.Errorf("the chat is at %q, %d", at.LogID, at.Seq)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
}

// The server can have taken an answer to input() although its own answer was lost. Another attempt must not run it as code.
func TestAnAnswerWhoseReplyIsLostDoesNotRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got []string
		var c *chat
		c = chatOn(t, func(w http.ResponseWriter, r *http.Request) {
			switch {
			case strings.HasSuffix(r.URL.Path, "/executions"):
				t.Error("the answer is submitted as code")
			case !strings.HasSuffix(r.URL.Path, "/input"):
			case len(got) > 0:
				got = append(got, "again")
				reply(w, http.StatusConflict, `{"code":"no_input_pending"}`)
				return
			default:
				body, _ := io.ReadAll(r.Body)
				got = append(got, string(body))
				ctx := c.bot.running // the cell goes on and ends before the bot learns that its answer arrived
				if err := c.do(ctx, func(tx *chats.Tx) error { return tx.DeleteCell("asks") }); err != nil {
					t.Error(err)
				}
				reply(w, http.StatusBadGateway, "")
				return
			}
			reply(w, http.StatusOK, `{}`)
		})
		ctx := c.bot.running
		u := Update{ID: "update", Chat: c.at, From: Person{ID: "1"}, Text: " exit() "}
		if err := c.do(ctx, func(tx *chats.Tx) error {
			_, err := tx.AddUpdate(u.ID, c.key, encoded(u), "")
			return errors.Join(err, tx.PutCell(c.key, chats.Cell{Execution: "asks", Body: encoded(cell{By: u.From, Question: "q"})}))
		}); err != nil {
			t.Fatal(err)
		}
		c.attached.set(true)
		c.bot.work.Go(func() { c.handleUpdates(ctx) })
		time.Sleep(5 * time.Minute)
		if want := []string{`{"request_id":"q","value":"exit()"}`, "again"}; !slices.Equal(got, want) {
			t.Errorf("the server got %q, want %q", got, want)
		}
		if err := c.do(ctx, func(tx *chats.Tx) error {
			n, err := tx.WaitingUpdates(c.key)
			if n != 0 {
				t.Errorf("%d updates wait", n)
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
	})
}
