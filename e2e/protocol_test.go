package e2e

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"talaria/api"
)

// owner makes a token for another owner while the server runs.
func (s *Server) owner(t *testing.T, name string) string {
	t.Helper()
	out, err := s.command(within(t), "token", "create", "--owner", name, "--state-dir", s.StateDir).Output()
	if err != nil {
		t.Fatalf("token create: %v: %s", err, out)
	}
	words := strings.Fields(string(out))
	return words[len(words)-1]
}

// refusal is a call that must be answered that way, without changing anything.
type refusal struct {
	call
	status int
	code   api.Code
}

func TestRefusalsHaveTheirStatusAndCode(t *testing.T) {
	t.Parallel()
	s := start(t, manual)
	c := s.Client()
	id := session(t, c, api.SessionRequest{ID: new("one:a.b_c-d"), Env: &map[string]string{"A": "1"},
		Limits: &api.LimitsRequest{CPUs: new(1.0)}, Metadata: &map[string]string{"k": "v"}})
	runOK(t, c, id, "x = 1")
	other := s.owner(t, "other")
	before := len(s.log(t, id))

	const all = "/v1/sessions"
	one := all + "/" + id
	runs := one + "/executions"
	get := func(path string) call { return call{method: "GET", path: path} }
	post := func(path, body string) call { return call{method: "POST", path: path, body: body} }
	put := func(path, body string) call { return call{method: "PUT", path: path, body: body} }
	patch := func(path, body string) call { return call{method: "PATCH", path: path, body: body} }
	del := func(path string) call { return call{method: "DELETE", path: path} }
	as := func(token string, c call) call { c.token = token; return c }
	list := []refusal{
		{as("-", get(all)), 401, api.CodeUnauthorized},
		{as("wrong", get(all)), 401, api.CodeUnauthorized},
		{as("-", get(all+"?token=wrong")), 401, api.CodeUnauthorized},
		{as("wrong", get(all+"?token="+s.Token)), 401, api.CodeUnauthorized}, // only the header counts
		{as("-", post(all+"?token="+s.Token, "{}")), 401, api.CodeUnauthorized},
		{as("-", get("/metrics")), 401, api.CodeUnauthorized},
		{as("-", get("/v1/stats")), 401, api.CodeUnauthorized},
		{as("-", get("/v1/nothing")), 404, api.CodeNotFound},
		{get("/v1/nothing"), 404, api.CodeNotFound},
		{del(all), 405, api.CodeMethodNotAllowed},
		{as(other, get("/metrics")), 403, api.CodeForbidden},
		{as(other, get("/v1/stats")), 403, api.CodeForbidden},
		{as(other, get(one)), 404, api.CodeSessionNotFound},
		{as(other, del(one)), 404, api.CodeSessionNotFound},
		{as(other, patch(one, `{"name":"mine"}`)), 404, api.CodeSessionNotFound},
		{as(other, post(runs, `{"code":"1"}`)), 404, api.CodeSessionNotFound},
		{as(other, get(one+"/events")), 404, api.CodeSessionNotFound},
		{as(other, get(one+"/files")), 404, api.CodeSessionNotFound},
		{as(other, get(one+"/ws")), 404, api.CodeSessionNotFound},
		{get(all + "/nobody"), 404, api.CodeSessionNotFound},
		{del(all + "/nobody"), 404, api.CodeSessionNotFound},
		{get(runs + "/nothing"), 404, api.CodeExecutionNotFound},
		{get("/v1/artifacts/" + strings.Repeat("0", 64)), 404, api.CodeArtifactNotFound},
		{get("/v1/artifacts/..%2f..%2ftoken"), 404, api.CodeArtifactNotFound},

		{post(all, `{"id":"one:a.b_c-d"}`), 409, api.CodeSessionExists},
		{put(one, `{"env":{"A":"2"}}`), 409, api.CodeSessionConflict},
		{put(one, `{"limits":{"cpus":2}}`), 409, api.CodeSessionConflict},
		{put(one, `{"id":"else"}`), 400, api.CodeInvalidRequest},
		{post(one+"/input", `{"value":"x"}`), 409, api.CodeNoInputPending},
		{post(all, `{"limits":{"memory_bytes":1000000000000000}}`), 422, api.CodeLimitExceeded},
		{patch(one, `{"limits":{"pids":1000000}}`), 422, api.CodeLimitExceeded},

		{post(all, `{"id":"-bad"}`), 400, api.CodeInvalidRequest},
		{put(all+"/b%20d", `{}`), 400, api.CodeInvalidRequest},
		{put(all+"/"+strings.Repeat("a", 129), `{}`), 400, api.CodeInvalidRequest},
		{post(all, `{"limits":{"memory_bytes":-1}}`), 400, api.CodeInvalidRequest},
		{post(all, `{"limits":{"cpus":0}}`), 400, api.CodeInvalidRequest},
		{post(all, `{"idle_timeout_s":-1}`), 400, api.CodeInvalidRequest},
		{post(all, `{"environment":"nowhere"}`), 400, api.CodeInvalidRequest},
		{post(all, `{"isolation":"weak"}`), 400, api.CodeInvalidRequest},
		{post(all, `{"network":{"mode":"some"}}`), 400, api.CodeInvalidRequest},
		{post(all, `{"env":{"A=B":"x"}}`), 400, api.CodeInvalidRequest},
		{post(all, `{"env":{"A":"x\u0000"}}`), 400, api.CodeInvalidRequest},
		{call{method: "POST", path: runs, kind: "application/json"}, 400, api.CodeInvalidRequest},
		{post(runs, `{}`), 400, api.CodeInvalidRequest},
		{post(runs, `{"code":"1","timeout_s":-1}`), 400, api.CodeInvalidRequest},
		{post(runs, `{"code":"1","id":"?"}`), 400, api.CodeInvalidRequest},
		{post(runs, `{"code":"1"} trailing`), 400, api.CodeInvalidRequest},
		{post(runs, `{"code":"1"}{"code":"2"}`), 400, api.CodeInvalidRequest},
		{post(runs, "{\"code\":\"\xff\"}"), 400, api.CodeInvalidRequest},
		{post(runs, `{"code":"\ud800"}`), 400, api.CodeInvalidRequest},
		{post(runs, `{"code":"1","code":"2"}`), 400, api.CodeInvalidRequest},
		{post(runs+"?wait_s=soon", `{"code":"1"}`), 400, api.CodeInvalidRequest},
		{post(runs+"?wait_s=-1", `{"code":"1"}`), 400, api.CodeInvalidRequest},
		{get(all + "?limit=none"), 400, api.CodeInvalidRequest},
		{get(all + "?state=sleepy"), 400, api.CodeInvalidRequest},
		{get(all + "?cursor=%00"), 400, api.CodeInvalidRequest},
		{get(one + "/events?after=99999"), 400, api.CodeInvalidRequest},
		{get(one + "/events?after=-1"), 400, api.CodeInvalidRequest},
		{get(one + "/events?after=x"), 400, api.CodeInvalidRequest},
		{get(one + "/events?follow=maybe"), 400, api.CodeInvalidRequest},
		{get(one + "/events?log_id=older"), 409, api.CodeLogChanged},
		{get(one + "/ws?after=99999"), 400, api.CodeInvalidRequest},
		{get(one + "/ws?log_id=older"), 409, api.CodeLogChanged},
		{call{method: "POST", path: runs, body: `{"code":"1"}`, kind: "text/plain"}, 415, api.CodeUnsupportedMedia},
		{call{method: "POST", path: all, body: `{}`, kind: "application/x-www-form-urlencoded"}, 415, api.CodeUnsupportedMedia},
		{post(runs, `{"code":"`+strings.Repeat("x", 16<<20)+`"}`), 413, api.CodePayloadTooLarge},
	}
	const hooks = `{"tools":[{"name":"f","url":"https://hooks.example.com/f"}]}`
	for _, refused := range []call{post(all, hooks), put(all+"/fresh", hooks)} { // the operator allows none
		list = append(list, refusal{refused, 403, api.CodeForbidden})
	}
	list = append(list, refusal{post(runs, `{"code":"1","checkpoint":1}`), 400, api.CodeInvalidRequest})
	for _, bad := range []string{`[]`, `["a","-r x"]`, `["./a.whl"]`, `["git+https://host/a"]`, `["a @ file:///a"]`, `[""]`, `[5]`, `"a"`} {
		list = append(list, refusal{post(one+"/packages", `{"requirements":`+bad+`}`), 400, api.CodeInvalidRequest})
		if bad != `[]` { // which is not an id
			list = append(list, refusal{post(all, `{"packages":`+bad+`}`), 400, api.CodeInvalidRequest},
				refusal{put(all+"/fresh", `{"packages":`+bad+`}`), 400, api.CodeInvalidRequest})
		}
	}
	for _, missing := range []call{del(one + "/terminals/t"), get(one + "/terminals/t/ws")} {
		list = append(list, refusal{missing, 404, api.CodeTerminalNotFound})
	}
	const private = `{"network":{"mode":"allow","allow":["10.0.0.1"]}}`
	list = append(list, refusal{post(all, private), 422, api.CodeLimitExceeded}, refusal{patch(one, private), 422, api.CodeLimitExceeded})
	for _, r := range list {
		s.want(t, r.call, r.status, r.code)
	}
	if after := len(s.log(t, id)); after != before {
		t.Errorf("the refusals wrote %d events: %.1000s", after-before, s.log(t, id)[before].raw)
	}
	if got := runOK(t, c, id, "print(x)"); got != "1\n" {
		t.Errorf("after the refusals the kernel has %q", got)
	}
	if page, err := c.Sessions(within(t), sessionsAll); err != nil || len(page.Items) != 1 {
		t.Errorf("after the refusals there are %d sessions (%v)", len(page.Items), err)
	}
}

func TestABadBodyIsRefusedWithTheNameOfItsField(t *testing.T) {
	t.Parallel()
	s := start(t, options{})
	id := session(t, s.Client(), api.SessionRequest{})
	for body, field := range map[string]string{
		`{"cod":"1"}`: "cod", `{"code":1}`: "code", `{"code":"1","timeout_s":"5"}`: "timeout_s",
		`{"code":"1","silent":"yes"}`: "silent", `{"code":null,"Code":"1"}`: "Code",
		`{"code":"1","allow_stdin":1}`: "allow_stdin", `{"code":["1"]}`: "code",
	} {
		a := s.want(t, call{method: "POST", path: "/v1/sessions/" + id + "/executions", body: body}, 400, api.CodeInvalidRequest)
		if !strings.Contains(decode[api.Error](t, string(a.body)).Detail, field) {
			t.Errorf("%s: the detail does not name %s: %s", body, field, a.body)
		}
	}
	for body, field := range map[string]string{
		`{"limits":{"memory":1}}`: "limits.memory", `{"limits":{"pids":"1"}}`: "limits.pids", `{"limits":[]}`: "limits",
		`{"metadata":{"a":1}}`: "metadata.a", `{"env":"A=1"}`: "env", `{"colour":"red"}`: "colour",
	} {
		a := s.want(t, call{method: "POST", path: "/v1/sessions", body: body}, 400, api.CodeInvalidRequest)
		if !strings.Contains(decode[api.Error](t, string(a.body)).Detail, field) {
			t.Errorf("%s: the detail does not name %s: %s", body, field, a.body)
		}
	}
}

func TestSessionsAreMadeListedChangedAndDeleted(t *testing.T) {
	t.Parallel()
	s := start(t, options{})
	const all = "/v1/sessions"
	a := s.want(t, call{method: "POST", path: all, body: `{"id":"chat:1","name":"first","metadata":{"room":"a"}}`}, 201, "")
	if got := a.header.Get("Location"); got != all+"/chat:1" && got != all+"/chat%3A1" {
		t.Errorf("Location %q", got)
	}
	made := decode[map[string]any](t, string(a.body))
	for _, field := range []string{"id", "name", "state", "environment", "isolation", "limits", "network", "mounts",
		"idle_timeout_s", "metadata", "execution_count", "log_id", "first_seq", "last_seq", "kernel", "usage", "created_at",
		"last_active_at"} {
		if _, ok := made[field]; !ok {
			t.Errorf("a session lacks %s: %s", field, a.body)
		}
	}
	s.want(t, call{method: "POST", path: all}, 201, "") // no body at all
	a = s.want(t, call{method: "PUT", path: all + "/chat%3A2", body: `{"env":{"A":"1"},"limits":{"cpus":1}}`}, 201, "")
	for body, status := range map[string]int{
		``: 200, `{}`: 200, `{"env":{"A":"1"}}`: 200, `{"name":"x","metadata":{"y":"z"}}`: 200, `{"limits":{"cpus":1}}`: 200,
		`{"limits":{"cpus":2}}`: 409, `{"env":{}}`: 409, `{"idle_timeout_s":5}`: 409,
	} {
		a := s.want(t, call{method: "PUT", path: all + "/chat:2", body: body}, status, map[int]api.Code{409: api.CodeSessionConflict}[status])
		if status == 200 && strings.Contains(string(a.body), `"name":"x"`) {
			t.Errorf("PUT changed the name: %s", a.body)
		}
	}
	// Another owner has ids of its own.
	token := s.owner(t, "other")
	s.want(t, call{method: "POST", path: all, body: `{"id":"chat:1"}`, token: token}, 201, "")
	s.want(t, call{method: "DELETE", path: all + "/chat:1", token: token}, 204, "")
	s.want(t, call{method: "GET", path: all + "/chat:1"}, 200, "")

	for i := range 5 {
		s.want(t, call{method: "POST", path: all, body: fmt.Sprintf(`{"id":"n%d","metadata":{"set":"n"}}`, i)}, 201, "")
	}
	var ids []string
	for cursor := ""; ; {
		a := s.want(t, call{method: "GET", path: all + "?metadata.set=n&limit=2&unknown=1" + cursor}, 200, "")
		page := decode[api.Page[api.Session]](t, string(a.body))
		for _, one := range page.Items {
			ids = append(ids, one.ID)
		}
		if page.NextCursor == "" {
			break
		}
		cursor = "&cursor=" + page.NextCursor
	}
	if got := strings.Join(ids, " "); got != "n4 n3 n2 n1 n0" {
		t.Errorf("the pages have %s", got)
	}
	a = s.want(t, call{method: "PATCH", path: all + "/n0", body: `{"name":"new","metadata":{"set":"m"},"limits":{"execution_timeout_s":7},"idle_timeout_s":99}`}, 200, "")
	got := decode[api.Session](t, string(a.body))
	if got.Name != "new" || got.Metadata["set"] != "m" || got.Limits.ExecutionTimeoutS != 7 || got.IdleTimeoutS != 99 {
		t.Errorf("changed to %s", a.body)
	}
	s.want(t, call{method: "DELETE", path: all + "/n0"}, 204, "")
	s.want(t, call{method: "DELETE", path: all + "/n0"}, 404, api.CodeSessionNotFound)
	s.want(t, call{method: "GET", path: all + "/n0"}, 404, api.CodeSessionNotFound)
}

func TestExecutionsOverREST(t *testing.T) {
	t.Parallel()
	s := start(t, options{})
	c := s.Client()
	id := session(t, c, api.SessionRequest{})
	runs := "/v1/sessions/" + id + "/executions"
	execute := func(query, body string, status int, code api.Code) api.Execution {
		t.Helper()
		a := s.want(t, call{method: "POST", path: runs + query, body: body}, status, code)
		if code != "" {
			return api.Execution{}
		}
		return decode[api.Execution](t, string(a.body))
	}
	first := execute("", `{"code":"n = globals().get('n', 0) + 1; print(n)","id":"once"}`, 200, "")
	again := execute("", `{"code":"n = globals().get('n', 0) + 1; print(n)","id":"once"}`, 200, "")
	if printed(first) != "1\n" || printed(again) != "1\n" || first.FinishedAt.String() != again.FinishedAt.String() {
		t.Errorf("the same id ran twice: %q, then %q", first.Text, again.Text)
	}
	execute("", `{"code":"other","id":"once"}`, 409, api.CodeExecutionConflict)
	failing := execute("", `{"code":"1/0"}`, 200, "")
	if failing.Status != api.StatusError || failing.Error.Ename != "ZeroDivisionError" || failing.State != api.VariablesKept {
		t.Errorf("a failing cell is %+v", failing)
	}
	silent := execute("", `{"code":"print('quiet'); 5","silent":true}`, 200, "")
	next := execute("", `{"code":"5"}`, 200, "")
	if silent.ExecutionCount != nil || len(silent.Outputs) != 1 || *next.ExecutionCount != 3 {
		t.Errorf("a silent cell has count %v and outputs %v, the next count %d", silent.ExecutionCount, silent.Outputs, *next.ExecutionCount)
	}

	// A cell that fails with stop_on_error cancels the waiting ones; without it, none.
	waits := execute("?wait_s=0", `{"code":"import os, time\nwhile not os.path.exists('go'): time.sleep(0.01)\n1/0","stop_on_error":true}`, 202, "")
	if waits.Status != api.StatusQueued && waits.Status != api.StatusRunning {
		t.Errorf("with wait_s=0 the execution is %s", waits.Status)
	}
	behind := execute("?wait_s=0", `{"code":"2"}`, 202, "")
	s.want(t, call{method: "PUT", path: "/v1/sessions/" + id + "/files/go", body: "x", kind: "text/plain"}, 201, "")
	events := collect(t, c.ExecutionEvents(within(t), id, behind.ID, 0))
	wantEnd(t, events[len(events)-1].Body.(api.ExecutionFinished).Execution, api.StatusCancelled, "stop_on_error", api.VariablesKept)

	if e := execute("", `{"code":"input('?')"}`, 200, ""); e.Error == nil || e.Error.Ename != "StdinNotImplementedError" && e.Error.Ename != "EOFError" {
		t.Errorf("input() without stdin: %s %q", e.Status, e.Text)
	}
	for _, format := range []string{sse, ndjson} {
		var got []line
		res, err := s.open(within(t), call{method: "POST", path: runs, body: `{"code":"print('streamed\\n', end=''); 6 * 7"}`,
			header: map[string]string{"Accept": format}})
		if err != nil {
			t.Fatal(err)
		}
		if kind := res.Header.Get("Content-Type"); !strings.HasPrefix(kind, format) {
			t.Errorf("asked for %s, got %s", format, kind)
		}
		_ = lines(res.Body, func(l line) bool { got = append(got, l); return true })
		res.Body.Close()
		var types []string
		for _, l := range got {
			types = append(types, l.Type)
		}
		if strings.Join(types, " ") != "execution_queued execution_started stream execute_result execution_finished" {
			t.Errorf("%s: the events are %v", format, types)
		}
		log := s.log(t, id)
		for _, l := range got {
			if string(log[l.Seq-1].raw) != string(l.raw) {
				t.Errorf("%s: seq %d is other bytes in the log", format, l.Seq)
			}
		}
		// Past events, from a position on.
		var late []line
		path := fmt.Sprintf("%s/%s?after=%d", runs, got[0].ExecutionID, got[2].Seq)
		_ = s.stream(within(t), path, format, func(l line) bool { late = append(late, l); return true })
		if len(late) != 2 || late[0].Seq != got[3].Seq {
			t.Errorf("%s: after the third event come %v, of %v", format, seqs(late), seqs(got))
		}
	}
	a := s.want(t, call{method: "GET", path: runs + "?limit=1"}, 200, "")
	page := decode[api.Page[api.Execution]](t, string(a.body))
	if len(page.Items) != 1 || page.NextCursor == "" || printed(page.Items[0]) != "streamed\n" {
		t.Errorf("the newest execution is %s", a.body)
	}
	var raw map[string]any
	if err := json.Unmarshal(s.do(t, call{method: "GET", path: runs + "/once"}).body, &raw); err != nil {
		t.Fatal(err)
	}
	for _, field := range []string{"id", "session_id", "execution_count", "code", "status", "state", "outputs", "text",
		"artifacts", "generation", "usage", "tool_calls", "truncated_bytes", "created_at", "started_at", "finished_at"} {
		if _, ok := raw[field]; !ok {
			t.Errorf("an execution lacks %s", field)
		}
	}
}

func TestEventsFromAPosition(t *testing.T) {
	t.Parallel()
	s := start(t, options{})
	id := session(t, s.Client(), api.SessionRequest{})
	runOK(t, s.Client(), id, "print('line')")
	log := s.log(t, id)
	path := "/v1/sessions/" + id + "/events?follow=false"
	for name, c := range map[string]struct {
		query, last string
		after       int
	}{"after": {"&after=2", "", 2}, "Last-Event-ID wins": {"&after=1", "3", 3}, "the end": {fmt.Sprint("&after=", len(log)), "", len(log)}} {
		h := map[string]string{"Accept": sse}
		if c.last != "" {
			h["Last-Event-ID"] = c.last
		}
		a := s.want(t, call{method: "GET", path: path + c.query, header: h}, 200, "")
		var want strings.Builder
		for _, l := range log[c.after:] {
			fmt.Fprintf(&want, "id: %d\ndata: %s\n\n", l.Seq, l.raw)
		}
		if string(a.body) != want.String() {
			t.Errorf("%s: got\n%s\nwant\n%s", name, a.body, want.String())
		}
	}
	info, err := s.Client().Session(within(t), id)
	if err != nil {
		t.Fatal(err)
	}
	s.want(t, call{method: "GET", path: path + "&log_id=" + info.LogID}, 200, "")
}
