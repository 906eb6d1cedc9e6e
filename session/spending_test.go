package session_test

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"talaria/api"
	"talaria/kernel"
	"talaria/session"
)

func refusedFor(t *testing.T, s *session.Session, budget string) {
	t.Helper()
	_, err := s.Submit(t.Context(), api.ExecutionRequest{Code: ptr("ok")}, false)
	if code(err) != api.CodeBudgetExhausted || !strings.Contains(err.Error(), "budgets."+budget+":") {
		t.Errorf("it was answered with %v", err)
	}
}

func TestABudgetOfExecutionsIsUsedUp(t *testing.T) {
	r := failing(t, func(string) string { return "" })
	s := r.session(api.SessionRequest{Budgets: &api.BudgetsRequest{Executions: new(int64(2))}})
	first := execute(t, s, "ok")
	execute(t, s, "ok")
	refusedFor(t, s, "executions")
	if left := s.Info(t.Context()).Budgets; left.Executions == nil || *left.Executions != (api.BudgetLeft[int64]{Limit: 2}) || left.CPUS != nil {
		t.Errorf("left is %+v", left)
	}
	if _, err := s.Submit(t.Context(), api.ExecutionRequest{ID: &first.ID, Code: &first.Code}, false); err != nil {
		t.Errorf("an execution that was had is answered with %v", err)
	}

	r.leave() // the count outlives the server
	r.open()
	s, err := r.Get("ann", s.Info(t.Context()).ID)
	if err != nil {
		t.Fatal(err)
	}
	refusedFor(t, s, "executions")
	if err := s.Reset(t.Context(), api.ResetRequest{}); err != nil { // and a reset of the kernel
		t.Fatal(err)
	}
	refusedFor(t, s, "executions")
	for _, c := range []struct {
		budget int64
		left   *api.BudgetLeft[int64]
	}{{3, &api.BudgetLeft[int64]{Limit: 3, Left: 1}}, {0, nil}} {
		if err := s.Update(t.Context(), api.SessionPatch{Budgets: &api.BudgetsRequest{Executions: &c.budget}}); err != nil {
			t.Fatal(err)
		}
		if got := s.Info(t.Context()).Budgets.Executions; (got == nil) != (c.left == nil) || got != nil && *got != *c.left {
			t.Errorf("with a budget of %d, left is %+v", c.budget, got)
		}
		execute(t, s, "ok")
	}
	execute(t, s, "ok")
	if err := s.Update(t.Context(), api.SessionPatch{Budgets: &api.BudgetsRequest{CPUS: new(-1.0)}}); code(err) != api.CodeInvalidRequest {
		t.Errorf("a budget below zero is answered with %v", err)
	}
}

func TestABudgetOfTimeIsUsedUp(t *testing.T) {
	r := failing(t, func(string) string { return "" })
	s := r.session(api.SessionRequest{Budgets: &api.BudgetsRequest{LifetimeS: new(3600.0)}})
	execute(t, s, "ok")
	if left := s.Info(t.Context()).Budgets.LifetimeS; left == nil || left.Limit != 3600 || left.Left <= 0 || left.Left >= 3600 {
		t.Errorf("left is %+v", left)
	}
	if err := s.Update(t.Context(), api.SessionPatch{Budgets: &api.BudgetsRequest{LifetimeS: new(1e-6)}}); err != nil {
		t.Fatal(err)
	}
	refusedFor(t, s, "lifetime_s")
}

func TestABudgetOfCPUTimeIsUsedUp(t *testing.T) {
	r := failing(t, func(string) string { return "" })
	var spent atomic.Int64 // ms; each look at it finds 300 more
	r.fake.Usage = func() (kernel.Usage, error) {
		return kernel.Usage{CPU: time.Duration(spent.Add(300)) * time.Millisecond}, nil
	}
	s := r.session(api.SessionRequest{Budgets: &api.BudgetsRequest{CPUS: new(1.0)}})
	var ms int64
	for ms < 1000 {
		e := execute(t, s, "ok")
		if e.Usage.CPUMS <= 0 {
			t.Fatalf("the usage is %+v", e.Usage)
		}
		ms += e.Usage.CPUMS
	}
	refusedFor(t, s, "cpu_s")
}
