package e2e

import (
	"fmt"
	"testing"
	"time"

	"talaria/api"
	"talaria/client"
)

// TestAnIdleKernelIsReapedAndComesBackFresh is row K06: nobody asks meanwhile.
func TestAnIdleKernelIsReapedAndComesBackFresh(t *testing.T) {
	t.Parallel()
	everyIdentity(t, func(t *testing.T, who identity) {
		t.Parallel()
		s := start(t, options{as: who})
		c := s.Client()
		// Long enough for a busy machine to mark the kernel after the first cell.
		id := session(t, c, api.SessionRequest{IdleTimeoutS: new(5.0), OnIdle: new(api.OnIdleDrop)})
		k := s.attach(t, id, "after=0")
		// A busy kernel is not reaped, however long it works.
		runOK(t, c, id, "import time; x = 1; open('kept', 'w').write('x'); time.sleep(5.5)")
		info, err := c.Session(within(t), id)
		if err != nil || info.State != api.StateIdle || info.ReapAt == nil {
			t.Fatalf("after the cell the session is %s, reap_at %v (%v)", info.State, info.ReapAt, err)
		}
		gone := s.marked(t, id)
		k.awaits(t, func(h head, raw []byte) bool {
			return h.Type == "session_state" && decode[api.SessionStateEvent](t, string(raw)).State == api.StateDead
		})
		if now, err := c.Session(within(t), id); err != nil || now.State != api.StateDead || now.Reason != "idle_timeout" || now.ReapAt != nil {
			t.Errorf("the session is %s %q, reap_at %v (%v)", now.State, now.Reason, now.ReapAt, err)
		}
		gone(t)
		e := run(t, c, id, "print('x' in globals(), open('kept').read())")
		if e.Generation != 2 || *e.ExecutionCount != 1 || printed(e) != "False x\n" {
			t.Errorf("the next cell: generation %d, count %d, %q", e.Generation, *e.ExecutionCount, e.Text)
		}
		if resets := of[api.KernelReset](past(t, c, id)); len(resets) != 1 || resets[0] != (api.KernelReset{Reason: "idle_timeout", Generation: 2}) {
			t.Errorf("the resets are %+v", resets)
		}
		if deaths := of[api.KernelDied](past(t, c, id)); len(deaths) > 1 {
			t.Errorf("the deaths are %+v", deaths)
		}
	})
}

func TestUseMovesTheTimeOfTheReaper(t *testing.T) {
	t.Parallel()
	s := start(t, options{})
	c := s.Client()
	id := session(t, c, api.SessionRequest{IdleTimeoutS: new(1000.0)})
	runOK(t, c, id, "pass")
	reapAt := func() time.Time {
		t.Helper()
		info, err := c.Session(within(t), id)
		if err != nil || info.ReapAt == nil {
			t.Fatalf("reap_at is %v (%v)", info.ReapAt, err)
		}
		return info.ReapAt.Time
	}
	first := reapAt()
	if until := time.Until(first); until < 900*time.Second || until > 1000*time.Second {
		t.Errorf("reaped in %v", until)
	}
	s.log(t, id) // reading does not count as use
	if !reapAt().Equal(first) {
		t.Error("reading moved reap_at")
	}
	if _, err := c.KeepSession(within(t), id); err != nil {
		t.Fatal(err)
	}
	second := reapAt()
	if !second.After(first) {
		t.Errorf("keep moved reap_at from %v to %v", first, second)
	}
	s.want(t, call{method: "PUT", path: "/v1/sessions/" + id + "/files/f", body: "x", kind: "text/plain"}, 201, "")
	if third := reapAt(); !third.After(second) {
		t.Errorf("an upload moved reap_at from %v to %v", second, third)
	}
	if _, err := c.UpdateSession(within(t), id, api.SessionPatch{IdleTimeoutS: new(0.0)}); err != nil {
		t.Fatal(err)
	}
	if info, err := c.Session(within(t), id); err != nil || info.ReapAt != nil {
		t.Errorf("with idle_timeout_s 0 reap_at is %v (%v)", info.ReapAt, err)
	}
}

func TestAQueueIsBoundedAndKeepsItsOrder(t *testing.T) {
	t.Parallel()
	s := start(t, options{})
	c := s.Client()
	id := session(t, c, api.SessionRequest{})
	runOK(t, c, id, "import os, time; order = []")
	socket, err := c.Attach(within(t), id, client.AttachOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	s.queueWith(t, id, `{"code":"while not os.path.exists('go'): time.sleep(0.01)"}`)
	until(t, socket.Next, func(e api.Event) bool { _, ok := e.Body.(api.ExecutionStarted); return ok })
	for i := range api.MaxQueued {
		if _, err := socket.Execute(within(t), api.ExecutionRequest{Code: new(fmt.Sprintf("order.append(%d)", i))}); err != nil {
			t.Fatalf("queue number %d: %v", i, err)
		}
	}
	s.want(t, call{method: "POST", path: "/v1/sessions/" + id + "/executions", body: `{"code":"1"}`}, 429, api.CodeQueueFull)
	s.want(t, call{method: "PUT", path: "/v1/sessions/" + id + "/files/go", body: "x", kind: "text/plain"}, 201, "")
	until(t, socket.Next, func(e api.Event) bool {
		state, ok := e.Body.(api.SessionStateEvent)
		return ok && state.State == api.StateIdle
	})
	if got := runOK(t, c, id, "print(order == list(range(1000)))"); got != "True\n" {
		t.Errorf("the order is kept: %s", got)
	}
}
