package e2e

import (
	"testing"

	"talaria/api"
)

func TestSecretsThatGoOnHoldNothingUp(t *testing.T) {
	t.Parallel()
	s := start(t, options{config: "redact: ['sk-[A-Za-z0-9]+']\n"})
	c := s.Client()
	id := session(t, c, api.SessionRequest{Secrets: &map[string]string{"K": "aaaaaaaa"}})
	for _, code := range []string{
		`print("a" * 150_000, end="")`,
		`print("sk-", end="")
for _ in range(21): print("x" * 1_000_000, end="")`,
	} {
		e := run(t, c, id, code)
		if e.Text != "[redacted]" {
			t.Errorf("%s: the text is %.200q", code, e.Text)
		}
		if again, err := c.Execution(within(t), id, e.ID); err != nil || again.Text != e.Text {
			t.Errorf("%s: the execution is read as %.200q (%v)", code, again.Text, err)
		}
	}
	other := session(t, c, api.SessionRequest{Secrets: &map[string]string{"K": "aaaaaaaa"}})
	for _, endless := range []string{id, other} {
		req := api.ExecutionRequest{Code: new("import time\nwhile True: print('a' * 10_000, end=''); time.sleep(0.001)")}
		if _, err := c.ExecuteWait(within(t), endless, req, 0); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.DeleteSession(within(t), id); err != nil {
		t.Errorf("delete a session that prints: %v", err)
	}
	s.Terminate(t)
}
