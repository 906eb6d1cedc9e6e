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
