package e2e

import (
	"fmt"
	"strings"
	"testing"

	"talaria/gateway/gatewaytest"
)

// A model answers messages in plain words, and runs code as cells of the chat; a restart in the middle repeats no step.
func TestATelegramChatWithAnAssistant(t *testing.T) {
	t.Parallel()
	model := gatewaytest.NewModel("sk-of-the-model")
	t.Cleanup(model.Close)
	s := prepare(t, options{})
	key := s.secret(t, "model-key", "sk-of-the-model")
	s.secret(t, "talaria.yaml", fmt.Sprintf("gateways:\n  assistant:\n    base_url: %s\n    model: gpt\n    key_file: %s\n", model.URL, key))
	s.launch(t)
	t.Cleanup(func() { s.stop(t) })
	b := startBot(t, s, "--users", "1")

	model.Script(
		gatewaytest.ModelAnswer{Text: "I compute it.", Code: []string{"x = 6 * 7\nprint('the answer', x)"}},
		gatewaytest.ModelAnswer{Text: "It is <42> & no more."},
	)
	b.says(t, 1, 1, "What is six times seven?", "It is <42> & no more.")
	var said []string
	for _, m := range b.telegram.Messages(1) {
		if m.FromBot {
			said = append(said, m.Text)
		}
	}
	if got := strings.Join(said, "|"); got != "I compute it.|x = 6 * 7\nprint('the answer', x)|the answer 42|It is <42> & no more." {
		t.Errorf("the bot said %q", got)
	}
	b.says(t, 1, 1, "```\nx + 1\n```", "43") // code is run without the model

	model.Script(
		gatewaytest.ModelAnswer{Code: []string{"import os, time\nopen('runs', 'a').write('1')\nwhile not os.path.exists('go'): time.sleep(.05)\nprint('went')"}},
		gatewaytest.ModelAnswer{Text: "That took a while."},
	)
	last := b.last(1)
	b.telegram.Say(1, 1, "Do something slow")
	b.awaits(t, 1, last, "progress", func(m gatewaytest.Message) bool { return strings.Contains(m.Text, "Running") })
	b.restart(t)
	b.telegram.Upload(1, 1, gatewaytest.File{Name: "go", Data: []byte("x")}, "")
	b.awaits(t, 1, last, "the answer after a restart", func(m gatewaytest.Message) bool { return m.Text == "That took a while." })
	if m := b.says(t, 1, 1, "/py print('runs:', open('runs').read())", "runs:"); m.Text != "runs: 1" {
		t.Errorf("a cell of the assistant ran again: %q", m.Text)
	}

	if n := len(model.Requests()); n != 4 {
		t.Errorf("the model was asked %d times, want 4", n)
	}
	b.says(t, 1, 1, "/new", "has forgotten")
	model.Script(gatewaytest.ModelAnswer{Text: "Hello again."})
	b.says(t, 1, 1, "Hello", "Hello again.")
	if n := len(model.Requests()[4]); n != 2 { // the system's and the person's
		t.Errorf("after /new, the model reads %d messages", n)
	}

	// The bot is killed while it asks the model.
	asked := model.Hold()
	last = b.last(1)
	b.telegram.Say(1, 1, "Are you there?")
	select {
	case <-asked:
	case <-within(t).Done():
		t.Fatal("the model is not asked")
	}
	b.kill()
	model.Script(gatewaytest.ModelAnswer{Text: "Still here."})
	b.start(t)
	b.awaits(t, 1, last, "an answer after a restart", func(m gatewaytest.Message) bool { return m.Text == "Still here." })
	model.Script(gatewaytest.ModelAnswer{Status: 400, Body: `{"error":{"message":"the model is gone"}}`})
	b.says(t, 1, 1, "Hello?", "the model is gone")

	model.Script(gatewaytest.ModelAnswer{Code: []string{"import time; time.sleep(600)"}}, gatewaytest.ModelAnswer{Text: "must not be asked"})
	last = b.last(1)
	b.telegram.Say(1, 1, "Sleep")
	m := b.awaits(t, 1, last, "progress", func(m gatewaytest.Message) bool { return strings.Contains(m.Text, "Running") })
	b.telegram.Say(1, 1, "/stop")
	b.becomes(t, m, "KeyboardInterrupt")
	b.says(t, 1, 1, "/new", "has forgotten")
	b.checkCalls(t)
	if n := len(model.Requests()); n != 8 {
		t.Errorf("the model was asked %d times, want 8: after /stop it is not asked", n)
	}
}
