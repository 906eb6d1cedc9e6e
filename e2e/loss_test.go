package e2e

import (
	"strings"
	"syscall"
	"testing"

	"talaria/api"
	"talaria/client"
)

// losses are the ways to lose the variables of a session, and what its user then reads about the cause.
var losses = []struct {
	name, cause string
	wanted      bool // on purpose
	lose        func(t *testing.T, s *Server, id string)
}{
	{"a death", "Python exited with status 7", false, func(t *testing.T, s *Server, id string) {
		wantEnd(t, run(t, s.Client(), id, "import os; os._exit(7)"), api.StatusDied, "exit:7", api.VariablesLost)
	}},
	{"idle time", "the kernel was stopped because the session was idle", false, func(t *testing.T, s *Server, id string) {
		k := s.attach(t, id, "after=0")
		if _, err := s.Client().UpdateSession(within(t), id, api.SessionPatch{IdleTimeoutS: new(0.2), OnIdle: new(api.OnIdleDrop)}); err != nil {
			t.Fatal(err)
		}
		k.awaits(t, func(h head, raw []byte) bool {
			return h.Type == "session_state" && decode[api.SessionStateEvent](t, string(raw)).State == api.StateDead
		})
		if _, err := s.Client().UpdateSession(within(t), id, api.SessionPatch{IdleTimeoutS: new(0.0)}); err != nil {
			t.Fatal(err)
		}
	}},
	{"a reset", "the session was reset", true, func(t *testing.T, s *Server, id string) {
		if _, err := s.Client().ResetSession(within(t), id, api.ResetRequest{}); err != nil {
			t.Fatal(err)
		}
	}},
	{"a crash of server and host", "the process that ran the kernel ended unexpectedly", false, func(t *testing.T, s *Server, _ string) {
		host := s.host(t)
		s.Kill9()
		if err := syscall.Kill(host.pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		s.Restart(t)
	}},
}

func TestALossOfVariablesIsToldInTextAndHint(t *testing.T) {
	t.Parallel()
	for _, engine := range []string{"stdlib", "ipython"} {
		t.Run(engine, func(t *testing.T) {
			t.Parallel()
			s := start(t, options{args: []string{"--engine", engine, "--python", "/usr/bin/python3"}})
			for _, loss := range losses {
				t.Run(loss.name, func(t *testing.T) {
					id := session(t, s.Client(), api.SessionRequest{})
					runOK(t, s.Client(), id, "kept = 1")
					if e := run(t, s.Client(), id, "unnamed_xq"); e.Error == nil || e.Error.Hint != "" {
						t.Fatalf("before the loss: %+v", e.Error)
					}
					loss.lose(t, s, id)
					wantLossTold(t, s.Client(), id, loss.cause, loss.wanted)
				})
			}
		})
	}
}

func wantLossTold(t *testing.T, c *client.Client, id, cause string, wanted bool) {
	t.Helper()
	first, second := run(t, c, id, "print('first')"), run(t, c, id, "print('second')")
	notice, rest, _ := strings.Cut(first.Text, "\n")
	switch {
	case wanted && first.Text != "first\n":
		t.Errorf("the text of the first cell is %q", first.Text)
	case !wanted && (!strings.HasPrefix(notice, "[Variables from before 2") ||
		!strings.HasSuffix(notice, " UTC are gone: "+cause+"; files are kept]") || rest != "first\n"):
		t.Errorf("the text of the first cell is %q; it does not say that %s", first.Text, cause)
	}
	if printed(first) != "first\n" || second.Text != "second\n" {
		t.Errorf("the first cell printed %q, the text of the second one is %q", printed(first), second.Text)
	}
	e := run(t, c, id, "kept")
	if end := " UTC are gone: " + cause + "; if 'kept' was one of them, rerun the cell that defines it"; e.Error == nil ||
		!strings.HasPrefix(e.Error.Hint, "variables from before 2") || !strings.HasSuffix(e.Error.Hint, end) ||
		!strings.Contains(e.Text, "\nHint: "+e.Error.Hint) {
		t.Errorf("the hint is %+v, the text %q", e.Error, e.Text)
	}
}

func TestNothingIsSaidToBeLostWhereNoCellRan(t *testing.T) {
	t.Parallel()
	s := start(t, options{})
	id := session(t, s.Client(), api.SessionRequest{})
	if _, err := s.Client().ResetSession(within(t), id, api.ResetRequest{}); err != nil {
		t.Fatal(err)
	}
	if e := run(t, s.Client(), id, "never"); e.Generation != 2 || e.Error == nil || e.Error.Hint != "" {
		t.Errorf("generation %d: %+v", e.Generation, e.Error)
	}
}

func TestTheNoticeOfALossSurvivesARestartOfTheServer(t *testing.T) {
	t.Parallel()
	s := start(t, options{})
	id := session(t, s.Client(), api.SessionRequest{})
	run(t, s.Client(), id, "import os; os._exit(7)")
	k := s.attach(t, id, "after=0")
	waiting := s.queue(t, id, "import os, time; print('begun')\nwhile not os.path.exists('go'): time.sleep(0.01)")
	k.awaits(t, func(h head, _ []byte) bool { return h.Type == "stream" && h.ExecutionID == waiting })
	s.Kill9()
	s.Restart(t)
	if _, _, err := s.Client().PutFile(within(t), id, "go", strings.NewReader("")); err != nil {
		t.Fatal(err)
	}
	e := s.ended(t, id, waiting)
	notice, rest, _ := strings.Cut(e.Text, "\n")
	if !strings.HasSuffix(notice, " UTC are gone: Python exited with status 7; files are kept]") || rest != "begun\n" {
		t.Errorf("the text is %q", e.Text)
	}
}
