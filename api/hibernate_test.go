package api_test

import (
	"testing"

	"github.com/go-json-experiment/json"

	"talaria/api"
)

// A fork is a session or a problem, without anything around it.
func TestAForkIsASessionOrAProblem(t *testing.T) {
	made := api.ForkReply{Items: []api.Fork{
		{Session: &api.Session{ID: "a", Name: "try"}, NotRestored: []api.NotRestored{{Name: "g", Reason: "a generator"}}},
		{Problem: api.Errorf(api.CodeLimitExceeded, "no more")},
	}}
	text, err := api.Marshal(made)
	if err != nil {
		t.Fatal(err)
	}
	var flat struct {
		Items []map[string]any `json:"items"`
	}
	if err := json.Unmarshal(text, &flat); err != nil {
		t.Fatal(err)
	}
	if len(flat.Items) != 2 || flat.Items[0]["id"] != "a" || flat.Items[0]["not_restored"] == nil || flat.Items[1]["code"] != "limit_exceeded" {
		t.Errorf("the reply is %s", text)
	}
	var back api.ForkReply
	if err := json.Unmarshal(text, &back); err != nil {
		t.Fatal(err)
	}
	first, second := back.Items[0], back.Items[1]
	if first.Session == nil || first.Session.ID != "a" || first.Session.Name != "try" || len(first.NotRestored) != 1 || first.Problem != nil {
		t.Errorf("the first fork is %+v", first)
	}
	if second.Session != nil || second.Problem == nil || second.Problem.Detail != "no more" || second.Problem.Status != 422 {
		t.Errorf("the second fork is %+v", second)
	}
}
