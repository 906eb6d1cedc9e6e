package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"talaria/gateway/gatewaytest"
)

// A Slack bot inside the server, by the configuration, with events by HTTP: signed ones are handled once, however often they
// come, and forged and old ones are not.
func TestG14ASlackBotInsideTheServer(t *testing.T) {
	t.Parallel()
	fake := gatewaytest.NewSlack(nil)
	t.Cleanup(fake.Close)
	dir := t.TempDir()
	for name, text := range map[string]string{"token": fake.BotToken, "secret": fake.Secret} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := free.Addr().(*net.TCPAddr).Port
	if err := free.Close(); err != nil {
		t.Fatal(err)
	}
	s := start(t, options{config: fmt.Sprintf(`gateways:
  slack:
    token_file: %[1]s/token
    secret_file: %[1]s/secret
    users: [U1]
    api_url: %[2]s
    listen: 127.0.0.1:%[3]d
`, dir, fake.URL, port)})
	c := &slackChat{chatBot: &chatBot{server: s}, slack: fake, channel: "D1", user: "U1"}
	url := fmt.Sprintf("http://127.0.0.1:%d/", port)
	if err := fake.WaitCalls(within(t), "auth.test", 1); err != nil { // by then it listens
		t.Fatal(err)
	}
	post := func(payload map[string]any) {
		t.Helper()
		for status := 0; status != http.StatusOK; { // Slack sends an event again too, while the bot starts
			var err error
			if status, err = fake.PostEvent(within(t), url, payload); err != nil || status != http.StatusOK && status != http.StatusServiceUnavailable {
				t.Fatalf("%d, %v", status, err)
			}
		}
	}
	count := fake.Message("D1", "U1", "", "n = globals().get('n', 0) + 1\nprint('ran', n)")
	for range 3 {
		post(count)
	}
	c.awaits(t, "", "the cell", func(m gatewaytest.SlackMessage) bool { return strings.Contains(m.Text, "ran 1") })

	forged := fake.Message("D1", "U1", "", "n = 100")
	body, err := json.Marshal(forged)
	if err != nil {
		t.Fatal(err)
	}
	for name, header := range map[string]http.Header{
		"of another body": fake.Sign([]byte("{}"), time.Now()), "six minutes old": fake.Sign(body, time.Now().Add(-6*time.Minute)), "missing": {},
	} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, bytes.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header = header
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		if res.Body.Close(); res.StatusCode != http.StatusUnauthorized {
			t.Errorf("with a signature that is %s, the status is %s", name, res.Status)
		}
	}
	after := fake.Message("D1", "U1", "", "print('n is', n)")
	post(after)
	c.awaits(t, "", "the last cell", func(m gatewaytest.SlackMessage) bool { return strings.Contains(m.Text, "n is 1") })
}
