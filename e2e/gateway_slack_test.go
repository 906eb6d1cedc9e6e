package e2e

import (
	"strings"
	"testing"

	"talaria/gateway/gatewaytest"
)

// The journey of a person in Slack, with a bot that is killed in the middle of a stream.
func TestASlackThreadSurvivesItsBot(t *testing.T) {
	t.Parallel()
	s := start(t, options{})
	fake := gatewaytest.NewSlack(nil)
	t.Cleanup(fake.Close)
	b := &chatBot{server: s, args: []string{
		"slack", "--api-url", fake.URL, "--users", "U1",
		"--token-file", s.secret(t, "slack-token", fake.BotToken), "--app-token-file", s.secret(t, "slack-app-token", fake.AppToken),
	}}
	b.start(t)
	t.Cleanup(func() { b.kill() })

	send := func(kind string, payload map[string]any) {
		t.Helper()
		if err := fake.Send(within(t), kind, payload); err != nil {
			t.Fatal(err)
		}
	}
	awaits := func(what string, match func(gatewaytest.SlackMessage) bool) gatewaytest.SlackMessage {
		t.Helper()
		m, err := fake.Wait(within(t), match)
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		return m
	}
	contains := func(text string) func(gatewaytest.SlackMessage) bool {
		return func(m gatewaytest.SlackMessage) bool { return strings.Contains(m.Text, text) }
	}

	send("events_api", fake.Message("C1", "U9", "", "<@UBOT> print('a stranger')"))
	mention := fake.Message("C1", "U1", "", "<@UBOT> x = 6 &lt; 7\nprint('x is', x, '<!channel>')")
	thread := mention["event"].(map[string]any)["ts"].(string)
	send("events_api", mention)
	m := awaits("a result", contains("x is True"))
	if m.Thread != thread {
		t.Errorf("the result is in the thread %q, want %q", m.Thread, thread)
	}
	if !strings.Contains(m.Text, "&lt;!channel&gt;") {
		t.Errorf("what was printed can mention people: %q", m.Text)
	}
	inThread := func(text string) {
		t.Helper()
		payload := fake.Message("C1", "U1", thread, text)
		payload["event"].(map[string]any)["parent_user_id"] = "UBOT"
		send("events_api", payload)
	}
	inThread("import matplotlib.pyplot as plt\nfor i in range(2):\n    plt.figure(); plt.plot([i, 2]); plt.show()")
	if m := awaits("two charts", func(m gatewaytest.SlackMessage) bool { return len(m.Files) > 0 }); len(m.Files) != 2 || m.Files[0].Type != "image/png" {
		t.Errorf("%d files, %+v", len(m.Files), m.Text)
	}
	inThread("vars")
	awaits("a command without a slash", contains("x: bool = True"))

	inThread("import time\nfor i in range(6000): print('turn', i, flush=True); time.sleep(.1)")
	shown := awaits("progress", func(m gatewaytest.SlackMessage) bool { return strings.Contains(m.Text, "Running") && len(m.Edits) > 0 })
	b.kill()
	b.start(t)
	shown = awaits("progress after a restart", func(m gatewaytest.SlackMessage) bool { return m.TS == shown.TS && len(m.Edits) > len(shown.Edits)+1 })
	var press string
	for _, block := range shown.Blocks {
		for _, e := range block.Elements {
			press = e.Value
		}
	}
	send("interactive", map[string]any{
		"type": "block_actions", "user": map[string]any{"id": "U1", "username": "ann"}, "channel": map[string]any{"id": "C1"},
		"message": map[string]any{"ts": shown.TS, "thread_ts": thread}, "actions": []any{map[string]any{"value": press, "action_ts": "9.9"}},
	})
	end := awaits("the end", func(m gatewaytest.SlackMessage) bool {
		return m.TS == shown.TS && strings.Contains(m.Text, "KeyboardInterrupt")
	})
	if len(end.Blocks) != 0 {
		t.Errorf("a cell that is over still has a button: %+v", end.Blocks)
	}
	for _, call := range fake.Calls() {
		if call.Early || call.Error != "" || call.RetryAfter > 0 {
			t.Errorf("%+v", call)
		}
	}
	if m, err := fake.Wait(t.Context(), contains("")); err != nil || strings.Contains(m.Text, "stranger") {
		t.Errorf("the first message of the bot is %q, %v", m.Text, err)
	}
}
