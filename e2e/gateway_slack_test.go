package e2e

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"talaria/gateway/gatewaytest"
)

// slackChat is a running Slack bot, and a person who writes to it in one place.
type slackChat struct {
	*chatBot
	slack                 *gatewaytest.Slack
	channel, user, thread string
}

// startSlack starts a Slack bot that ends with its test.
func startSlack(t *testing.T, s *Server, args ...string) *slackChat {
	t.Helper()
	fake := gatewaytest.NewSlack(nil)
	t.Cleanup(fake.Close)
	args = append([]string{
		"slack", "--api-url", fake.URL, "--token-file", s.secret(t, "slack-token", fake.BotToken),
		"--app-token-file", s.secret(t, "slack-app-token", fake.AppToken),
	}, args...)
	c := &slackChat{chatBot: &chatBot{server: s, args: args}, slack: fake, channel: "D1", user: "U1"}
	c.start(t)
	t.Cleanup(func() { c.kill() })
	return c
}

// in is the same person in another place.
func (c *slackChat) in(channel, thread string) *slackChat {
	other := *c
	other.channel, other.thread = channel, thread
	return &other
}

func (c *slackChat) send(t *testing.T, kind string, payload map[string]any) {
	t.Helper()
	if err := c.slack.Send(within(t), kind, payload); err != nil {
		t.Fatal(err)
	}
}

// say sends a text and returns its ts.
func (c *slackChat) say(t *testing.T, text string) (ts string) {
	t.Helper()
	payload := c.slack.Message(c.channel, c.user, c.thread, text)
	c.send(t, "events_api", payload)
	return payload["event"].(map[string]any)["ts"].(string)
}

// awaits returns the first message of the bot after another one that matches.
func (c *slackChat) awaits(t *testing.T, after, what string, match func(gatewaytest.SlackMessage) bool) gatewaytest.SlackMessage {
	t.Helper()
	m, err := c.slack.Wait(within(t), func(m gatewaytest.SlackMessage) bool { return m.Channel == c.channel && m.TS > after && match(m) })
	if err != nil {
		for _, m := range c.slack.Messages(c.channel, "") {
			t.Logf("%s in %s from %q: %.200q, %d files, edits %.200q", m.TS, m.Thread, m.User, m.Text, len(m.Files), m.Edits)
		}
		t.Fatalf("%s: %v", what, err)
	}
	return m
}

// says sends a text and returns the first message of the bot after it that contains the reply, and is no longer progress.
func (c *slackChat) says(t *testing.T, text, reply string) gatewaytest.SlackMessage {
	t.Helper()
	return c.awaits(t, c.say(t, text), text, func(m gatewaytest.SlackMessage) bool {
		return strings.Contains(m.Text, reply) && len(m.Blocks) == 0
	})
}

// becomes waits until a message was edited to contain a text.
func (c *slackChat) becomes(t *testing.T, m gatewaytest.SlackMessage, text string) gatewaytest.SlackMessage {
	t.Helper()
	return c.awaits(t, "", "the edit to "+text, func(one gatewaytest.SlackMessage) bool { return one.TS == m.TS && strings.Contains(one.Text, text) })
}

func (c *slackChat) press(t *testing.T, m gatewaytest.SlackMessage, user, label string) {
	t.Helper()
	payload, ok := c.slack.Press(m, user, label)
	if !ok {
		t.Fatalf("there is no button %s: %+v", label, m.Blocks)
	}
	c.send(t, "interactive", payload)
}

// The journey of a person in a thread of a channel, with a bot that is killed between any two steps and in the middle of a stream.
func TestASlackThreadSurvivesItsBot(t *testing.T) {
	t.Parallel()
	c := startSlack(t, start(t, options{}))
	channel := c.in("C1", "")
	steps := []struct {
		name string
		do   func(t *testing.T)
	}{
		{"a stranger", func(t *testing.T) { c.says(t, "1+1", "You may not use this bot yet") }},
		{"pairing", func(t *testing.T) { c.says(t, "pair "+c.code(t, "slack"), "You may use this bot now") }},
		{"a mention", func(t *testing.T) {
			m := channel.says(t, "<@UBOT> x = 6 &lt; 7\nprint('x is', x, '<!channel>')", "x is True")
			if channel.thread = m.Thread; m.Thread == "" {
				t.Fatal("a mention opens no thread")
			}
			if !strings.Contains(m.Text, "&lt;!channel&gt;") {
				t.Errorf("what was printed can mention people: %q", m.Text)
			}
		}},
		{"a CSV", func(t *testing.T) {
			payload := c.slack.Upload("C1", "U1", channel.thread, "", gatewaytest.File{Name: "../../sales 2026.csv", Data: []byte("city,sold\nRome,3\nOslo,4\n")})
			c.send(t, "events_api", payload)
			channel.awaits(t, channel.thread, "the reply to a CSV", func(m gatewaytest.SlackMessage) bool {
				return strings.Contains(m.Text, "Saved as `sales 2026.csv`") && strings.Contains(m.Text, "2 rows, 2 columns: city, sold")
			})
		}},
		{"a table", func(t *testing.T) {
			channel.says(t, "import pandas as pd\nd = pd.read_csv('sales 2026.csv')\nd", "Rome")
		}},
		{"a chart", func(t *testing.T) {
			after := channel.say(t, "```d.plot.bar(x='city', y='sold')\nNone```")
			m := channel.awaits(t, after, "a chart", func(m gatewaytest.SlackMessage) bool { return len(m.Files) == 1 })
			if !regexp.MustCompile(`^Cell \d+ · [\d.]+ s$`).MatchString(m.Text) || m.Files[0].Type != "image/png" {
				t.Errorf("the comment is %q, the file %s", m.Text, m.Files[0].Type)
			}
		}},
		{"five charts", func(t *testing.T) {
			after := channel.say(t, "import matplotlib.pyplot as plt\nfor i in range(5):\n    plt.figure(); plt.plot([i, 2])\n    plt.show()")
			channel.awaits(t, after, "five charts", func(m gatewaytest.SlackMessage) bool { return len(m.Files) == 5 })
		}},
		{"2 MB of text", func(t *testing.T) {
			after := channel.say(t, "for i in range(200_000): print('%09d' % i)")
			m := channel.awaits(t, after, "the document", func(m gatewaytest.SlackMessage) bool { return len(m.Files) == 1 })
			var whole strings.Builder
			for i := range 200_000 {
				fmt.Fprintf(&whole, "%09d\n", i)
			}
			if got := string(m.Files[0].Data); strings.TrimSpace(got) != strings.TrimSpace(whole.String()) {
				t.Errorf("the document has %d bytes: %q … %q", len(got), got[:min(len(got), 100)], got[max(0, len(got)-100):])
			}
		}},
		{"an error", func(t *testing.T) { channel.says(t, "1/0", "ZeroDivisionError") }},
		{"a question", func(t *testing.T) {
			channel.says(t, "name = input('Who are you? ')\nprint('Hello', name)", "Who are you?")
		}},
		{"its answer", func(t *testing.T) { channel.says(t, "Ann", "Hello Ann") }},
		{"an endless loop", func(t *testing.T) {
			after := channel.say(t, "import time\nn = 0\nwhile True:\n    n += 1\n    print('turn', n, flush=True)\n    time.sleep(0.05)")
			m := channel.awaits(t, after, "progress", func(m gatewaytest.SlackMessage) bool {
				return strings.Contains(m.Text, "Running") && len(m.Edits) > 0
			})
			c.restart(t)
			edits := len(m.Edits)
			m = channel.awaits(t, after, "progress after a restart", func(m gatewaytest.SlackMessage) bool { return len(m.Edits) > edits+1 })
			channel.press(t, m, "U1", "Stop")
			if end := channel.becomes(t, m, "KeyboardInterrupt"); len(end.Blocks) != 0 {
				t.Errorf("a cell that has ended still has a button: %+v", end.Blocks)
			}
		}},
		{"a reset", func(t *testing.T) { channel.says(t, "reset", "fresh interpreter") }},
		{"after the reset", func(t *testing.T) { channel.says(t, "n", "NameError") }},
	}
	for _, step := range steps {
		if !t.Run(strings.ReplaceAll(step.name, " ", "_"), step.do) {
			return
		}
		c.restart(t)
	}
	channel.says(t, "status", "session")
	for _, call := range c.slack.Calls() {
		if call.Early || call.Error != "" || call.RetryAfter > 0 {
			t.Errorf("%+v", call)
		}
	}
	seen := map[string]int{}
	for _, m := range append(c.slack.Messages("C1", ""), c.slack.Messages("D1", "")...) {
		if m.User == "" && !strings.HasPrefix(m.Text, "This cell waits") { // of several cells
			seen[fmt.Sprint(m.Text, len(m.Files))]++
		}
		if m.User == "" && m.Channel == "C1" && m.Thread != channel.thread {
			t.Errorf("%q is not in the thread", m.Text)
		}
		if strings.Contains(m.Text, "Running") {
			t.Errorf("message %s still says that a cell runs: %q", m.TS, m.Text)
		}
	}
	for text, n := range seen {
		if n > 1 {
			t.Errorf("said %d times: %q", n, text)
		}
	}
}

// The rows of the acceptance table that Slack has on its own, on one bot.
func TestASlackBot(t *testing.T) {
	t.Parallel()
	s := start(t, options{config: "gateways:\n  slack:\n    approvals: all\n    limits: [memory_bytes=256MiB]\n"})
	c := startSlack(t, s, "--users", "U1,U2", "--admins", "U9", "--direct-threads", "--interrupt")
	place := c.in("C1", "")

	t.Run("G17 approvals are for the person who ran the cell and for admins", func(t *testing.T) {
		after := place.say(t, "<@UBOT> print('approved', 1)")
		place.thread = after
		m := place.awaits(t, after, "the question", func(m gatewaytest.SlackMessage) bool { return strings.Contains(m.Text, "Approval needed") })
		place.press(t, m, "U2", "Allow once")
		place.press(t, m, "U3", "Allow once")
		place.press(t, m, "U1", "Allow for this session")
		place.awaits(t, after, "the cell", func(m gatewaytest.SlackMessage) bool { return strings.Contains(m.Text, "approved 1") })
		if m := place.becomes(t, m, "Allowed for this session (by name-of-U1 on Slack)."); len(m.Blocks) > 0 {
			t.Errorf("%q still has buttons", m.Text)
		}
		place.press(t, m, "U1", "Deny")
		if err := c.slack.WaitCalls(within(t), "chat.postEphemeral", 3); err != nil {
			t.Fatal(err)
		}
		for user, want := range map[string]string{"U1": "no longer open", "U2": "Only the person who ran the cell", "U3": "You may not use this bot."} {
			if got := strings.Join(c.whispersTo(user), "|"); !strings.Contains(got, want) {
				t.Errorf("%s was shown %q", user, got)
			}
		}
	})

	t.Run("G14 in a thread of the bot no mention is needed, and others are left alone", func(t *testing.T) {
		place.says(t, "print('without a mention')", "without a mention")
		place.say(t, "<@U2> print('to somebody else')")
		c.in("C1", "").say(t, "print('in the channel')")
		c.in("C2", "9.9").say(t, "print('in another thread')")
		place.says(t, "print('after these')", "after these")
		for _, m := range append(c.slack.Messages("C1", ""), c.slack.Messages("C2", "")...) {
			if m.User == "" && (strings.Contains(m.Text, "to somebody else") || strings.Contains(m.Text, "in the channel") || strings.Contains(m.Text, "in another thread")) {
				t.Errorf("the bot said %q", m.Text)
			}
		}
	})

	t.Run("G16 with interrupt, a message interrupts the running cell", func(t *testing.T) {
		after := place.say(t, "import time\nprint('first', flush=True)\ntime.sleep(600)")
		m := place.awaits(t, after, "progress", func(m gatewaytest.SlackMessage) bool { return strings.Contains(m.Text, "first") })
		place.says(t, "print('sec' + 'ond')", "The running cell is interrupted")
		place.becomes(t, m, "KeyboardInterrupt")
		place.awaits(t, after, "the second cell", func(m gatewaytest.SlackMessage) bool { return strings.Contains(m.Text, "second") })
	})

	t.Run("G15 slash commands", func(t *testing.T) {
		for text, want := range map[string]string{"": "Commands, as a message or after /talaria", "files": "There are no files yet", "py 1": "Approval needed"} {
			c.send(t, "slash_commands", map[string]any{
				"command": "/talaria", "text": text, "user_id": "U1", "user_name": "ann", "channel_id": "C1", "trigger_id": "t" + text,
			})
			place.awaits(t, "", "/talaria "+text, func(m gatewaytest.SlackMessage) bool { return m.Thread == "" && strings.Contains(m.Text, want) })
		}
	})

	t.Run("G09 a message whose answer was lost is there once", func(t *testing.T) {
		for _, step := range []struct{ method, code, want string }{
			{"chat.postMessage", "'ans' + 'wer'", "answer"},
			{"files.completeUploadExternal", "open('lost.bin', 'wb').write(b'abc')\nNone", "lost.bin"},
		} {
			c.slack.Script(step.method, gatewaytest.Fault{Lost: true})
			after := place.say(t, step.code)
			found := func(m gatewaytest.SlackMessage) bool {
				return strings.Contains(m.Text, step.want) || len(m.Files) > 0 && m.Files[0].Name == step.want
			}
			place.awaits(t, after, step.want, found)
			place.says(t, "status", "network ")
			n := 0
			for _, m := range c.slack.Messages("C1", place.thread) {
				n += oneIf(m.User == "" && m.TS > after && found(m))
			}
			if n != 1 {
				t.Errorf("%s is there %d times", step.want, n)
			}
		}
	})

	t.Run("G09 G13 a direct message opens a thread, in which output streams", func(t *testing.T) {
		direct := c.in("D1", "")
		direct.thread = direct.say(t, "import time\nfor i in range(6000): print('turn', i, '<!here>', flush=True); time.sleep(.1)")
		m := direct.awaits(t, direct.thread, "the question", func(m gatewaytest.SlackMessage) bool { return strings.Contains(m.Text, "Approval needed") })
		direct.press(t, m, "U1", "Allow for this session")
		m = direct.awaits(t, direct.thread, "a stream", func(m gatewaytest.SlackMessage) bool { return m.Streams && len(m.Streamed) > 2 })
		if m.Thread != direct.thread || !strings.HasPrefix(m.Text, "```\nturn 0 <\u200b!here>\nturn 1 <\u200b!here>\n") || m.Text != strings.Join(m.Streamed, "") {
			t.Errorf("in %s: %q", m.Thread, m.Text)
		}
		c.restart(t)
		m = direct.awaits(t, direct.thread, "edits after a restart", func(one gatewaytest.SlackMessage) bool {
			return one.TS == m.TS && !one.Streams && len(one.Edits) > 0 && len(one.Blocks) > 1
		})
		direct.press(t, m, "U1", "Stop")
		direct.becomes(t, m, "KeyboardInterrupt")
		// Where Slack refuses a stream, messages are edited, and no other stream is tried.
		c.slack.Script("chat.startStream", gatewaytest.Fault{Description: "unknown_method"})
		for range 2 {
			after := direct.say(t, "for i in range(6000): print('turn', i, flush=True); time.sleep(.1)")
			m = direct.awaits(t, after, "progress", func(m gatewaytest.SlackMessage) bool { return strings.Contains(m.Text, "Running") })
			direct.press(t, m, "U1", "Stop")
			direct.becomes(t, m, "KeyboardInterrupt")
		}
		tries := 0
		for _, call := range c.slack.Calls() {
			tries += oneIf(call.Method == "chat.startStream")
		}
		if tries != 2 {
			t.Errorf("a stream was tried %d times, want 2", tries)
		}
	})

	expected := regexp.MustCompile("^(streaming_state_conflict|unknown_method)$")
	for _, call := range c.slack.Calls() {
		if call.Early || call.RetryAfter > 0 || call.Error != "" && !expected.MatchString(call.Error) {
			t.Errorf("%+v", call)
		}
	}
	c.kill() // it writes no more
	if log := c.log.String(); strings.Contains(log, c.slack.BotToken) || strings.Contains(log, c.slack.AppToken) {
		t.Error("G19: a token is in the log")
	}
}

func (c *slackChat) whispersTo(user string) (texts []string) {
	for _, w := range c.slack.Whispers() {
		if w.User == user {
			texts = append(texts, w.Text)
		}
	}
	return texts
}
