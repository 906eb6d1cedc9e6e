package session_test

import (
	"fmt"
	"testing"

	"talaria/api"
	"talaria/kernel/kerneltest"
	"talaria/session"
)

// failing returns a kernel whose cells fail as they say: "a KeyError 'x'" raises one, "ok" does not.
func failing(t *testing.T, evalue func(code string) string) *rig {
	return newRig(t, func(c *kerneltest.Cell) {
		if text := evalue(c.Code); text != "" {
			c.Raise("ValueError", text)
		}
	}, nil)
}

func counts(t *testing.T, s *session.Session, codes ...string) (list []int64) {
	t.Helper()
	for _, code := range codes {
		e := execute(t, s, code)
		if e.Guard == nil {
			list = append(list, 0)
			continue
		}
		if e.Guard.Kind != api.GuardRepeatedFailure || e.Guard.Hint == "" {
			t.Errorf("the guard of %q says %+v", code, e.Guard)
		}
		list = append(list, e.Guard.Count)
	}
	return list
}

func TestTheGuardCountsTheSameFailureOfTheSameCell(t *testing.T) {
	run := 0
	for _, c := range []struct {
		name   string
		evalue func(code string) string
		codes  []string
		want   string
	}{
		{"the same", func(string) string { return "no column 'x'" }, []string{"a", "a", "a"}, "[0 2 3]"},
		{"an address, a time and a colour differ", func(string) string {
			run++
			return fmt.Sprintf("\x1b[3%dm<T at 0x7f%04x>\x1b[0m failed  after %d.%d ms at 2026-11-%02d 10:00:0%d, line %d", run, run, run, run, run, run, run)
		}, []string{"a", "a", "a"}, "[0 2 3]"},
		{"spaces at the ends of lines", func(string) string { return "no" }, []string{"a\nb", "a  \n\nb\n", "a\nb"}, "[0 2 3]"},
		{"another error", func(string) string { run++; return fmt.Sprintf("no column 'x%d'", run) }, []string{"a", "a", "a"}, "[0 0 0]"},
		{"other code", func(string) string { return "no" }, []string{"a", "b", "c", "  a"}, "[0 0 0 0]"},
		{"others in between", func(code string) string {
			if code == "ok" {
				return ""
			}
			return "no"
		}, []string{"a", "ok", "a", "b", "a", "b"}, "[0 0 2 0 3 2]"},
		{"a success in between", func(string) string {
			if run++; run%2 == 0 {
				return ""
			}
			return "no"
		}, []string{"a", "a", "a", "a", "a"}, "[0 0 0 0 0]"},
	} {
		t.Run(c.name, func(t *testing.T) {
			run = 0
			r := failing(t, c.evalue)
			if got := fmt.Sprint(counts(t, r.session(api.SessionRequest{}), c.codes...)); got != c.want {
				t.Errorf("the counts are %s, want %s", got, c.want)
			}
			off := r.session(api.SessionRequest{Guard: ptr(api.GuardOff)})
			for _, n := range counts(t, off, c.codes...) {
				if n != 0 {
					t.Errorf("a guard that is off counted %d", n)
				}
			}
		})
	}
}

func TestAGuardThatBlocksRefusesTheFifth(t *testing.T) {
	r := failing(t, func(code string) string { return "no" })
	s := r.session(api.SessionRequest{Guard: ptr(api.GuardBlock)})
	if got := fmt.Sprint(counts(t, s, "a", "a", "a", "a")); got != "[0 2 3 4]" {
		t.Fatalf("the counts are %s", got)
	}
	refused := func(s *session.Session, more ...func(*api.ExecutionRequest)) bool {
		req := api.ExecutionRequest{Code: ptr("a")}
		for _, m := range more {
			m(&req)
		}
		id, err := s.Submit(t.Context(), req, false)
		if err == nil {
			wait(t, s, id)
		} else if code(err) != api.CodeGuardRepeatedFailure {
			t.Errorf("it was refused with %v", err)
		}
		return err != nil
	}
	if !refused(s) {
		t.Error("the fifth ran")
	}
	first := executions(t, s)[0].ID
	if refused(s, func(q *api.ExecutionRequest) { q.ID = &first }) {
		t.Error("an execution that is known was not returned")
	}
	if refused(s, func(q *api.ExecutionRequest) { q.Force = ptr(true) }) {
		t.Error("force did not run it")
	}
	counts(t, s, "b")

	r.leave() // a restarted server still knows it
	r.open()
	s, err := r.Get("ann", s.Info(t.Context()).ID)
	if err != nil {
		t.Fatal(err)
	}
	if !refused(s) {
		t.Error("it ran after a restart of the server")
	}
	if err := s.Reset(t.Context(), api.ResetRequest{}); err != nil {
		t.Fatal(err)
	}
	if refused(s) {
		t.Error("it was refused after a reset")
	}
	if err := s.Update(t.Context(), api.SessionPatch{Guard: ptr(api.GuardOff)}); err != nil {
		t.Fatal(err)
	}
	for range 6 {
		if refused(s) {
			t.Error("it was refused with the guard off")
		}
	}
	if info := s.Info(t.Context()); info.Guard != api.GuardOff {
		t.Errorf("the session says %q", info.Guard)
	}
}

func TestAnUnknownModeOfTheGuardIsRefused(t *testing.T) {
	r := failing(t, func(string) string { return "" })
	if _, err := r.Create(t.Context(), "ann", api.SessionRequest{Guard: ptr(api.GuardMode("maybe"))}); code(err) != api.CodeInvalidRequest {
		t.Errorf("it was answered with %v", err)
	}
}
