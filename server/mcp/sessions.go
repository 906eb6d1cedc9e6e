package mcp

import (
	"context"
	"fmt"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"talaria/api"
	"talaria/session"
)

type sessionInput struct {
	SessionID string `json:"session_id,omitzero" jsonschema:"Omit it for your own session."`
}

type closeInput struct {
	SessionID string `json:"session_id" jsonschema:"The session to delete."`
}

type createInput struct {
	SessionID   string             `json:"session_id,omitzero" jsonschema:"An id of your choice, such as report-2026; omit it for a random one."`
	Name        string             `json:"name,omitzero" jsonschema:"A name for people."`
	Environment string             `json:"environment,omitzero" jsonschema:"A Python environment that the server's operator configured."`
	Packages    []string           `json:"packages,omitzero" jsonschema:"Packages to install right away, as pip accepts them."`
	Network     *networkInput      `json:"network,omitzero" jsonschema:"What code may reach; nothing unless asked for."`
	Limits      *api.LimitsRequest `json:"limits,omitzero" jsonschema:"Limits other than the server's defaults."`
}

type networkInput struct {
	Mode  string   `json:"mode" jsonschema:"none, allow or full."`
	Allow []string `json:"allow,omitzero" jsonschema:"With mode allow: hosts, host:port, *.host:port or CIDR."`
}

type listSessionsInput struct {
	Search string `json:"search,omitzero" jsonschema:"Only sessions with this in their id or name."`
	Limit  int    `json:"limit,omitzero" jsonschema:"At most this many (default 20, at most 100), newest first."`
}

// sessionInfo is a session in a list.
type sessionInfo struct {
	SessionID    string `json:"session_id"`
	Name         string `json:"name"`
	Status       string `json:"status"`
	Environment  string `json:"environment"`
	CreatedAt    string `json:"created_at"`
	LastActiveAt string `json:"last_active_at"`
}

type sessionList struct {
	Sessions []sessionInfo `json:"sessions"`
}

func infoOf(s api.Session) sessionInfo {
	return sessionInfo{SessionID: s.ID, Name: s.Name, Status: string(s.State), Environment: s.Environment,
		CreatedAt: s.CreatedAt.String(), LastActiveAt: s.LastActiveAt.String()}
}

func (h *Handler) createSession(_ context.Context, q *request, _ *sdk.CallToolRequest, in createInput) (*sdk.CallToolResult, sessionInfo, error) {
	if err := q.caller.Permit(""); err != nil {
		return nil, sessionInfo{}, err
	}
	req := api.SessionRequest{ID: given(in.SessionID), Name: given(in.Name), Environment: given(in.Environment), Limits: in.Limits}
	if in.Packages != nil {
		req.Packages = &in.Packages
	}
	if in.Network != nil {
		req.Network = &api.Network{Mode: api.NetworkMode(in.Network.Mode), Allow: in.Network.Allow}
	}
	sess, err := h.Sessions.Create(q.command(), q.caller.Owner, req)
	if err != nil {
		return nil, sessionInfo{}, err
	}
	defer sess.Release()
	info := infoOf(sess.Info(q.command()))
	return said(fmt.Sprintf("Created session %q; pass its id as session_id.", info.SessionID)), info, nil
}

// given is a pointer to a text that was given.
func given(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}

func (h *Handler) listSessions(_ context.Context, q *request, _ *sdk.CallToolRequest, in listSessionsInput) (*sdk.CallToolResult, sessionList, error) {
	list := sessionList{Sessions: []sessionInfo{}}
	if q.caller.Session != "" {
		sess, err := q.session("", api.RightRead)
		if err != nil {
			return nil, list, err
		}
		defer sess.Release()
		list.Sessions = append(list.Sessions, infoOf(sess.Info(q.command())))
	} else {
		limit := in.Limit
		if limit <= 0 || limit > 100 {
			limit = 20
		}
		page, err := h.Sessions.List(q.ctx, q.caller.Owner, session.Filter{Search: in.Search, Page: api.PageQuery{Limit: limit}})
		if err != nil {
			return nil, list, err
		}
		for _, s := range page.Items {
			list.Sessions = append(list.Sessions, infoOf(s))
		}
	}
	var text strings.Builder
	for _, s := range list.Sessions {
		fmt.Fprintf(&text, "%s  %s  %s\n", s.SessionID, s.Status, s.Name)
	}
	if text.Len() == 0 {
		text.WriteString("You have no sessions; execute_code creates one.")
	}
	return said(text.String()), list, nil
}

func (h *Handler) resetSession(_ context.Context, q *request, _ *sdk.CallToolRequest, in sessionInput) (*sdk.CallToolResult, sessionResult, error) {
	sess, err := q.session(in.SessionID, api.RightRun)
	if err != nil {
		return nil, sessionResult{}, err
	}
	defer sess.Release()
	if err := sess.Reset(q.command(), api.ResetRequest{}); err != nil {
		return nil, sessionResult{}, err
	}
	return said("The interpreter was restarted: variables are gone; files and packages are kept."),
		sessionResult{SessionID: q.nameOf(in.SessionID), Status: "reset"}, nil
}

func (h *Handler) closeSession(_ context.Context, q *request, _ *sdk.CallToolRequest, in closeInput) (*sdk.CallToolResult, sessionResult, error) {
	if err := q.caller.Permit(""); err != nil {
		return nil, sessionResult{}, err
	}
	if err := h.Sessions.Delete(q.command(), q.caller.Owner, in.SessionID); err != nil {
		return nil, sessionResult{}, err
	}
	return said("Deleted the session with its files and history."), sessionResult{SessionID: in.SessionID, Status: "deleted"}, nil
}

type variableList struct {
	SessionID string         `json:"session_id"`
	Items     []api.Variable `json:"items"`
	Total     int64          `json:"total"`
}

func (h *Handler) listVariables(_ context.Context, q *request, _ *sdk.CallToolRequest, in sessionInput) (*sdk.CallToolResult, variableList, error) {
	sess, err := q.session(in.SessionID, api.RightRun)
	if err != nil {
		return nil, variableList{}, err
	}
	defer sess.Release()
	found, err := sess.Interpreter().Variables(q.ctx)
	if err != nil {
		return nil, variableList{}, err
	}
	list := variableList{SessionID: q.nameOf(in.SessionID), Items: append([]api.Variable{}, found.Items...), Total: found.Total}
	var text strings.Builder
	for _, v := range list.Items {
		fmt.Fprintf(&text, "%s: %s = %s\n", v.Name, v.Type, v.Preview)
	}
	if text.Len() == 0 {
		text.WriteString("There are no variables.")
	}
	return said(text.String()), list, nil
}
