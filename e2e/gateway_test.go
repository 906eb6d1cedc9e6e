package e2e

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"talaria/gateway/gatewaytest"
)

// chatBot is a running bot of a server, as a process of its own, with a fake of Telegram.
type chatBot struct {
	server   *Server
	telegram *gatewaytest.Telegram // nil for another platform
	args     []string              // of talaria gateway
	cmd      *exec.Cmd
	log      *bytes.Buffer
}

// startBot starts a Telegram bot that ends with its test.
func startBot(t *testing.T, s *Server, args ...string) *chatBot {
	t.Helper()
	fake := gatewaytest.NewTelegram(nil)
	t.Cleanup(fake.Close)
	args = append([]string{"telegram", "--api-url", fake.URL, "--token-file", s.secret(t, "telegram-token", fake.Token)}, args...)
	b := &chatBot{server: s, telegram: fake, args: args}
	b.start(t)
	t.Cleanup(func() { b.kill() })
	return b
}

// secret writes a file in the state directory.
func (s *Server) secret(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(s.StateDir, name)
	if err := os.WriteFile(path, []byte(text+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s.give(t, path)
	return path
}

func (b *chatBot) start(t *testing.T) {
	t.Helper()
	b.cmd = b.server.command(context.Background(), append([]string{"gateway", "--state-dir", b.server.StateDir}, b.args...)...)
	b.log = new(bytes.Buffer)
	b.cmd.Stderr = b.log
	if err := b.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	log := b.log
	t.Cleanup(func() {
		if t.Failed() {
			b.kill() // it writes no more
			t.Logf("log of the bot:\n%s", log)
		}
	})
}

// kill ends the bot without a warning.
func (b *chatBot) kill() {
	_ = b.cmd.Process.Kill()
	_ = b.cmd.Wait()
}

func (b *chatBot) restart(t *testing.T) {
	t.Helper()
	b.kill()
	b.start(t)
}

// code is a pairing code that the command prints.
func (b *chatBot) code(t *testing.T, platform string) string {
	t.Helper()
	out, err := b.server.command(t.Context(), "gateway", "pair", platform, "--state-dir", b.server.StateDir).Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

// awaits returns the first message of the bot after another one that matches.
func (b *chatBot) awaits(t *testing.T, chat int64, after int, what string, match func(gatewaytest.Message) bool) gatewaytest.Message {
	t.Helper()
	m, err := b.telegram.Wait(within(t), func(m gatewaytest.Message) bool { return m.Chat == chat && m.ID > after && match(m) })
	if err != nil {
		for _, m := range b.telegram.Messages(chat) {
			t.Logf("%d %t %s %q %v", m.ID, m.FromBot, m.Kind, m.Text, m.Edits)
		}
		t.Fatalf("%s: %v", what, err)
	}
	return m
}

// says sends a text and returns the first message of the bot after it that contains the reply, and is no longer progress.
func (b *chatBot) says(t *testing.T, chat, user int64, text, reply string) gatewaytest.Message {
	t.Helper()
	last := b.last(chat)
	b.telegram.Say(chat, user, text)
	return b.awaits(t, chat, last, text, func(m gatewaytest.Message) bool { return strings.Contains(m.Text, reply) && len(m.Buttons) == 0 })
}

// becomes waits until a message was edited to contain a text.
func (b *chatBot) becomes(t *testing.T, m gatewaytest.Message, text string) gatewaytest.Message {
	t.Helper()
	return b.awaits(t, m.Chat, m.ID-1, "the edit to "+text, func(one gatewaytest.Message) bool {
		return one.ID == m.ID && strings.Contains(one.Text, text)
	})
}

func (b *chatBot) last(chat int64) (id int) {
	for _, m := range b.telegram.Messages(chat) {
		id = max(id, m.ID)
	}
	return id
}

// checkCalls fails for calls that Telegram refused or that came earlier than it asked for. A bot that was killed looks for
// messages by edits that change nothing.
func (b *chatBot) checkCalls(t *testing.T) {
	t.Helper()
	looks := regexp.MustCompile("is not modified|to edit not found|can't be edited|there is no (text|caption) in the message")
	for _, call := range b.telegram.Calls() {
		if call.Early || call.Code != 200 && !looks.MatchString(call.Description) {
			t.Errorf("%+v", call)
		}
	}
}

// The journey of a person in a chat, with a bot that is killed between any two steps and in the middle of a stream.
func TestATelegramChatSurvivesItsBot(t *testing.T) {
	t.Parallel()
	s := start(t, options{})
	b := startBot(t, s)
	const chat, user = 42, 42
	steps := []struct {
		name string
		do   func(t *testing.T)
	}{
		{"a stranger", func(t *testing.T) { b.says(t, chat, user, "1+1", "You may not use this bot yet") }},
		{"pairing", func(t *testing.T) { b.says(t, chat, user, "/pair "+b.code(t, "telegram"), "You may use this bot now") }},
		{"a value", func(t *testing.T) { b.says(t, chat, user, "20 + 22", "42") }},
		{"a CSV", func(t *testing.T) {
			last := b.last(chat)
			b.telegram.Upload(chat, user, gatewaytest.File{Name: "../../sales 2026.csv", Data: []byte("city,sold\nRome,3\nOslo,4\n")}, "")
			b.awaits(t, chat, last, "the reply to a CSV", func(m gatewaytest.Message) bool {
				return strings.Contains(m.Text, `Saved as sales 2026.csv`) && strings.Contains(m.Text, "2 rows, 2 columns: city, sold")
			})
		}},
		{"a table", func(t *testing.T) {
			m := b.says(t, chat, user, "/py import pandas as pd\nd = pd.read_csv('sales 2026.csv')\nd", "Rome")
			if !strings.Contains(m.Source, "<pre>") {
				t.Errorf("the table is not in a fixed width: %q", m.Source)
			}
		}},
		{"a chart", func(t *testing.T) {
			last := b.last(chat)
			b.telegram.Say(chat, user, "```python\nd.plot.bar(x='city', y='sold')\nNone\n```")
			m := b.awaits(t, chat, last, "a chart", func(m gatewaytest.Message) bool { return m.Kind == "photo" })
			if !regexp.MustCompile(`^Cell \d+ · [\d.]+ s$`).MatchString(m.Text) {
				t.Errorf("the caption is %q", m.Text)
			}
		}},
		{"five charts", func(t *testing.T) {
			last := b.last(chat)
			b.telegram.Say(chat, user, "import matplotlib.pyplot as plt\nfor i in range(5):\n    plt.figure(); plt.plot([i, 2])\n    plt.show()")
			m := b.awaits(t, chat, last, "an album", func(m gatewaytest.Message) bool { return m.Album != "" })
			members := 0
			for _, one := range b.telegram.Messages(chat) {
				if one.Album == m.Album {
					members++
				}
			}
			if members != 5 {
				t.Errorf("the album has %d photos", members)
			}
		}},
		{"2 MB of text", func(t *testing.T) {
			last := b.last(chat)
			b.telegram.Say(chat, user, "for i in range(200_000): print('%09d' % i)")
			m := b.awaits(t, chat, last, "the document", func(m gatewaytest.Message) bool { return m.Kind == "document" })
			var whole strings.Builder
			for i := range 200_000 {
				fmt.Fprintf(&whole, "%09d\n", i)
			}
			if got := string(m.File.Data); strings.TrimSpace(got) != strings.TrimSpace(whole.String()) {
				t.Errorf("the document has %d bytes: %q … %q", len(got), got[:min(len(got), 100)], got[max(0, len(got)-100):])
			}
		}},
		{"an error", func(t *testing.T) { b.says(t, chat, user, "1/0", "ZeroDivisionError") }},
		{"a question", func(t *testing.T) {
			b.says(t, chat, user, "name = input('Who are you? ')\nprint('Hello', name)", "Who are you?")
		}},
		{"its answer", func(t *testing.T) { b.says(t, chat, user, "Ann", "Hello Ann") }},
		{"an endless loop", func(t *testing.T) {
			last := b.last(chat)
			b.telegram.Say(chat, user, "import time\nn = 0\nwhile True:\n    n += 1\n    print('turn', n, flush=True)\n    time.sleep(0.05)")
			m := b.awaits(t, chat, last, "progress", func(m gatewaytest.Message) bool { return strings.Contains(m.Text, "Running") && len(m.Edits) > 1 })
			b.restart(t)
			edits := len(m.Edits)
			m = b.awaits(t, chat, last, "progress after a restart", func(m gatewaytest.Message) bool { return len(m.Edits) > edits+1 })
			if _, ok := b.telegram.Press(m, user, "Stop"); !ok {
				t.Fatalf("there is no button: %+v", m.Buttons)
			}
			b.awaits(t, chat, last, "the end of the loop", func(end gatewaytest.Message) bool {
				return end.ID == m.ID && strings.Contains(end.Text, "KeyboardInterrupt")
			})
		}},
		{"a reset", func(t *testing.T) { b.says(t, chat, user, "/reset", "fresh interpreter") }},
		{"after the reset", func(t *testing.T) { b.says(t, chat, user, "n", "NameError") }},
	}
	for _, step := range steps {
		if !t.Run(strings.ReplaceAll(step.name, " ", "_"), step.do) {
			return
		}
		b.restart(t)
	}
	b.says(t, chat, user, "/status", "session")
	b.checkCalls(t)
	seen := map[string]int{}
	for _, m := range b.telegram.Messages(chat) {
		if m.FromBot && m.Album == "" && !strings.HasPrefix(m.Text, "This cell waits") { // of several cells
			seen[m.Kind+" "+m.Text]++
		}
		if strings.Contains(m.Text, "Running") {
			t.Errorf("message %d still says that a cell runs: %q", m.ID, m.Text)
		}
	}
	for text, n := range seen {
		if n > 1 {
			t.Errorf("said %d times: %q", n, text)
			for _, m := range b.telegram.Messages(chat) {
				t.Logf("%d from the bot: %t, %s, %.60q, edits %.200q", m.ID, m.FromBot, m.Kind, m.Text, m.Edits)
			}
			for _, call := range b.telegram.Calls() {
				t.Logf("%.300q", fmt.Sprintf("%+v", call))
			}
		}
	}
}

// awaitCall waits until the bot has made a call.
func (b *chatBot) awaitCall(t *testing.T, method string) {
	t.Helper()
	if err := b.telegram.WaitCalls(within(t), method, 1); err != nil {
		t.Fatal(err)
	}
}
