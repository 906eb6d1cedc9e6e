package session_test

import (
	"slices"
	"testing"

	"talaria/api"
	"talaria/session"
)

func toolNames(t *testing.T, s *session.Session) (names []string) {
	for _, tool := range s.Tools().List(t.Context()) {
		names = append(names, tool.Name)
	}
	return names
}

func TestASessionBesideAnotherOneHasItsBuiltinTools(t *testing.T) {
	for _, given := range []api.Raw{nil, api.Raw("false"), api.Raw(`["terminal"]`)} {
		main := scripted(t, nil).session(api.SessionRequest{BuiltinTools: given})
		if got, want := toolNames(t, contextOf(t, main)), toolNames(t, main); !slices.Equal(got, want) {
			t.Errorf("with builtin_tools %s the tools are %v, want %v", given, got, want)
		}
	}
}

func TestASessionWithOthersBesideItGetsNoBudgets(t *testing.T) {
	r := scripted(t, nil)
	main := r.session(api.SessionRequest{ID: ptr("main")})
	beside := contextOf(t, main)
	id := beside.ID()
	dead(t, beside)
	dead(t, main)
	beside.Release()
	main.Release()
	unload(r, 0)
	main = get(t, r, "main")
	defer main.Release()
	set := func(executions int64) api.Code {
		return code(main.Update(t.Context(), api.SessionPatch{Budgets: &api.BudgetsRequest{Executions: &executions}}))
	}
	if got := set(1); got != api.CodeInvalidRequest {
		t.Errorf("with a session beside it that is not loaded: %q", got)
	}
	if got := set(0); got != "" {
		t.Errorf("no budget: %q", got)
	}
	if err := r.Delete(t.Context(), "ann", id); err != nil {
		t.Fatal(err)
	}
	if got := set(1); got != "" {
		t.Errorf("alone: %q", got)
	}
	if _, err := main.CreateBeside(t.Context(), session.BesideRequest{}); code(err) != api.CodeInvalidRequest {
		t.Errorf("a session beside one with a budget: %v", err)
	}
}
