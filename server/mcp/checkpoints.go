package mcp

import (
	"context"
	"fmt"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"talaria/api"
)

// maxMissing is how many things that were not saved or restored a result names; there may be thousands.
const maxMissing = 20

type createCheckpointInput struct {
	Name      string `json:"name,omitzero" jsonschema:"Describes the state, such as before cleaning. Named checkpoints are kept; of the others, only the newest few."`
	Level     string `json:"level,omitzero" jsonschema:"live: variables in memory, exactly as they are; saved: variables on disk, which survive the kernel and can be forked; files: only files. Omit it for the first that is possible."`
	SessionID string `json:"session_id,omitzero" jsonschema:"Omit it for your own session."`
}

type rollbackInput struct {
	CheckpointID string `json:"checkpoint_id" jsonschema:"As create_checkpoint, list_checkpoints or an earlier rollback (undo) returned it."`
	What         string `json:"what,omitzero" jsonschema:"all (default), variables or files."`
	SessionID    string `json:"session_id,omitzero" jsonschema:"Omit it for your own session."`
}

// checkpointInfo is a checkpoint as a model sees it.
type checkpointInfo struct {
	CheckpointID string   `json:"checkpoint_id"`
	Name         string   `json:"name,omitzero"`
	CreatedAt    string   `json:"created_at"`
	Cells        int64    `json:"execution_count"`
	Level        string   `json:"level"`
	Reason       string   `json:"reason,omitzero"`
	Undo         bool     `json:"undo,omitzero"`
	NotSaved     []string `json:"not_saved"`
}

type checkpointResult struct {
	SessionID  string         `json:"session_id"`
	Checkpoint checkpointInfo `json:"checkpoint"`
}

type checkpointList struct {
	SessionID   string           `json:"session_id"`
	Checkpoints []checkpointInfo `json:"checkpoints"`
}

type rollbackResult struct {
	SessionID    string   `json:"session_id"`
	CheckpointID string   `json:"checkpoint_id"`
	Undo         string   `json:"undo"`
	UndoLevel    string   `json:"undo_level"`
	Files        int64    `json:"files"`
	NotRestored  []string `json:"not_restored"`
}

func checkpointInfoOf(c api.Checkpoint) checkpointInfo {
	return checkpointInfo{
		CheckpointID: c.ID, Name: c.Name, CreatedAt: c.CreatedAt.String(), Cells: c.ExecutionCount, Level: string(c.Level), Reason: c.Reason,
		Undo: c.Undo, NotSaved: firstOf(c.NotSaved, func(n api.NotSaved) string { return n.Name + ": " + n.Reason }),
	}
}

// firstOf names the first things of a list that may be long, and says how many more there are.
func firstOf[T any](list []T, name func(T) string) []string {
	named := []string{}
	for i, one := range list {
		if i == maxMissing {
			return append(named, fmt.Sprintf("%d more", len(list)-i))
		}
		named = append(named, name(one))
	}
	return named
}

// line describes the checkpoint in a line.
func (c checkpointInfo) line() string {
	name := c.Name
	if c.Undo {
		name = "the state before a rollback"
	}
	if name == "" {
		name = "no name"
	}
	has := "variables and files"
	switch api.CheckpointLevel(c.Level) {
	case api.CheckpointSaved:
		has = "saved variables and files"
	case api.CheckpointFiles:
		has = "files only: " + c.Reason
	}
	return fmt.Sprintf("%s  %s, after %s, %s", c.CheckpointID, name, counted(c.Cells, "cell"), has)
}

func (h *Handler) createCheckpoint(_ context.Context, q *request, _ *sdk.CallToolRequest, in createCheckpointInput) (*sdk.CallToolResult, checkpointResult, error) {
	sess, err := q.session(in.SessionID, api.RightRun)
	if err != nil {
		return nil, checkpointResult{}, err
	}
	defer sess.Release()
	req := api.CheckpointRequest{Name: given(in.Name)}
	if in.Level != "" {
		req.Level = new(api.CheckpointLevel(in.Level))
	}
	made, err := sess.Checkpoint(q.command(), req)
	if err != nil {
		return nil, checkpointResult{}, err
	}
	info := checkpointInfoOf(made)
	text := "Made checkpoint " + info.line() + "."
	if len(info.NotSaved) > 0 {
		text += " Not saved: " + strings.Join(info.NotSaved, "; ") + "."
	}
	return said(text), checkpointResult{SessionID: q.nameOf(in.SessionID), Checkpoint: info}, nil
}

func (h *Handler) listCheckpoints(_ context.Context, q *request, _ *sdk.CallToolRequest, in sessionInput) (*sdk.CallToolResult, checkpointList, error) {
	sess, err := q.session(in.SessionID, api.RightRun)
	if err != nil {
		return nil, checkpointList{}, err
	}
	defer sess.Release()
	found, err := sess.Checkpoints(q.ctx)
	if err != nil {
		return nil, checkpointList{}, err
	}
	list := checkpointList{SessionID: q.nameOf(in.SessionID), Checkpoints: []checkpointInfo{}}
	var text strings.Builder
	for _, c := range found {
		info := checkpointInfoOf(c)
		list.Checkpoints = append(list.Checkpoints, info)
		text.WriteString(info.line() + "\n")
	}
	if text.Len() == 0 {
		text.WriteString("There are no checkpoints; create_checkpoint makes one.")
	}
	return said(text.String()), list, nil
}

func (h *Handler) rollback(_ context.Context, q *request, _ *sdk.CallToolRequest, in rollbackInput) (*sdk.CallToolResult, rollbackResult, error) {
	sess, err := q.session(in.SessionID, api.RightRun)
	if err != nil {
		return nil, rollbackResult{}, err
	}
	defer sess.Release()
	what := api.RollbackPart(in.What)
	if what == "" {
		what = api.RollbackAll
	}
	done, err := sess.Rollback(q.command(), api.RollbackRequest{CheckpointID: &in.CheckpointID, What: &what})
	if err != nil {
		return nil, rollbackResult{}, err
	}
	result := rollbackResult{
		SessionID: q.nameOf(in.SessionID), CheckpointID: done.CheckpointID, Undo: done.Undo, UndoLevel: string(done.UndoLevel), Files: done.Files,
		NotRestored: firstOf(done.NotRestored, func(n api.NotRestored) string { return n.Name + ": " + n.Reason }),
	}
	return said(wentBack(what, result)), result, nil
}

// wentBack says what a rollback did.
func wentBack(what api.RollbackPart, r rollbackResult) string {
	text := fmt.Sprintf("Variables and files are as they were then (%s changed).", counted(r.Files, "file"))
	switch what {
	case api.RollbackFiles:
		text = fmt.Sprintf("Files are as they were then (%d changed); variables have not changed.", r.Files)
	case api.RollbackVariables:
		text = "Variables are as they were then; files have not changed."
	}
	if len(r.NotRestored) > 0 {
		text += " Not restored: " + strings.Join(r.NotRestored, "; ") + "."
	}
	switch filesOnly := r.UndoLevel == string(api.CheckpointFiles); {
	case filesOnly && what == api.RollbackVariables:
		return text + " This cannot be undone: the earlier variables could not be saved."
	case filesOnly || what == api.RollbackFiles:
		return text + fmt.Sprintf(" To undo this, call rollback with checkpoint_id %q and what \"files\".", r.Undo)
	case what == api.RollbackVariables:
		return text + fmt.Sprintf(" To undo this, call rollback with checkpoint_id %q and what \"variables\".", r.Undo)
	}
	return text + fmt.Sprintf(" To undo this, call rollback with checkpoint_id %q.", r.Undo)
}
