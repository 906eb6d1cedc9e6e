package slack_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"talaria/api"
	"talaria/gateway"
	"talaria/gateway/gatewaytest"
	"talaria/gateway/slack"
)

const patience = 2 * time.Minute

func open(t *testing.T, f *gatewaytest.Slack, c slack.Config) *slack.Platform {
	t.Helper()
	c.BotToken, c.URL, c.Log = f.BotToken, f.URL, slog.New(slog.DiscardHandler)
	p, err := slack.New(c)
	if err != nil {
		t.Fatal(err)
	}
	account, err := p.Open(t.Context(), nil)
	if err != nil || account.ID != "T1/UBOT" {
		t.Fatalf("%+v, %v", account, err)
	}
	return p
}

// receive collects updates until the test ends. fail makes taking fail.
func receive(t *testing.T, p *slack.Platform, fail func(gateway.Update) error) <-chan gateway.Update {
	t.Helper()
	updates, ended := make(chan gateway.Update, 100), make(chan error, 1)
	ctx, stop := context.WithCancel(t.Context())
	go func() {
		ended <- p.Receive(ctx, "", func(_ context.Context, u gateway.Update) error {
			if fail != nil {
				if err := fail(u); err != nil {
					return err
				}
			}
			updates <- u
			return nil
		})
	}()
	t.Cleanup(func() {
		stop()
		<-ended
	})
	return updates
}

func next(t *testing.T, updates <-chan gateway.Update) gateway.Update {
	t.Helper()
	select {
	case u := <-updates:
		return u
	case <-time.After(patience):
		t.Fatal("there is no update")
		return gateway.Update{}
	}
}

func within(t *testing.T) context.Context {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), patience)
	t.Cleanup(stop)
	return ctx
}

func TestG13G14MessagesOfSlack(t *testing.T) {
	f := gatewaytest.NewSlack(nil)
	defer f.Close()
	p := open(t, f, slack.Config{AppToken: f.AppToken})
	updates := receive(t, p, nil)
	send := func(payload map[string]any, change ...string) {
		t.Helper()
		event := payload["event"].(map[string]any)
		for _, c := range change {
			name, value, _ := strings.Cut(c, "=")
			event[name] = value
		}
		if err := f.Send(within(t), "events_api", payload); err != nil {
			t.Fatal(err)
		}
	}

	mention := f.Message("C1", "U1", "", "<@UBOT> x = 1 &lt; 2\nprint(<http://a.b|a.b>, &amp;amp;)")
	send(mention)
	u := next(t, updates)
	if want := "x = 1 < 2\nprint(a.b, &amp;)"; u.Text != want || !u.Addressed || !u.Chat.Group {
		t.Errorf("%+v, want the text %q", u, want)
	}
	if u.Chat.ID != "C1" || u.Chat.Thread != u.MessageID || u.Chat.Thread == "" {
		t.Errorf("a mention opens no thread: %+v", u.Chat)
	}
	send(mention, "type=app_mention") // the same message, as another event
	if again := next(t, updates); again.ID != u.ID {
		t.Errorf("a mention that comes as two events has the ids %s and %s", u.ID, again.ID)
	}
	send(f.Message("C1", "U1", u.MessageID, "1+1"), "parent_user_id=UBOT")
	if reply := next(t, updates); reply.Chat.Thread != u.MessageID || !reply.Addressed || reply.ReplyTo != u.MessageID {
		t.Errorf("%+v", reply)
	}
	send(f.Message("C1", "U1", "", "not for the bot"))
	if other := next(t, updates); other.Addressed {
		t.Errorf("%+v", other)
	}
	send(f.Message("D1", "U1", "", "1+1"))
	if direct := next(t, updates); !direct.Addressed || direct.Chat.Group || direct.Chat.Thread != "" {
		t.Errorf("%+v", direct)
	}
	for _, change := range []string{"bot_id=B9", "subtype=message_changed", "subtype=bot_message", "user=UBOT", "user="} {
		send(f.Message("D1", "U1", "", "ignored"), change)
	}
	app := f.Message("D1", "U1", "", "of another app")
	delete(app["event"].(map[string]any), "client_msg_id")
	send(app, "app_id=A9")
	send(f.Message("D1", "U1", "", "after these"))
	if last := next(t, updates); last.Text != "after these" {
		t.Errorf("not ignored: %+v", last)
	}
}

func TestAnEventThatIsNotKeptIsNotAcknowledged(t *testing.T) {
	f := gatewaytest.NewSlack(nil)
	defer f.Close()
	p := open(t, f, slack.Config{AppToken: f.AppToken})
	failed := make(chan struct{}, 1)
	first := true
	updates := receive(t, p, func(gateway.Update) error {
		if first {
			first = false
			failed <- struct{}{}
			return errors.New("the disk is full")
		}
		return nil
	})
	payload := f.Message("D1", "U1", "", "1+1")
	ctx, stop := context.WithCancel(within(t))
	go func() {
		<-failed
		stop()
	}()
	if err := f.Send(ctx, "events_api", payload); err == nil {
		t.Error("an event that was not kept was acknowledged")
	}
	if err := f.Send(within(t), "events_api", payload); err != nil { // as Slack does
		t.Error(err)
	}
	next(t, updates)
}

func TestPressesAndSlashCommands(t *testing.T) {
	f := gatewaytest.NewSlack(nil)
	defer f.Close()
	p := open(t, f, slack.Config{AppToken: f.AppToken})
	updates := receive(t, p, nil)
	f.Message("C1", "U1", "", "hello")
	if err := f.Send(within(t), "interactive", map[string]any{
		"type": "block_actions", "user": map[string]any{"id": "U1", "username": "ann"}, "channel": map[string]any{"id": "C1"},
		"message": map[string]any{"ts": "5.1", "thread_ts": "5.0"}, "actions": []any{map[string]any{"value": "s:cell", "action_ts": "9.9"}},
	}); err != nil {
		t.Fatal(err)
	}
	u := next(t, updates)
	if u.Press == nil || u.Press.Data != "s:cell" || u.From.Name != "ann" || u.Chat.Thread != "5.0" || u.MessageID != "5.1" {
		t.Fatalf("%+v", u)
	}
	if err := p.Acknowledge(t.Context(), *u.Press, "Interrupting"); err != nil {
		t.Error(err)
	}
	// A message of the channel itself, such as the progress of /talaria py, to which somebody has replied in a thread.
	if err := f.Send(within(t), "interactive", map[string]any{
		"type": "block_actions", "user": map[string]any{"id": "U1", "username": "ann"}, "channel": map[string]any{"id": "C1"},
		"message": map[string]any{"ts": "6.0", "thread_ts": "6.0"}, "actions": []any{map[string]any{"value": "s:cell", "action_ts": "9.9"}},
	}); err != nil {
		t.Fatal(err)
	}
	if u := next(t, updates); u.Chat.ID != "C1" || u.Chat.Thread != "" || u.MessageID != "6.0" {
		t.Errorf("%+v", u)
	}
	if err := f.Send(within(t), "slash_commands", map[string]any{
		"command": "/talaria", "text": "get a.txt", "user_id": "U1", "user_name": "ann", "channel_id": "C1", "trigger_id": "t1",
	}); err != nil {
		t.Fatal(err)
	}
	if c := next(t, updates); c.Text != "/get a.txt" || !c.Addressed || c.Chat.ID != "C1" {
		t.Errorf("%+v", c)
	}
}

func TestG09MessagesAndEdits(t *testing.T) {
	f := gatewaytest.NewSlack(nil)
	defer f.Close()
	p := open(t, f, slack.Config{AppToken: f.AppToken})
	f.Message("C1", "U1", "", "hello")
	chat := gateway.Chat{ID: "C1", Thread: "7.0", Group: true}
	id, err := p.Send(t.Context(), chat, gateway.Message{
		Text: "```\nrunning\n```", Format: api.RenderMrkdwn, Buttons: []gateway.Button{{Label: "Stop", Data: "s:1"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	find := func() gatewaytest.SlackMessage {
		t.Helper()
		m, err := f.Wait(within(t), func(m gatewaytest.SlackMessage) bool { return m.TS == id })
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	if m := find(); len(m.Blocks) != 2 || m.Thread != "7.0" {
		t.Errorf("%+v", m)
	}
	if err := p.Edit(t.Context(), chat, id, gateway.Message{Text: "done <!channel> & more", Format: api.RenderUnformatted}); err != nil {
		t.Fatal(err)
	}
	if m := find(); m.Text != "done &lt;!channel&gt; &amp; more" || len(m.Blocks) != 0 {
		t.Errorf("G04: %+v", m)
	}
	f.Script("chat.update", gatewaytest.Fault{Description: "invalid_blocks"})
	if err := p.Edit(t.Context(), chat, id, gateway.Message{Text: "x", Buttons: []gateway.Button{{Label: "a", Data: "b"}}}); err != nil {
		t.Errorf("rejected blocks are not sent as text: %v", err)
	}
	f.Script("chat.update", gatewaytest.Fault{Code: 429, RetryAfter: 31})
	var retry *gateway.RetryError
	if err := p.Edit(t.Context(), chat, id, gateway.Message{Text: "y"}); !errors.As(err, &retry) || retry.After != 31*time.Second {
		t.Errorf("%v", err)
	}
	for word, want := range map[string]error{
		"token_revoked": gateway.ErrSignedOut, "is_archived": gateway.ErrForbidden, "message_not_found": gateway.ErrNoMessage,
		"file_upload_size_restricted": gateway.ErrTooLarge, "msg_too_long": gateway.ErrRefused,
	} {
		f.Script("chat.postMessage", gatewaytest.Fault{Description: word})
		if _, err := p.Send(t.Context(), chat, gateway.Message{Text: "x"}); !errors.Is(err, want) {
			t.Errorf("%s becomes %v, want %v", word, err, want)
		}
	}
	file := func(name, text string) gateway.File {
		return gateway.File{Name: name, Size: -1, Open: func(context.Context) (io.ReadCloser, error) {
			return io.NopCloser(strings.NewReader(text)), nil
		}}
	}
	if _, err := p.Send(t.Context(), chat, gateway.Message{Text: "two", Files: []gateway.File{file("a.txt", "1"), file("b.txt", "22")}}); err != nil {
		t.Fatal(err)
	}
	if m, err := f.Wait(within(t), func(m gatewaytest.SlackMessage) bool { return len(m.Files) == 2 }); err != nil || m.Text != "two" || string(m.Files[1].Data) != "22" || m.Thread != "7.0" {
		t.Errorf("%+v, %v", m, err)
	}
}

func TestG12FilesComeFromSlackOnly(t *testing.T) {
	f := gatewaytest.NewSlack(nil)
	defer f.Close()
	p := open(t, f, slack.Config{AppToken: f.AppToken})
	var leaked string
	other := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { leaked += r.Header.Get("Authorization") + r.URL.Path }))
	defer other.Close()
	for _, link := range []string{other.URL + "/files/F1", "file:///etc/passwd", "://", "https://slack.com.evil.example/x", "http://a.slack.com/x"} {
		if in, err := p.Download(t.Context(), gateway.Attachment{ID: link}); !errors.Is(err, gateway.ErrRefused) {
			t.Errorf("%s: %v, %v", link, in, err)
		}
	}
	if leaked != "" {
		t.Errorf("another host was asked: %s", leaked)
	}
}

// Requests by HTTP: signed ones are taken, forged and replayed ones are not.
func TestG14EventsByHTTP(t *testing.T) {
	f := gatewaytest.NewSlack(nil)
	defer f.Close()
	p := open(t, f, slack.Config{SigningSecret: f.Secret})
	hook := httptest.NewServer(p)
	defer hook.Close()
	payload := f.Message("D1", "U1", "", "1+1")
	body, _ := json.Marshal(payload)
	post := func(header http.Header, body []byte) (int, string) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, hook.URL, bytes.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header = header
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		text, _ := io.ReadAll(res.Body)
		return res.StatusCode, string(text)
	}
	if status, _ := post(f.Sign(body, time.Now()), body); status != http.StatusServiceUnavailable {
		t.Errorf("before the bot is ready, the status is %d", status)
	}
	var fails atomic.Bool
	fails.Store(true)
	updates := receive(t, p, func(gateway.Update) error {
		if fails.Load() {
			return errors.New("the disk is full")
		}
		return nil
	})
	for status := 0; status != http.StatusInternalServerError; { // until it receives
		if status, _ = post(f.Sign(body, time.Now()), body); status != http.StatusInternalServerError && status != http.StatusServiceUnavailable {
			t.Fatalf("the status is %d", status)
		}
	}
	fails.Store(false)
	if status, _ := post(f.Sign(body, time.Now()), body); status != http.StatusOK {
		t.Errorf("the status is %d", status)
	}
	next(t, updates)
	forged := f.Sign([]byte("something else"), time.Now())
	for name, header := range map[string]http.Header{"forged": forged, "replayed": f.Sign(body, time.Now().Add(-6*time.Minute)), "unsigned": {}} {
		if status, _ := post(header, body); status != http.StatusUnauthorized {
			t.Errorf("a request that is %s is answered with %d", name, status)
		}
	}
	hello := []byte(`{"type":"url_verification","challenge":"abc"}`)
	if status, text := post(f.Sign(hello, time.Now()), hello); status != http.StatusOK || text != "abc" {
		t.Errorf("%d %q", status, text)
	}
	form := []byte(url.Values{"command": {"/talaria"}, "text": {"help"}, "user_id": {"U1"}, "channel_id": {"D1"}, "trigger_id": {"t"}}.Encode())
	header := f.Sign(form, time.Now())
	header.Set("Content-Type", "application/x-www-form-urlencoded")
	if status, _ := post(header, form); status != http.StatusOK {
		t.Errorf("the status is %d", status)
	}
	if u := next(t, updates); u.Text != "/help" {
		t.Errorf("%+v", u)
	}
	large := bytes.Repeat([]byte(" "), 2<<20)
	if status, _ := post(f.Sign(large, time.Now()), large); status != http.StatusBadRequest {
		t.Errorf("a body of 2 MiB is answered with %d", status)
	}
}

func TestExactlyOneWayForEvents(t *testing.T) {
	for _, c := range []slack.Config{{BotToken: "x"}, {BotToken: "x", AppToken: "y", SigningSecret: "z"}, {AppToken: "y"}} {
		if _, err := slack.New(c); err == nil {
			t.Error(fmt.Sprintf("%+v", c), "is accepted")
		}
	}
}
