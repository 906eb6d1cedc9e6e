package e2e

import (
	"strings"
	"testing"

	"talaria/api"
)

func TestResetEndsWhatRunsAndCancelsWhatWaits(t *testing.T) {
	t.Parallel()
	s := start(t, options{})
	c := s.Client()
	id := session(t, c, api.SessionRequest{})
	k := s.attach(t, id, "")
	running := s.queue(t, id, "import subprocess; p = subprocess.Popen(['sleep', '999']); print('begun')\nwhile True: pass")
	waiting := s.queue(t, id, "1")
	k.awaitType(t, "stream")
	inside := descendants(s.PID())
	info, err := c.ResetSession(within(t), id, api.ResetRequest{})
	if err != nil || info.State != api.StateIdle || info.Kernel.Generation != 2 || info.ExecutionCount != 0 {
		t.Errorf("after a reset the session is %s, generation %d, count %d (%v)", info.State, info.Kernel.Generation, info.ExecutionCount, err)
	}
	for _, p := range inside {
		if p.name == "sleep" && p.alive() {
			t.Errorf("a child of the old kernel lives: %v", p)
		}
	}
	for cell, want := range map[string]api.ExecutionStatus{running: api.StatusDied, waiting: api.StatusCancelled} {
		e, err := c.Execution(within(t), id, cell)
		if err != nil {
			t.Fatal(err)
		}
		wantEnd(t, e, want, "reset", api.VariablesLost)
	}
	if resets := of[api.KernelReset](past(t, c, id)); len(resets) != 1 || resets[0] != (api.KernelReset{Reason: "reset", Generation: 2}) {
		t.Errorf("the resets are %+v", resets)
	}
	if e := run(t, c, id, "print(1)"); *e.ExecutionCount != 1 || e.Generation != 2 {
		t.Errorf("the next cell has count %d in generation %d", *e.ExecutionCount, e.Generation)
	}
}

func TestARequestThatWaitsIsAnsweredWhenItsSessionIsDeleted(t *testing.T) {
	t.Parallel()
	s := start(t, options{})
	c := s.Client()
	id := session(t, c, api.SessionRequest{})
	k := s.attach(t, id, "")
	answered := make(chan answer, 3)
	for _, accept := range []string{"application/json", sse, ndjson} {
		go func() {
			a, _ := s.tryDo(t.Context(), call{method: "POST", path: "/v1/sessions/" + id + "/executions",
				body: `{"code":"while True: pass"}`, header: map[string]string{"Accept": accept}})
			answered <- a
		}()
	}
	for range 3 {
		k.awaitType(t, "execution_queued")
	}
	if err := c.DeleteSession(within(t), id); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if a := <-answered; a.status != 200 && a.status != 404 {
			t.Errorf("a waiting request got %d %.200s", a.status, a.body)
		}
	}
}

// TestOutputKeepsItsOrderAndItsCell is row K02.
func TestOutputKeepsItsOrderAndItsCell(t *testing.T) {
	t.Parallel()
	s := start(t, options{})
	c := s.Client()
	id := session(t, c, api.SessionRequest{Secrets: &map[string]string{"S": "very-secret-value"}})
	for range 20 {
		e := run(t, c, id, `import sys, os, subprocess, ctypes
print("1 out"); print("2 err", file=sys.stderr); print("3 out")
os.write(1, b"4 raw\n")
subprocess.run(["sh", "-c", "echo 5 child; echo 6 child err >&2"])
print("7 out"); ctypes.CDLL(None).puts(b"8 C"); ctypes.CDLL(None).fflush(None)
"9 value"`)
		if got := printed(e); got != "1 out\n3 out\n4 raw\n5 child\n7 out\n8 C\n" {
			t.Errorf("stdout is %q", got)
		}
		if got := streamText(e, "stderr"); got != "2 err\n6 child err\n" {
			t.Errorf("stderr is %q", got)
		}
		if at := strings.Index(e.Text, "'9 value'"); at < 0 || strings.Index(e.Text, "1 out") > strings.Index(e.Text, "2 err") ||
			strings.Index(e.Text, "2 err") > strings.Index(e.Text, "3 out") {
			t.Errorf("the text is %q", e.Text)
		}
	}
	e := run(t, c, id, `import os; print(os.environ["S"], "\x1b[31mred\x1b[0m"); print("x" * 200_000); raise ValueError(os.environ["S"])`)
	if strings.Contains(e.Text, "very-secret-value") || strings.Contains(e.Text, "\x1b") || len(e.Text) > 60_000 ||
		!strings.Contains(e.Text, "ValueError") || !strings.Contains(printed(e), "very-secret-value") {
		t.Errorf("the text has %d bytes: %.300q", len(e.Text), e.Text)
	}
}

func TestLimitsChangeWithoutLosingVariables(t *testing.T) {
	t.Parallel()
	everyIdentity(t, func(t *testing.T, who identity) {
		t.Parallel()
		s := start(t, options{as: who, args: []string{"--interrupt-grace", "10s"}})
		c := s.Client()
		id := session(t, c, api.SessionRequest{Limits: &api.LimitsRequest{MemoryBytes: new(int64(256 << 20))}})
		runOK(t, c, id, "x = 1")
		if e := run(t, c, id, "b = bytearray(400 << 20)"); e.Error == nil || e.Error.Ename != "MemoryError" {
			t.Errorf("below the limit: %s %q", e.Status, e.Text)
		}
		info, err := c.UpdateSession(within(t), id, api.SessionPatch{Limits: &api.LimitsRequest{ExecutionTimeoutS: new(1.0)}})
		if err != nil || info.Limits.ExecutionTimeoutS != 1 {
			t.Fatalf("changed to %+v (%v)", info.Limits, err)
		}
		e := run(t, c, id, "while True: pass")
		wantEnd(t, e, api.StatusTimeout, "timeout", api.VariablesKept)
		info, err = c.UpdateSession(within(t), id, api.SessionPatch{Limits: &api.LimitsRequest{
			MemoryBytes: new(int64(1 << 30)), ExecutionTimeoutS: new(30.0)}})
		if who == asUser { // no process outside can raise a limit that only the process itself has
			wantCodeAndWords(t, err, api.CodeNeedsReset, "(change limits: memory_bytes: needs a fresh kernel)")
			if info, err = c.Session(within(t), id); err != nil || info.Limits.MemoryBytes != 256<<20 || info.Limits.ExecutionTimeoutS != 1 {
				t.Errorf("a refused change left the limits %+v (%v)", info.Limits, err)
			}
			return
		}
		if err != nil || info.Limits.MemoryBytes != 1<<30 || !strings.Contains(strings.Join(info.Isolation.Layers, ";"), "1024 MiB") {
			t.Fatalf("changed to %+v, %q (%v)", info.Limits, info.Isolation.Layers, err)
		}
		if got := runOK(t, c, id, "b = bytearray(400 << 20); import time; time.sleep(1.2); print(x, len(b) >> 20)"); got != "1 400\n" {
			t.Errorf("with the new limit: %q", got)
		}
	})
}

func TestTwoOwnersMayUseTheSameIDs(t *testing.T) {
	t.Parallel()
	s := start(t, options{})
	mine := s.Client()
	other := *s
	other.Token = s.owner(t, "other")
	theirs := other.Client()
	session(t, mine, api.SessionRequest{ID: new("chat")})
	session(t, theirs, api.SessionRequest{ID: new("chat")})
	runOK(t, mine, "chat", "who = 'first'; open('f', 'w').write('first')")
	runOK(t, theirs, "chat", "who = 'other'")
	if got := runOK(t, theirs, "chat", "import os; print(who, os.listdir('.'))"); got != "other []\n" {
		t.Errorf("the other owner's session has %s", got)
	}
	if got := runOK(t, mine, "chat", "print(who)"); got != "first\n" {
		t.Errorf("the first owner's session has %s", got)
	}
}
