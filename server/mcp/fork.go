package mcp

import (
	"context"
	"fmt"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"talaria/api"
)

type forkInput struct {
	Count        int64  `json:"count,omitzero" jsonschema:"How many sessions to create (default 1, at most 64)."`
	Name         string `json:"name,omitzero" jsonschema:"A name for people; omit it for that of the session."`
	CheckpointID string `json:"checkpoint_id,omitzero" jsonschema:"A checkpoint to start from; omit it for the current state."`
	SessionID    string `json:"session_id,omitzero" jsonschema:"Omit it for your own session."`
}

type forkResult struct {
	SessionID   string   `json:"session_id"`
	Forks       []string `json:"forks"`
	NotRestored []string `json:"not_restored"`
	Failed      int      `json:"failed,omitzero"`
	Reason      string   `json:"reason,omitzero"`
}

func (h *Handler) forkSession(_ context.Context, q *request, _ *sdk.CallToolRequest, in forkInput) (*sdk.CallToolResult, forkResult, error) {
	sess, err := q.session(in.SessionID, "")
	if err != nil {
		return nil, forkResult{}, err
	}
	defer sess.Release()
	req := api.ForkRequest{Name: given(in.Name), CheckpointID: given(in.CheckpointID)}
	if in.Count != 0 {
		req.Count = &in.Count
	}
	made, err := sess.Fork(q.command(), req)
	if err != nil {
		return nil, forkResult{}, err
	}
	result := forkResult{SessionID: q.nameOf(in.SessionID), Forks: []string{}}
	var problem *api.Error
	for _, fork := range made.Items {
		if fork.Session == nil {
			problem = fork.Problem
			result.Failed++
			continue
		}
		result.Forks = append(result.Forks, fork.Session.ID)
		result.NotRestored = firstOf(fork.NotRestored, func(n api.NotRestored) string { return n.Name + ": " + n.Reason }) // the same in all
	}
	if len(result.Forks) == 0 {
		return nil, forkResult{}, problem
	}
	if problem != nil {
		result.Reason = problem.Detail
	}
	return said(forked(result)), result, nil
}

// forked says what a fork has made.
func forked(r forkResult) string {
	text := fmt.Sprintf("Created %d sessions with the same variables and files: %s. Pass one of these ids as session_id.", len(r.Forks), strings.Join(r.Forks, ", "))
	if len(r.Forks) == 1 {
		text = fmt.Sprintf("Created session %s with the same variables and files; pass its id as session_id.", r.Forks[0])
	}
	if len(r.NotRestored) > 0 {
		text += " Not in it: " + strings.Join(r.NotRestored, "; ") + "."
	}
	if r.Failed > 0 {
		text += fmt.Sprintf(" %d more could not be created: %s", r.Failed, r.Reason)
	}
	return text
}
