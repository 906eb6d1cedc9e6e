package server_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/gorilla/websocket"

	"talaria/api"
)

// sessionToken makes a token for a session that is there.
func (h *harness) sessionToken(id, body string) api.SessionToken {
	h.Helper()
	r := h.do(request{method: "POST", path: "/v1/sessions/" + id + "/tokens", body: body})
	h.want(r, 201, "")
	return decode[api.SessionToken](h.T, r.body)
}

// rightOf is the right that each route needs which a session token may use.
var rightOf = map[string]api.Right{
	"GET /v1/sessions/{id}": "read", "GET /v1/sessions/{id}/executions": "read", "GET /v1/sessions/{id}/executions/{eid}": "read",
	"GET /v1/sessions/{id}/executions/{eid}/text":   "read",
	"GET /v1/sessions/{id}/executions/{eid}/render": "read", "GET /v1/sessions/{id}/executions/{eid}/render/{sha256}": "read",
	"GET /v1/sessions/{id}/events": "read", "GET /v1/sessions/{id}/ws": "read", "GET /v1/sessions/{id}/files": "read",
	"GET /v1/sessions/{id}/files/{path}": "read", "GET /v1/sessions/{id}/artifacts": "read", "GET /v1/artifacts/{sha256}": "read",
	"GET /v1/sessions/{id}/notebook": "read", "GET /v1/sessions/{id}/document": "read",
	"GET /v1/sessions/{id}/view": "read",
	"POST /mcp":                  "read", "DELETE /mcp": "read", // each tool checks more

	"POST /v1/sessions/{id}/executions": "run", "POST /v1/sessions/{id}/interrupt": "run", "POST /v1/sessions/{id}/input": "run",
	"POST /v1/sessions/{id}/reset": "run", "POST /v1/sessions/{id}/keep": "run", "POST /v1/sessions/{id}/packages": "run",
	"POST /v1/sessions/{id}/map":      "run",
	"GET /v1/sessions/{id}/variables": "run", "POST /v1/sessions/{id}/inspect": "run", "POST /v1/sessions/{id}/ping": "run",

	"POST /v1/sessions/{id}/files": "write", "PUT /v1/sessions/{id}/files/{path}": "write", "PATCH /v1/sessions/{id}/files/{path}": "write",
	"DELETE /v1/sessions/{id}/files/{path}": "write", "POST /v1/sessions/{id}/notebook": "write", "PUT /v1/sessions/{id}/document": "write",

	"POST /v1/sessions/{id}/executions/{eid}/tool_results": "run", "GET /v1/sessions/{id}/tools": "run", "GET /v1/sessions/{id}/tool_calls": "run",
	"GET /v1/sessions/{id}/approvals": "run", "POST /v1/sessions/{id}/approvals/{approval_id}": "run",
	"GET /v1/sessions/{id}/checkpoints": "run", "POST /v1/sessions/{id}/checkpoints": "run",
	"GET /v1/sessions/{id}/checkpoints/{cid}": "run", "GET /v1/sessions/{id}/checkpoints/{cid}/diff": "run",
	"DELETE /v1/sessions/{id}/checkpoints/{cid}": "run", "POST /v1/sessions/{id}/rollback": "run",
	"POST /v1/sessions/{id}/hibernate": "run", "POST /v1/sessions/{id}/wake": "run",
	"POST /v1/sessions/{id}/terminals": "terminal", "GET /v1/sessions/{id}/terminals": "terminal",
	"DELETE /v1/sessions/{id}/terminals/{tid}": "terminal", "GET /v1/sessions/{id}/terminals/{tid}/ws": "terminal",
}

// TestASessionTokenMayDoWhatItsRightsSay tries tokens with each right on every route there is, and on another session.
func TestASessionTokenMayDoWhatItsRightsSay(t *testing.T) {
	h := start(t)
	h.session("s")
	h.session("other")
	open := []string{"GET /", "POST /login", "POST /logout", "GET /healthz", "GET /readyz", "GET /static/{path}", "GET /sdk/{path}", "GET /sandbox/{frame}"}
	used := map[string]bool{}
	for _, right := range api.Rights {
		token := h.sessionToken("s", `{"rights":["`+string(right)+`"]}`).Token
		for _, route := range h.server.Routes() {
			if slices.Contains(open, route) {
				continue
			}
			method, path, _ := strings.Cut(route, " ")
			fill := func(id string) string {
				path := strings.NewReplacer("{id}", id, "{eid}", "e", "{sha256}", strings.Repeat("0", 64), "{tid}", "t", "{approval_id}", "a", "{share}", "x",
					"{token}", "x", "{path}", "f.txt").Replace(path)
				return strings.Replace(path, "/events", "/events?follow=false", 1)
			}
			needs, known := rightOf[route]
			used[route] = known
			allowed := known && (needs == "read" || needs == right)
			// A body of no kind: what is allowed fails later, or does something harmless.
			got := h.do(request{method: method, path: fill("s"), token: token})
			if denied := got.status == 401 || got.status == 403; denied == allowed {
				t.Errorf("a token with %s: %s: %d %s", right, route, got.status, got.body)
			} else if denied {
				h.want(got, 403, api.CodeForbidden)
			}
			if strings.Contains(path, "{id}") {
				h.want(h.do(request{method: method, path: fill("other"), token: token}), 404, api.CodeSessionNotFound)
			}
		}
	}
	for route := range rightOf {
		if !used[route] {
			t.Errorf("there is no route %s", route)
		}
	}
}

func TestASessionTokensSocketTakesTheFramesOfItsRights(t *testing.T) {
	h := start(t)
	h.session("s")
	for _, c := range []struct {
		rights string
		code   api.Code // of an interrupt
	}{{`"read","write","terminal"`, api.CodeForbidden}, {`"run"`, ""}} {
		token := h.sessionToken("s", `{"rights":[`+c.rights+`]}`).Token
		conn, _, err := h.dial("/v1/sessions/s/ws?token="+token, nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := conn.WriteJSON(map[string]string{"type": "interrupt", "id": "x"}); err != nil {
			t.Fatal(err)
		}
		var reply struct {
			Type  string
			OK    bool
			Error api.Error
		}
		for reply.Type != "reply" {
			if err := conn.ReadJSON(&reply); err != nil {
				t.Fatal(err)
			}
		}
		if reply.OK != (c.code == "") || reply.Error.Code != c.code {
			t.Errorf("an interrupt with the rights %s: %+v", c.rights, reply)
		}
		conn.Close()
	}
}

func TestASessionTokenEndsWithItsSocketsWhenItIsRevokedAndWhenItExpires(t *testing.T) {
	h := start(t)
	h.session("s")
	for reason, body := range map[string]string{"token_revoked": `{}`, "token_expired": `{"expires_s":1}`} {
		made := h.sessionToken("s", body)
		conn, _, err := h.dial("/v1/sessions/s/ws?token="+made.Token, nil)
		if err != nil {
			t.Fatal(err)
		}
		if reason == "token_revoked" {
			h.want(h.do(request{method: "DELETE", path: "/v1/sessions/s/tokens/" + made.ID}), 204, "")
		}
		for err == nil {
			_, _, err = conn.ReadMessage()
		}
		var closed *websocket.CloseError
		if !errors.As(err, &closed) || closed.Code != websocket.ClosePolicyViolation || closed.Text != reason {
			t.Errorf("the socket ended with %v, want 1008 %s", err, reason)
		}
		h.want(h.do(request{method: "GET", path: "/v1/sessions/s", token: made.Token}), 401, api.CodeUnauthorized)
	}
}

func TestSessionTokensAreListedWithoutThemselves(t *testing.T) {
	h := start(t)
	h.session("s")
	h.session("other")
	made := h.sessionToken("s", `{"rights":["write","run"],"expires_s":60}`)
	if made.Token == "" || !slices.Equal(made.Rights, []api.Right{"read", "run", "write"}) || made.ExpiresAt.Sub(made.CreatedAt.Time).Seconds() != 60 {
		t.Errorf("made %+v", made)
	}
	list := string(h.do(request{method: "GET", path: "/v1/sessions/s/tokens"}).body)
	if !strings.Contains(list, made.ID) || strings.Contains(list, made.Token) {
		t.Errorf("the list is %s", list)
	}
	if shares := string(h.do(request{method: "GET", path: "/v1/sessions/s/shares"}).body); strings.Contains(shares, made.ID) {
		t.Errorf("the shares are %s", shares)
	}
	h.want(h.do(request{method: "DELETE", path: "/v1/sessions/other/tokens/" + made.ID}), 404, api.CodeNotFound)
	h.want(h.do(request{method: "DELETE", path: "/v1/sessions/s/shares/" + made.ID}), 404, api.CodeNotFound)
	for _, body := range []string{`{"rights":["all"]}`, `{"expires_s":0}`, `{"expires_s":1e12}`, `{"right":[]}`} {
		h.want(h.do(request{method: "POST", path: "/v1/sessions/s/tokens", body: body}), 400, api.CodeInvalidRequest)
	}
}

func TestPutTakesAnExistingSessionAsItIsOrAppliesTheBody(t *testing.T) {
	h := start(t)
	h.session("s")
	one := "/v1/sessions/s"
	body := `{"name":"new","limits":{"execution_timeout_s":77},"idle_timeout_s":99}`
	h.want(h.do(request{method: "PUT", path: one, body: body}), 409, api.CodeSessionConflict)
	kept := h.do(request{method: "PUT", path: one + "?if_exists=keep", body: body})
	h.want(kept, 200, "")
	if s := decode[api.Session](t, kept.body); s.Name == "new" || s.Limits.ExecutionTimeoutS == 77 {
		t.Errorf("kept: %s", kept.body)
	}
	applied := h.do(request{method: "PUT", path: one + "?if_exists=apply", body: body})
	h.want(applied, 200, "")
	if s := decode[api.Session](t, applied.body); s.Name != "new" || s.Limits.ExecutionTimeoutS != 77 || s.IdleTimeoutS != 99 {
		t.Errorf("applied: %s", applied.body)
	}
	h.want(h.do(request{method: "PUT", path: one + "?if_exists=apply", body: `{"env":{"A":"b"}}`}), 409, api.CodeSessionConflict)
	h.want(h.do(request{method: "PUT", path: one + "?if_exists=replace"}), 400, api.CodeInvalidRequest)
	h.want(h.do(request{method: "PUT", path: "/v1/sessions/fresh?if_exists=keep", body: body}), 201, "")
}

func TestAnOwnerListsAndRevokesOwnTokensOnly(t *testing.T) {
	h := start(t)
	h.session("s")
	list := string(h.do(request{method: "GET", path: "/v1/tokens"}).body)
	if !strings.Contains(list, "id-of-"+firstToken) || strings.Contains(list, secondToken) {
		t.Errorf("the list is %s", list)
	}
	h.want(h.do(request{method: "DELETE", path: "/v1/tokens/id-of-" + secondToken}), 404, api.CodeNotFound)
	if mine := decode[struct{ Items []api.OwnedToken }](t, []byte(list)).Items; len(mine) != 1 || mine[0].LastUsedAt == nil {
		t.Errorf("the list without the use that asked for it: %s", list)
	}
	visitor := h.sessionToken("s", `{"rights":["read","run","write","terminal"]}`).Token
	h.want(h.do(request{method: "GET", path: "/v1/tokens", token: visitor}), 403, api.CodeForbidden)
	h.want(h.do(request{method: "DELETE", path: "/v1/tokens/id-of-" + firstToken, token: visitor}), 403, api.CodeForbidden)

	conn, _, err := h.dial("/v1/sessions/s/ws?token="+firstToken, nil)
	if err != nil {
		t.Fatal(err)
	}
	h.want(h.do(request{method: "DELETE", path: "/v1/tokens/id-of-" + firstToken}), 204, "")
	for err == nil {
		_, _, err = conn.ReadMessage()
	}
	var closed *websocket.CloseError
	if !errors.As(err, &closed) || closed.Code != websocket.ClosePolicyViolation || closed.Text != "token_revoked" {
		t.Errorf("the socket ended with %v, want 1008 token_revoked", err)
	}
	h.want(h.do(request{method: "GET", path: "/v1/tokens"}), 401, api.CodeUnauthorized)
}
