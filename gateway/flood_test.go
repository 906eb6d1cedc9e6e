package gateway_test

import (
	"fmt"
	"log/slog"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"talaria/api"
	"talaria/client"
	"talaria/gateway"
	"talaria/gateway/gatewaytest"
	"talaria/gateway/telegram"
	"talaria/store/chats"
)

// rig is a bot on a fake of Telegram, in simulated time, without updates and without events: a test starts and ends cells.
type rig struct {
	*gateway.Harness
	text func() string // that the running cell has printed
}

// newRig makes one in a bubble. The fake is made outside of it.
func newRig(t *testing.T, fake *gatewaytest.Telegram, at gateway.Chat) *rig {
	t.Helper()
	r := &rig{text: func() string { return "" }}
	server := client.New("http://server.test", "token")
	server.HTTP = &http.Client{Transport: gateway.InProcess{http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		body, err := api.Marshal(api.Execution{ID: "cell", Status: api.StatusRunning, Text: r.text()})
		if err != nil {
			t.Error(err)
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(body)
	})}}
	platform, err := telegram.New(telegram.Config{Token: fake.Token, URL: fake.URL, HTTP: gateway.InProcess{fake}})
	if err != nil {
		t.Fatal(err)
	}
	store, err := chats.Open(t.Context(), filepath.Join(t.TempDir(), "chats.db"))
	if err != nil {
		t.Fatal(err)
	}
	r.Harness = gateway.NewHarness(t, gateway.Config{
		Platform: platform, Client: server, Store: store, Log: slog.New(slog.DiscardHandler),
	}, at)
	t.Cleanup(func() {
		r.Stop()
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

// Over ten minutes of output, the bot never writes earlier than it may, drops previews before anything else, and the last edit
// always arrives.
func TestG06G07G18FloodOfOutput(t *testing.T) {
	for name, test := range map[string]struct {
		chat   int64
		faults []gatewaytest.Fault
		edits  [2]int // at least, at most
	}{
		"a person": {42, nil, [2]int{400, 500}},
		"a group":  {-42, nil, [2]int{50, 130}},
		"with scripted 429s": {42, []gatewaytest.Fault{
			{}, {}, {Code: 429, RetryAfter: 7}, {}, {Code: 429, RetryAfter: 45}, {Code: 429, RetryAfter: 1},
		}, [2]int{340, 460}},
		"with a long 429": {42, []gatewaytest.Fault{{}, {}, {Code: 429, RetryAfter: 46}}, [2]int{3, 3}}, // two previews and the result
		"with failures":   {42, []gatewaytest.Fault{{}, {Code: 500, Description: "Internal Server Error"}, {}}, [2]int{390, 500}},
	} {
		t.Run(name, func(t *testing.T) {
			var now func() time.Time
			fake := gatewaytest.NewTelegram(func() time.Time { return now() })
			defer fake.Close()
			synctest.Test(t, func(t *testing.T) {
				now = time.Now
				fake.Say(test.chat, 42, "the cell")
				fake.Script("editMessageText", test.faults...)
				b := newRig(t, fake, gateway.Chat{ID: fmt.Sprint(test.chat), Group: test.chat < 0})
				began := time.Now()
				b.text = func() string {
					return fmt.Sprintf("%d s\n", time.Since(began)/time.Second) + strings.Repeat("line\n", 2000) + fmt.Sprint(time.Now())
				}
				b.Begin(t)
				for time.Since(began) < 10*time.Minute {
					b.Touch()
					time.Sleep(50 * time.Millisecond)
				}
				b.Finish(t, "the end", "and a second part")
				time.Sleep(4 * time.Minute)
				synctest.Wait()
				scripted := 0
				for _, f := range test.faults {
					if f.Code != 0 {
						scripted++
					}
				}
				refused, edits := 0, 0
				for _, call := range fake.Calls() {
					if call.Early {
						t.Errorf("a call came before the retry_after of an earlier one had passed: %+v", call)
					}
					if call.Code != 200 {
						refused++
					}
					if call.Method == "editMessageText" && call.Code == 200 {
						edits++
					}
				}
				if refused != scripted {
					t.Errorf("%d calls were refused, want the %d that were scripted", refused, scripted)
				}
				if edits < test.edits[0] || edits > test.edits[1] {
					t.Errorf("there were %d edits, want %v", edits, test.edits)
				}
				messages := fake.Messages(test.chat)
				elapsed := slices.ContainsFunc(messages[1].Edits, func(text string) bool { return strings.Contains(text, "Running for ") })
				if elapsed != (test.edits[1] > 3) {
					t.Errorf("that a message says how long the cell has been running is %t", elapsed)
				}
				if len(messages) != 3 || messages[1].Text != "the end" || messages[2].Text != "and a second part" {
					t.Errorf("the chat ends with %d messages: %.100q", len(messages), messages[len(messages)-1].Text)
				}
				if n := len(messages[1].Buttons); n != 0 {
					t.Errorf("a cell that is over has %d rows of buttons", n)
				}
			})
		})
	}
}

// Three previews that fail in a row are the last ones of a cell; its result is sent.
func TestG08PreviewsThatFail(t *testing.T) {
	var now func() time.Time
	fake := gatewaytest.NewTelegram(func() time.Time { return now() })
	defer fake.Close()
	synctest.Test(t, func(t *testing.T) {
		now = time.Now
		fake.Say(42, 42, "the cell")
		fault := gatewaytest.Fault{Code: 400, Description: "Bad Request: something else"}
		fake.Script("editMessageText", fault, fault, fault)
		b := newRig(t, fake, gateway.Chat{ID: "42"})
		b.text = func() string { return fmt.Sprint(time.Now()) }
		b.Begin(t)
		for range 600 {
			b.Touch()
			time.Sleep(100 * time.Millisecond)
		}
		failed := 0
		for _, call := range fake.Calls() {
			if call.Method == "editMessageText" {
				failed++
			}
		}
		if failed != gateway.MaxPreviews {
			t.Errorf("%d previews were tried, want %d", failed, gateway.MaxPreviews)
		}
		b.Finish(t, "the end")
		time.Sleep(time.Minute)
		if m := fake.Messages(42); m[len(m)-1].Text != "the end" || len(m) != 2 {
			t.Errorf("%+v", m)
		}
	})
}
