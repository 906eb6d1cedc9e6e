package hermes

import (
	"fmt"
	"slices"
	"testing"

	"talaria/session/processes"
)

func TestCommandsThatEndAProgramAreTakenOut(t *testing.T) {
	programs := []processes.Program{
		{ID: "ours", Tag: tag, Place: processes.Place{PID: 7, HostPID: 4242}},
		{ID: "ended", Tag: tag, Place: processes.Place{PID: 8}},
		{ID: "another", Tag: "another", Place: processes.Place{PID: 9, HostPID: 99}},
	}
	for _, c := range []struct {
		script, want string
		ended        []string
	}{
		{"cd /; eval 'kill -TERM -- -4242 2>/dev/null || kill -TERM 4242 2>/dev/null'\nexit $?", "cd /; eval 'true'\nexit $?", []string{"ours 15"}},
		{"kill -KILL -- -4242 2>/dev/null || kill -KILL 4242 2>/dev/null", "true", []string{"ours 9"}},
		{script: "kill -TERM -- -4242 2>/dev/null || kill -KILL 4242 2>/dev/null"},
		{script: "kill -TERM -- -4242 2>/dev/null || kill -TERM 99 2>/dev/null"},
		{script: "eval 'kill -TERM -- -42 2>/dev/null || kill -TERM 42 2>/dev/null'", want: "eval 'false'"},
		{script: "kill -TERM -- -99 2>/dev/null || kill -TERM 99 2>/dev/null", want: "false"},
		{script: "kill -TERM -- -8 2>/dev/null || kill -TERM 8 2>/dev/null", want: "false"},
		{script: "kill -TERM -- -0 2>/dev/null || kill -TERM 0 2>/dev/null", want: "false"},
		{script: "kill -TERM 4242"},
	} {
		if c.want == "" {
			c.want = c.script
		}
		var ended []string
		args := []string{"bash", "-c", c.script}
		got := withoutEndings(args, programs, func(id string, signal int) { ended = append(ended, fmt.Sprint(id, " ", signal)) })
		if !slices.Equal(got, []string{"bash", "-c", c.want}) || args[2] != c.script || !slices.Equal(ended, c.ended) {
			t.Errorf("%q becomes %q, not %q, and ends %q, not %q", c.script, got, c.want, ended, c.ended)
		}
	}
}
