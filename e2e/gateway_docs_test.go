package e2e

import (
	"bufio"
	"io"
	"os"
	"regexp"
	"strings"
	"testing"

	"talaria/gateway/gatewaytest"
)

// The first steps of docs/gateways.md, as they stand there: the command starts a bot, its log has a pairing code, and the program
// of the page draws a chart.
func TestTheFirstStepsOfTheGatewayPage(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../docs/gateways.md")
	if err != nil {
		t.Fatal(err)
	}
	_, steps, _ := strings.Cut(string(page), "\n## A Telegram bot in five minutes\n")
	steps, _, _ = strings.Cut(steps, "\n## ")
	blocks := regexp.MustCompile("(?s)   ```(\\w*)\n(.*?)   ```").FindAllStringSubmatch(steps, -1)
	find := func(language, with string) string {
		t.Helper()
		for _, b := range blocks {
			if b[1] == language && strings.Contains(b[2], with) {
				return strings.TrimSpace(regexp.MustCompile(`(?m)^   `).ReplaceAllString(b[2], ""))
			}
		}
		t.Fatalf("the page has no block %q with %q", language, with)
		return ""
	}
	s := start(t, options{})
	fake := gatewaytest.NewTelegram(nil)
	t.Cleanup(fake.Close)
	b := &chatBot{server: s, telegram: fake}

	command := strings.Fields(find("sh", "talaria gateway telegram"))
	for i, word := range command {
		if word == "telegram-token" {
			command[i] = s.secret(t, "telegram-token", fake.Token)
		}
	}
	b.cmd = s.command(t.Context(), append(command[1:], "--state-dir", s.StateDir, "--api-url", fake.URL)...)
	log, err := b.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := b.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.kill)
	logged := bufio.NewReader(log)
	pair := regexp.MustCompile(`send="(/pair [A-Z0-9]{5}-[A-Z0-9]{5})"`)
	if !pair.MatchString(find("", "nobody may use the bot yet")) {
		t.Error("the page shows another log line than the bot writes")
	}
	var send string
	for send == "" {
		line, err := logged.ReadString('\n')
		if m := pair.FindStringSubmatch(line); m != nil {
			send = m[1]
		} else if err != nil {
			t.Fatalf("the log has no pairing code: %v", err)
		}
	}
	go func() { _, _ = io.Copy(io.Discard, logged) }() // until the bot ends

	b.says(t, 1, 1, send, "You may use this bot now")
	last := b.last(1)
	fake.Say(1, 1, find("python", "matplotlib"))
	b.awaits(t, 1, last, "the chart", func(m gatewaytest.Message) bool { return m.Kind == "photo" })
}
