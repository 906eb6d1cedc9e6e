package host_test

import (
	"strings"
	"testing"

	"talaria/kernel/command"
	"talaria/kernel/kerneltest"
	"talaria/kernel/record"
)

func TestACommMessageThatTheRunnerLosesHoldsUpNoOther(t *testing.T) {
	r := newRig(t, func(r *kerneltest.Runner) {
		r.Ready()
		for {
			f, ok := r.Read()
			if !ok {
				return
			}
			if f.Type == "comm" && !strings.HasSuffix(f.ID, "lost") {
				r.Send(map[string]any{"type": "comm_end", "id": f.ID})
			}
		}
	})
	var handled []string
	for _, id := range []string{"m1", "lost", "m2", "m3"} {
		r.tell(command.CommMessage{ID: id, Action: record.CommSend, Comm: "w"})
	}
	r.until(func(got record.Record) bool {
		if is[record.CommHandled](got) {
			handled = append(handled, got.ExecutionID)
		}
		return len(handled) == 4
	})
	if got, want := strings.Join(handled, " "), "comm~m1 comm~lost comm~m2 comm~m3"; got != want {
		t.Errorf("handled are %s, not %s", got, want)
	}
}
