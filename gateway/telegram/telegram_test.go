package telegram_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path"
	"strings"
	"testing"
	"time"

	"talaria/gateway"
	"talaria/gateway/telegram"
)

// received returns the first two updates that a bot at a position takes from polls that are answered so, and why it ended.
func received(t *testing.T, position string, answer func(w http.ResponseWriter, r *http.Request, offset int64)) (taken []gateway.Update, err error) {
	t.Helper()
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasSuffix(r.URL.Path, "/getUpdates") {
			fmt.Fprint(w, `{"ok":true,"result":true}`)
			return
		}
		var q struct{ Offset int64 }
		if err := json.NewDecoder(r.Body).Decode(&q); err != nil {
			t.Error(err)
		}
		answer(w, r, q.Offset)
	}))
	defer api.Close()
	p, err := telegram.New(telegram.Config{Token: "1:x", URL: api.URL})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithTimeout(t.Context(), 2*time.Minute)
	defer stop()
	err = p.Receive(ctx, position, func(_ context.Context, u gateway.Update) error {
		if taken = append(taken, u); len(taken) == 2 {
			stop()
		}
		return nil
	})
	return taken, err
}

// An update that cannot be decoded is skipped: otherwise it would keep the bot from all that come after it.
func TestAnUnreadableUpdateIsSkipped(t *testing.T) {
	taken, err := received(t, "", func(w http.ResponseWriter, r *http.Request, offset int64) {
		if offset == 0 {
			fmt.Fprint(w, `{"ok":true,"result":[{"update_id":7,"message":"not an object"},
				{"update_id":8,"message":{"message_id":3,"date":1,"from":{"id":5,"first_name":"Ann"},"chat":{"id":5,"type":"private"},"text":"1+1"}}]}`)
			return
		}
		<-r.Context().Done()
	})
	var got []string
	for _, u := range taken {
		got = append(got, u.From.ID+" "+u.Text+" "+u.Position)
	}
	if got := strings.Join(got, "|"); got != "  8|5 1+1 9" {
		t.Errorf("the updates are %q, and Receive ended with %v", got, err)
	}
}

// After a week without updates, Telegram goes on with a random id, which may be lower than the last one. To an offset far above
// it, Telegram answers with its oldest update, again and again, until a poll confirms that.
func TestUpdatesGoOnWithALowerID(t *testing.T) {
	taken, err := received(t, "900000", func(w http.ResponseWriter, _ *http.Request, offset int64) {
		id := 100
		if offset == 101 {
			id = 101
		}
		fmt.Fprintf(w, `{"ok":true,"result":[{"update_id":%d,"message":{"message_id":3,"date":1,"from":{"id":5,"first_name":"Ann"},
			"chat":{"id":5,"type":"private"},"text":"%d"}}]}`, id, id)
	})
	var got []string
	for _, u := range taken {
		got = append(got, u.Text+" "+u.Position)
	}
	if got := strings.Join(got, "|"); got != "100 101|101 102" {
		t.Errorf("the updates are %q, and Receive ended with %v", got, err)
	}
}

// Requests to the webhook without the secret are rejected, before their bodies are decoded; with it, one that cannot be decoded
// is confirmed.
func TestG14TheWebHookWantsItsSecret(t *testing.T) {
	p, err := telegram.New(telegram.Config{Token: "1:x", WebhookURL: "https://bot.example.org/", WebhookSecret: "s3cret"})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		secret, body string
		want         int
	}{
		{"", `{"update_id":1}`, http.StatusUnauthorized},
		{"s3cre", `{"update_id":1}`, http.StatusUnauthorized},
		{"s3cret", `{"update_id":1,"message":7}`, http.StatusOK},
		{"s3cret", `{"message":{}}`, http.StatusBadRequest},
		{"s3cret", `[`, http.StatusBadRequest},
		{"s3cret", `{"update_id":1,"message":{"text":"` + strings.Repeat("x", 1<<20) + `"}}`, http.StatusBadRequest},
		{"s3cret", `{"update_id":1}`, http.StatusServiceUnavailable}, // nothing receives yet
	} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", strings.NewReader(c.body))
		r.Header.Set("X-Telegram-Bot-Api-Secret-Token", c.secret)
		w := httptest.NewRecorder()
		p.ServeHTTP(w, r)
		if w.Code != c.want {
			t.Errorf("secret %q, body %.40s: status %d, want %d", c.secret, c.body, w.Code, c.want)
		}
	}
	if _, err := telegram.New(telegram.Config{Token: "1:x", WebhookURL: "https://bot.example.org/"}); err == nil {
		t.Error("a webhook without a secret is accepted")
	}
}

// A group that forbids photos or files still takes texts, so what waits for it must not be dropped.
func TestAGroupMayForbidFiles(t *testing.T) {
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		kind := map[string]string{"sendPhoto": "photos", "sendMediaGroup": "photos", "sendDocument": "documents", "sendMessage": "text messages"}[path.Base(r.URL.Path)]
		fmt.Fprintf(w, `{"ok":false,"error_code":400,"description":"Bad Request: not enough rights to send %s to the chat"}`, kind)
	}))
	defer api.Close()
	p, err := telegram.New(telegram.Config{Token: "1:x", URL: api.URL})
	if err != nil {
		t.Fatal(err)
	}
	file := gateway.File{Name: "a.png", Open: func(context.Context) (io.ReadCloser, error) { return io.NopCloser(strings.NewReader("x")), nil }}
	for name, test := range map[string]struct {
		message gateway.Message
		want    error
	}{
		"a photo":    {gateway.Message{Photos: true, Files: []gateway.File{file}}, gateway.ErrMedia},
		"an album":   {gateway.Message{Photos: true, Files: []gateway.File{file, file}}, gateway.ErrMedia},
		"a document": {gateway.Message{Files: []gateway.File{file}}, gateway.ErrRefused},
		"a text":     {gateway.Message{Text: "x"}, gateway.ErrForbidden},
	} {
		if _, err := p.Send(t.Context(), gateway.Chat{ID: "-5", Group: true}, test.message); !errors.Is(err, test.want) {
			t.Errorf("%s: %v, want %v", name, err, test.want)
		}
	}
}
