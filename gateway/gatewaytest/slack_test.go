package gatewaytest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"
)

func startSlack(t *testing.T) (*Slack, *clock) {
	t.Helper()
	c := &clock{time.Unix(1_800_000_000, 0)}
	f := NewSlack(c.now)
	t.Cleanup(f.Close)
	f.Message("D1", "U1", "", "hello")
	return f, c
}

// call returns the answer with the status and the Retry-After added to it.
func (f *Slack) call(t *testing.T, method, token string, fields map[string]string) map[string]any {
	t.Helper()
	form := url.Values{"token": {token}}
	for name, value := range fields {
		form.Set(name, value)
	}
	r, err := http.PostForm(f.URL+method, form)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	got := map[string]any{}
	if err := json.NewDecoder(r.Body).Decode(&got); err != nil {
		t.Fatal(err)
	}
	got["status"], got["retry"] = r.StatusCode, r.Header.Get("Retry-After")
	return got
}

func TestSlackRefusesWhatSlackRefuses(t *testing.T) {
	section := func(n int) string {
		return fmt.Sprintf(`{"type":"section","text":{"type":"mrkdwn","text":"%s"}}`, strings.Repeat("é", n))
	}
	list := func(block string, n int) string {
		return "[" + strings.TrimSuffix(strings.Repeat(block+",", n), ",") + "]"
	}
	markdown := func(n int) string { return fmt.Sprintf(`[{"type":"markdown","text":"%s"}]`, strings.Repeat("x", n)) }
	cases := []struct {
		name   string
		method string
		fields map[string]string
		want   string // the error; empty when accepted
	}{
		{"text", "chat.postMessage", map[string]string{"text": "x"}, ""},
		{"no text", "chat.postMessage", map[string]string{}, "no_text"},
		{"stranger", "chat.postMessage", map[string]string{"text": "x", "channel": "C9"}, "channel_not_found"},
		{"section of 3000", "chat.postMessage", map[string]string{"blocks": list(section(3000), 1)}, ""},
		{"section of 3001", "chat.postMessage", map[string]string{"blocks": list(section(3001), 1)}, "invalid_blocks"},
		{"empty section", "chat.postMessage", map[string]string{"blocks": list(section(0), 1)}, "invalid_blocks"},
		{"markdown of 12000", "chat.postMessage", map[string]string{"blocks": markdown(12000)}, ""},
		{"markdown of 12001", "chat.postMessage", map[string]string{"blocks": markdown(12001)}, "invalid_blocks"},
		{"50 blocks", "chat.postMessage", map[string]string{"blocks": list(section(1), 50)}, ""},
		{"51 blocks", "chat.postMessage", map[string]string{"blocks": list(section(1), 51)}, "too_many_blocks"},
		{"long in all", "chat.postMessage", map[string]string{"blocks": list(section(2900), 5)}, "msg_blocks_too_long"},
		{"no JSON", "chat.postMessage", map[string]string{"blocks": "["}, "invalid_blocks_format"},
		{"update of nothing", "chat.update", map[string]string{"ts": "1.0", "text": "x"}, "message_not_found"},
		{"update of a user's", "chat.update", map[string]string{"ts": "1800000000.000001", "text": "x"}, "cant_update_message"},
		{"upload without a length", "files.getUploadURLExternal", map[string]string{"filename": "a"}, "invalid_arguments"},
		{"unknown", "chat.nothing", map[string]string{}, "unknown_method"},
	}
	f, c := startSlack(t)
	for _, x := range cases {
		t.Run(x.name, func(t *testing.T) {
			c.at = c.at.Add(time.Minute)
			if x.fields["channel"] == "" {
				x.fields["channel"] = "D1"
			}
			got := f.call(t, x.method, f.BotToken, x.fields)
			if reason, _ := got["error"].(string); reason != x.want || got["ok"] != (x.want == "") {
				t.Fatalf("got %v, want %q", got, x.want)
			}
		})
	}
	if got := f.call(t, "auth.test", "xoxb-other", nil); got["error"] != "invalid_auth" {
		t.Fatalf("another token: %v", got)
	}
}

func TestSlackCutsLongTextsOnlyWhenPosted(t *testing.T) {
	f, _ := startSlack(t)
	long := map[string]string{"channel": "D1", "text": strings.Repeat("x", 40001)}
	got := f.call(t, "chat.postMessage", f.BotToken, long)
	m, err := f.Wait(t.Context(), func(m SlackMessage) bool { return m.Cut })
	if err != nil || len(m.Text) != 40000 {
		t.Fatalf("%d characters, %v", len(m.Text), err)
	}
	long["ts"] = got["ts"].(string)
	if got := f.call(t, "chat.update", f.BotToken, long); got["error"] != "msg_too_long" {
		t.Fatalf("%v", got["error"])
	}
}

func TestSlackRates(t *testing.T) {
	f, c := startSlack(t)
	send := func() map[string]any {
		return f.call(t, "chat.postMessage", f.BotToken, map[string]string{"channel": "D1", "text": "x"})
	}
	for range 3 {
		if got := send(); got["ok"] != true {
			t.Fatalf("a burst of three: %v", got)
		}
	}
	if got := send(); got["status"] != 429 || got["retry"] != "1" {
		t.Fatalf("the fourth: %v", got)
	}
	if got := send(); got["status"] != 429 || !f.Calls()[4].Early {
		t.Fatalf("before Retry-After: %v, %+v", got, f.Calls()[4])
	}
	c.at = c.at.Add(time.Second)
	if got := send(); got["ok"] != true {
		t.Fatalf("after Retry-After: %v", got)
	}
}

func TestSlackUploadsInThreeSteps(t *testing.T) {
	f, _ := startSlack(t)
	got := f.call(t, "files.getUploadURLExternal", f.BotToken, map[string]string{"filename": "a.txt", "length": "3"})
	files := fmt.Sprintf(`[{"id":%q,"title":"a"}]`, got["file_id"])
	complete := func() any {
		return f.call(t, "files.completeUploadExternal", f.BotToken, map[string]string{"files": files, "channel_id": "D1"})["error"]
	}
	if reason := complete(); reason != "file_not_found" {
		t.Fatalf("completed before the upload: %v", reason)
	}
	upload := func(data string) int {
		var body bytes.Buffer
		form := multipart.NewWriter(&body)
		w, _ := form.CreateFormFile("file", "a.txt")
		_, _ = io.WriteString(w, data)
		form.Close()
		r, err := http.Post(got["upload_url"].(string), form.FormDataContentType(), &body)
		if err != nil {
			t.Fatal(err)
		}
		r.Body.Close()
		return r.StatusCode
	}
	if upload("abcd") != 400 || upload("abc") != 200 {
		t.Fatal("the length that was announced is not checked")
	}
	if reason := complete(); reason != nil {
		t.Fatalf("%v", reason)
	}
	if reason := complete(); reason != "file_not_found" {
		t.Fatalf("completed twice: %v", reason)
	}
}

func TestSlackSocketModeMeasuresAcknowledgements(t *testing.T) {
	f, c := startSlack(t)
	if got := f.call(t, "apps.connections.open", f.BotToken, nil); got["error"] != "invalid_auth" {
		t.Fatalf("with the bot's token: %v", got)
	}
	got := f.call(t, "apps.connections.open", f.AppToken, nil)
	conn, _, err := websocket.DefaultDialer.Dial(got["url"].(string), http.Header{"Origin": {"https://api.slack.com"}})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	late := make(chan time.Duration, 2)
	late <- time.Second
	late <- 4 * time.Second
	go func() {
		for {
			var e map[string]any
			if conn.ReadJSON(&e) != nil {
				return
			}
			if e["type"] == "events_api" {
				f.mu.Lock()
				c.at = c.at.Add(<-late)
				f.mu.Unlock()
				_ = conn.WriteJSON(map[string]any{"envelope_id": e["envelope_id"]})
			}
		}
	}()
	if err := f.Send(t.Context(), "events_api", f.Message("D1", "U1", "", "1+1")); err != nil {
		t.Fatal(err)
	}
	if err := f.Send(t.Context(), "events_api", f.Message("D1", "U1", "", "1+1")); err == nil {
		t.Fatal("an acknowledgement after 4 s was accepted")
	}
}

func TestSlackAcceptsJSONCallsWithoutABody(t *testing.T) {
	f, _ := startSlack(t)
	q, err := http.NewRequestWithContext(t.Context(), http.MethodPost, f.URL+"auth.test", nil)
	if err != nil {
		t.Fatal(err)
	}
	q.Header.Set("Content-Type", "application/json")
	q.Header.Set("Authorization", "Bearer "+f.BotToken)
	r, err := http.DefaultClient.Do(q)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	var got struct {
		OK    bool
		Error string
	}
	if err := json.NewDecoder(r.Body).Decode(&got); err != nil || !got.OK {
		t.Fatalf("%+v, %v", got, err)
	}
}

func TestSlackSignsItsEvents(t *testing.T) {
	f, _ := startSlack(t)
	seen := make(chan http.Header, 1)
	app := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		want := f.Sign(body, time.Unix(1_800_000_000, 0))
		if r.Header.Get("X-Slack-Signature") != want.Get("X-Slack-Signature") {
			w.WriteHeader(http.StatusUnauthorized)
		}
		seen <- r.Header
	}))
	defer app.Close()
	status, err := f.PostEvent(t.Context(), app.URL, f.Message("D1", "U1", "", "1+1"))
	if err != nil || status != 200 || (<-seen).Get("X-Slack-Request-Timestamp") != "1800000000" {
		t.Fatalf("%d, %v", status, err)
	}
}
