package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"image/png"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"talaria/api"
)

// TestMCPToolsSayWhatTheyDo holds the list of tools: their names, annotations and schemas.
func TestMCPToolsSayWhatTheyDo(t *testing.T) {
	t.Parallel()
	s := start(t, options{})
	session := goMCP(t, overHTTP(s.URL+"/mcp", s.Token), newerMCP, nil)
	list, err := session.ListTools(within(t), nil)
	if err != nil {
		t.Fatal(err)
	}
	readOnly := map[string]bool{
		"execute_code": false, "get_execution": true, "interrupt": false, "reset_session": false, "install_packages": false, "list_variables": true,
		"list_files": true, "read_file": true, "write_file": false, "create_session": false, "list_sessions": true, "close_session": false,
		"create_checkpoint": false, "list_checkpoints": true, "rollback": false, "fork_session": false,
	}
	for _, tool := range list.Tools {
		reads, known := readOnly[tool.Name]
		if !known || tool.Description == "" || tool.OutputSchema == nil || tool.Annotations == nil || tool.Annotations.ReadOnlyHint != reads {
			t.Errorf("%+v", tool)
		}
		if tool.Name == "execute_code" && !strings.Contains(tool.Description, "hermes_tools") {
			t.Errorf("execute_code does not describe the tools of cells: %s", tool.Description)
		}
		delete(readOnly, tool.Name)
	}
	if len(readOnly) > 0 {
		t.Errorf("there are no tools %v", readOnly)
	}
	prompt, err := session.GetPrompt(within(t), &mcp.GetPromptParams{Name: "data-analysis", Arguments: map[string]string{"file": "sales.csv"}})
	if err != nil || !strings.Contains(prompt.Messages[0].Content.(*mcp.TextContent).Text, "sales.csv") {
		t.Errorf("the prompt: %+v %v", prompt, err)
	}
	templates, err := session.ListResourceTemplates(within(t), nil)
	if err != nil || len(templates.ResourceTemplates) != 5 {
		t.Errorf("%+v %v", templates, err)
	}
}

// TestMCPResultsFitAModel has a picture that is too large, more pictures than fit, and more text.
func TestMCPResultsFitAModel(t *testing.T) {
	t.Parallel()
	s := start(t, options{})
	session := goMCP(t, overHTTP(s.URL+"/mcp?session=big", s.Token), olderMCP, nil)
	call := calling(session)
	call.called(t, "create_session", map[string]any{"session_id": "big", "name": "Big"})
	r := call.called(t, "execute_code", map[string]any{"code": `
import base64, struct, zlib, random
class Picture:
    def _repr_png_(self):
        def chunk(kind, data):
            return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        rows = b"".join(b"\0" + random.randbytes(1200 * 3) for _ in range(300))
        return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", 1200, 300, 8, 2, 0, 0, 0)) + chunk(b"IDAT", zlib.compress(rows, 1)) + chunk(b"IEND", b"")
for _ in range(5):
    display(Picture())
print("x" * 300_000)
open("result.txt", "w").write("made here")
`})
	images, _ := r.of("image")
	_, links := r.of("resource_link")
	if images != 4 || r.Structured.SessionID != "big" {
		t.Errorf("%d pictures of session %q came along, want 4 of 5", images, r.Structured.SessionID)
	}
	for _, c := range r.Content {
		if c.Type == "image" && len(c.Data) > 200<<10 {
			t.Errorf("a picture has %d bytes", len(c.Data))
		}
	}
	if n := len(r.text()); n > 70_000 {
		t.Errorf("the text has %d bytes", n)
	}
	read := map[string][]byte{}
	for _, uri := range links {
		found, err := session.ReadResource(within(t), &mcp.ReadResourceParams{URI: uri})
		if err != nil {
			t.Fatalf("%s: %v", uri, err)
		}
		read[uri[strings.LastIndex(uri, "/")+1:]] = append(found.Contents[0].Blob, found.Contents[0].Text...)
	}
	if picture, err := png.Decode(bytes.NewReader(read["4"])); err != nil || picture.Bounds().Dx() != 1200 {
		t.Errorf("the fifth picture behind its link: %v", err)
	}
	if got := len(read["output"]); got < 300_000 {
		t.Errorf("the whole output has %d bytes", got)
	}
	if !bytes.Contains(read["output"], []byte("xxx")) || len(links) != 7 {
		t.Errorf("the links are %v", links)
	}
	none := call.called(t, "get_execution", map[string]any{"execution_id": r.Structured.ExecutionID, "images": "none"})
	if images, _ := none.of("image"); images != 0 {
		t.Errorf("images: none sent %d pictures", images)
	}
	notebook, err := session.ReadResource(within(t), &mcp.ReadResourceParams{URI: "talaria://sessions/big/notebook.ipynb"})
	if err != nil || !strings.Contains(notebook.Contents[0].Text, "nbformat") {
		t.Errorf("the notebook: %v", err)
	}
	file, err := session.ReadResource(within(t), &mcp.ReadResourceParams{URI: "talaria://sessions/big/files/result.txt"})
	if err != nil || file.Contents[0].Text != "made here" {
		t.Errorf("the file: %+v %v", file, err)
	}
	for _, uri := range []string{"talaria://sessions/big/files/..%2f..%2fetc%2fpasswd", "talaria://sessions/other/files/x", "talaria://sessions/big/nothing", "file:///etc/passwd"} {
		if _, err := session.ReadResource(within(t), &mcp.ReadResourceParams{URI: uri}); err == nil {
			t.Errorf("%s was read", uri)
		}
	}
}

// TestMCPGoesBackToACheckpoint spoils a variable and a file, goes back, and undoes that.
func TestMCPGoesBackToACheckpoint(t *testing.T) {
	t.Parallel()
	s := start(t, manual)
	session := goMCP(t, overHTTP(s.URL+"/mcp?session=back", s.Token), newerMCP, nil)
	call := calling(session)
	call.called(t, "create_session", map[string]any{"session_id": "back"})
	// used calls a tool and returns what it has in its result.
	used := func(name string, arguments map[string]any) (map[string]any, string) {
		t.Helper()
		r, err := session.CallTool(within(t), &mcp.CallToolParams{Name: name, Arguments: arguments})
		if err != nil || r.IsError {
			t.Fatalf("%s: %+v %v", name, r, err)
		}
		return r.StructuredContent.(map[string]any), r.Content[0].(*mcp.TextContent).Text
	}
	state := func() string {
		t.Helper()
		return strings.TrimSpace(call.called(t, "execute_code", map[string]any{"code": "print(x, open('a').read())"}).Structured.Output)
	}
	if list, text := used("list_checkpoints", nil); len(list["checkpoints"].([]any)) != 0 || !strings.Contains(text, "create_checkpoint") {
		t.Errorf("there are %v: %s", list, text)
	}
	call.called(t, "execute_code", map[string]any{"code": "import threading, time; x = 1; _ = open('a', 'w').write('one')\n" +
		"t = threading.Thread(target=time.sleep, args=(600,), daemon=True); t.start()"})
	made, text := used("create_checkpoint", map[string]any{"name": "good"})
	point := made["checkpoint"].(map[string]any)
	if point["level"] != "live" || point["name"] != "good" || !strings.Contains(text, "Not saved: t: ") {
		t.Errorf("the checkpoint is %v: %s", point, text)
	}
	call.called(t, "execute_code", map[string]any{"code": "x = 2; _ = open('a', 'w').write('two')"})
	back, text := used("rollback", map[string]any{"checkpoint_id": point["checkpoint_id"]})
	undo, _ := back["undo"].(string)
	if got := state(); got != "1 one" || back["files"] != 1.0 || !strings.Contains(text, "Not restored: t: ") || !strings.Contains(text, "(1 file changed)") || !strings.Contains(text, undo) {
		t.Errorf("after going back there is %s, %v: %s", got, back, text)
	}
	if list, text := used("list_checkpoints", nil); len(list["checkpoints"].([]any)) != 2 || !strings.Contains(text, "the state before a rollback") {
		t.Errorf("there are %v: %s", list, text)
	}
	if _, text := used("rollback", map[string]any{"checkpoint_id": undo, "what": "files"}); !strings.Contains(text, `what "files"`) {
		t.Error(text)
	}
	if got := state(); got != "1 two" {
		t.Errorf("after undoing half of it there is %s", got)
	}
	used("rollback", map[string]any{"checkpoint_id": undo})
	if got := state(); got != "2 two" {
		t.Errorf("after the undo there is %s", got)
	}
	if why := call.refused(t, "rollback", map[string]any{"checkpoint_id": "none"}); !strings.Contains(why, string(api.CodeCheckpointGone)) {
		t.Error(why)
	}
	if why := call.refused(t, "rollback", map[string]any{"checkpoint_id": undo, "what": "half"}); !strings.Contains(why, "what must be") {
		t.Error(why)
	}
}

// TestMCPForksASession changes a variable and a file in two forks and in the session itself.
func TestMCPForksASession(t *testing.T) {
	t.Parallel()
	s := start(t, options{})
	session := goMCP(t, overHTTP(s.URL+"/mcp?session=first", s.Token), newerMCP, nil)
	call := calling(session)
	call.called(t, "execute_code", map[string]any{"code": "x = [1]; g = (i for i in x); _ = open('a', 'w').write('one')"})
	r, err := session.CallTool(within(t), &mcp.CallToolParams{Name: "fork_session", Arguments: map[string]any{"count": 2}})
	if err != nil || r.IsError {
		t.Fatalf("%+v %v", r, err)
	}
	made, text := r.StructuredContent.(map[string]any), r.Content[0].(*mcp.TextContent).Text
	forks, missing := made["forks"].([]any), made["not_restored"].([]any)
	if len(forks) != 2 || len(missing) != 1 || !strings.HasPrefix(missing[0].(string), "g: ") || !strings.Contains(text, "Not in it: g: ") || !strings.Contains(text, forks[1].(string)) {
		t.Fatalf("the forks are %v: %s", made, text)
	}
	call.called(t, "execute_code", map[string]any{"code": "x.append(2); _ = open('a', 'w').write('two')"})
	for _, id := range forks {
		got := call.called(t, "execute_code", map[string]any{"session_id": id, "code": "x.append(3); print(x, open('a').read())"})
		if got := strings.TrimSpace(got.Structured.Output); got != "[1, 3] one" {
			t.Errorf("a fork has %s", got)
		}
	}
	if why := call.refused(t, "fork_session", map[string]any{"count": api.MaxForks + 1}); !strings.Contains(why, "count must be") {
		t.Error(why)
	}
}

// gate is a cell that prints, and waits until a file is there.
const gate = `
import os, time
print("before", flush=True)
while not os.path.exists("go"): time.sleep(0.02)
print("after")
`

// TestALongCellOutlivesItsCall has a call that returns before its cell ends, one whose client tells of progress, one that
// gives up and one that cancels.
func TestALongCellOutlivesItsCall(t *testing.T) {
	t.Parallel()
	s := start(t, options{})
	progress := make(chan string, 1000)
	address := s.URL + "/mcp?session=long"
	session(t, s.Client(), api.SessionRequest{ID: new("long")})
	call := calling(goMCP(t, overHTTP(address, s.Token), olderMCP, func(text string) { progress <- text }))

	running := call.called(t, "execute_code", map[string]any{"code": gate, "wait_s": 0})
	id := running.Structured.ExecutionID
	if st := running.Structured.Status; st != "running" && st != "queued" || !strings.Contains(running.text(), "get_execution") {
		t.Errorf("a call that does not wait returned %+v", running)
	}
	ended := make(chan toolResult, 1)
	go func() {
		r, err := call(within(t), "get_execution", map[string]any{"execution_id": id})
		if err != nil {
			t.Error(err)
		}
		ended <- r
	}()
	for text := range progress {
		if strings.Contains(text, ": before") {
			break
		}
	}
	call.called(t, "write_file", map[string]any{"path": "go", "text": ""})
	if r := <-ended; r.Structured.Status != "success" || strings.TrimSpace(r.Structured.Output) != "before\nafter" {
		t.Errorf("the cell ended with %+v", r)
	}

	newer := calling(goMCP(t, overHTTP(address, s.Token), newerMCP, nil))
	node := nodeMCP(t, address, s.Token)
	for _, one := range []struct {
		name   string
		giveUp func(code string) error
		want   string
	}{
		{"a request of the newer era is closed", func(code string) error { return cancelled(t, s, newer, code) }, "success"},
		{"the client of Node runs out of time", func(code string) error {
			_, err := node(within(t), "execute_code", map[string]any{"code": code, "timeout": 300})
			return err
		}, "success"},
		{"a call of the older era is cancelled", func(code string) error { return cancelled(t, s, call, code) }, "interrupted"},
	} {
		if err := s.Client().DeleteFile(within(t), "long", "go"); err != nil {
			t.Fatal(err)
		}
		if err := one.giveUp(gate); err == nil {
			t.Errorf("%s: the call returned", one.name)
		}
		page, err := s.Client().Executions(within(t), "long", api.PageQuery{Limit: 1})
		if err != nil {
			t.Fatal(err)
		}
		id := page.Items[0].ID
		if one.want == "success" {
			call.called(t, "write_file", map[string]any{"path": "go", "text": ""})
		}
		if r := call.called(t, "get_execution", map[string]any{"execution_id": id}); r.Structured.Status != one.want {
			t.Errorf("%s: the cell ended with %s, want %s", one.name, r.Structured.Status, one.want)
		}
		if one.want != "success" {
			call.called(t, "write_file", map[string]any{"path": "go", "text": ""})
		}
	}
}

// TestACellThatPrintsNothingIsKnownToRun has clients of both eras wait for a silent cell: they are told of it every few seconds, so
// that none takes the call for dead.
func TestACellThatPrintsNothingIsKnownToRun(t *testing.T) {
	t.Parallel()
	s := start(t, options{})
	for name, version := range map[string]string{"silent-older": olderMCP, "silent-newer": newerMCP} {
		session(t, s.Client(), api.SessionRequest{ID: new(name)})
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			progress := make(chan string, 1000)
			call := calling(goMCP(t, overHTTP(s.URL+"/mcp?session="+name, s.Token), version, func(text string) { progress <- text }))
			ended := make(chan toolResult, 1)
			go func() {
				r, err := call(within(t), "execute_code", map[string]any{"code": "import os, time\nwhile not os.path.exists('go'): time.sleep(0.02)"})
				if err != nil {
					t.Error(err)
				}
				ended <- r
			}()
			for range 2 {
				select {
				case text := <-progress:
					var seconds float64
					if _, err := fmt.Sscanf(text, "running for %f s", &seconds); err != nil || strings.Contains(text, ":") || seconds < 1 {
						t.Errorf("the client is told %q (%v)", text, err)
					}
				case r := <-ended:
					t.Fatalf("the cell ended with %+v before the client was told that it runs", r)
				}
			}
			if _, _, err := s.Client().PutFile(within(t), name, "go", strings.NewReader("")); err != nil {
				t.Fatal(err)
			}
			if r := <-ended; r.Structured.Status != "success" {
				t.Errorf("the cell ended with %+v", r)
			}
		})
	}
}

// cancelled runs a cell and cancels the call once the cell runs.
func cancelled(t *testing.T, s *Server, call toolCaller, code string) error {
	t.Helper()
	ctx, cancel := context.WithCancel(within(t))
	defer cancel()
	result := make(chan error, 1)
	cellStarted(t, s.Client(), "long", func() {
		go func() {
			_, err := call(ctx, "execute_code", map[string]any{"code": code})
			result <- err
		}()
	})
	cancel()
	return <-result
}

// TestMCPKeepsOthersOut has owners, tokens of one session, pages of other origins, and switches.
func TestMCPKeepsOthersOut(t *testing.T) {
	t.Parallel()
	s := start(t, options{config: "mcp: basic\n"})
	address := s.URL + "/mcp"
	c := s.Client()
	mine := session(t, c, api.SessionRequest{})
	out, err := s.command(within(t), "token", "create", "--owner", "other", "--state-dir", s.StateDir).Output()
	if err != nil {
		t.Fatal(err)
	}
	other := calling(goMCP(t, overHTTP(address, strings.TrimSpace(string(out))), newerMCP, nil))
	for name, arguments := range map[string]map[string]any{
		"execute_code": {"code": "1", "session_id": mine}, "get_execution": {"execution_id": "x", "session_id": mine},
		"read_file": {"path": "x", "session_id": mine}, "write_file": {"path": "x", "text": "", "session_id": mine},
		"list_files": {"session_id": mine}, "reset_session": {"session_id": mine},
	} {
		if why := other.refused(t, name, arguments); !strings.Contains(why, string(api.CodeSessionNotFound)) {
			t.Errorf("%s on somebody else's session: %s", name, why)
		}
	}
	reader := calling(goMCP(t, overHTTP(address, sessionToken(t, s.Client(), mine, api.RightRead)), olderMCP, nil))
	if r := reader.called(t, "list_files", map[string]any{}); r.Structured.SessionID != mine {
		t.Errorf("a session's token uses session %q", r.Structured.SessionID)
	}
	if why := reader.refused(t, "execute_code", map[string]any{"code": "1"}); !strings.Contains(why, `the right "run"`) {
		t.Error(why)
	}
	if why := reader.refused(t, "list_files", map[string]any{"session_id": "mcp"}); !strings.Contains(why, string(api.CodeSessionNotFound)) {
		t.Error(why)
	}
	owner := calling(goMCP(t, overHTTP(address, s.Token), newerMCP, nil))
	for _, arguments := range []map[string]any{{}, {"code": "  "}, {"command": "ls"}, {"code": 7}} {
		if why := owner.refused(t, "execute_code", arguments); !strings.Contains(why, `the string "code"`) {
			t.Errorf("%v: %s", arguments, why)
		}
	}
	if _, err := owner(within(t), "close_session", map[string]any{"session_id": mine}); err == nil {
		t.Error("mcp: basic offers close_session")
	}
}

// TestMCPBearsHostileClients sends what no SDK sends.
func TestMCPBearsHostileClients(t *testing.T) {
	t.Parallel()
	s := start(t, options{})
	const ping = `{"jsonrpc":"2.0","id":1,"method":"ping"}`
	const initialize = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}`
	post := func(body string, header map[string]string) (int, http.Header, string) {
		t.Helper()
		req, err := http.NewRequestWithContext(within(t), http.MethodPost, s.URL+"/mcp", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		for name, value := range map[string]string{"Authorization": "Bearer " + s.Token, "Content-Type": "application/json", "Accept": "application/json, text/event-stream"} {
			req.Header.Set(name, value)
		}
		for name, value := range header {
			req.Header.Set(name, value)
			if name == "Host" {
				req.Host = value
			}
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, resp.Header, string(text)
	}
	for _, one := range []struct {
		name, body string
		header     map[string]string
		status     int
		want       string
	}{
		{"no token", ping, map[string]string{"Authorization": ""}, 401, ""},
		{"a page elsewhere", ping, map[string]string{"Origin": "https://evil.example"}, 403, "origin_not_allowed"},
		{"DNS rebinding", ping, map[string]string{"Origin": "http://evil.example:80", "Host": "evil.example:80"}, 403, "origin_not_allowed"},
		{"no origin", ping, map[string]string{"Origin": "null"}, 403, "origin_not_allowed"},
		{"its own page", ping, map[string]string{"Origin": s.URL}, 200, `"result"`},
		{"a batch", "[" + ping + "," + ping + "]", nil, 400, "batches"},
		{"not JSON", "{", nil, 400, ""},
		{"not JSON-RPC", `{"hello":1}`, nil, 400, ""},
		{"no such method", `{"jsonrpc":"2.0","id":1,"method":"sessions/steal"}`, nil, 400, ""},
		{"another type", ping, map[string]string{"Content-Type": "text/plain"}, 415, ""},
		{"deep nesting", strings.Repeat(`{"a":`, 100_000), nil, 400, ""},
		{"a huge body", `{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":"` + strings.Repeat("x", 17<<20) + `"}}`, nil, 413, ""},
		{"a long session id", ping, map[string]string{"Mcp-Session-Id": strings.Repeat("x", 300)}, 400, "256"},
		{"a version that never was", ping, map[string]string{"Mcp-Protocol-Version": "1999-01-01"}, 400, ""},
		{"an answer to nothing", `{"jsonrpc":"2.0","id":9,"result":{}}`, nil, 202, ""},
		{"a cancellation of nothing", `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`, map[string]string{"Mcp-Session-Id": "s"}, 202, ""},
	} {
		status, _, text := post(one.body, one.header)
		if status != one.status || !strings.Contains(text, one.want) {
			t.Errorf("%s: %d %.200s", one.name, status, text)
		}
	}
	seen := map[string]bool{}
	for range 2000 {
		status, header, text := post(initialize, nil)
		if id := header.Get("Mcp-Session-Id"); status != 200 || id == "" || seen[id] {
			t.Fatalf("initialize: %d, session %q: %s", status, id, text)
		} else {
			seen[id] = true
		}
	}
	if page, err := s.Client().Executions(within(t), "mcp", api.PageQuery{}); err == nil {
		t.Errorf("clients that ran nothing have a session: %+v", page)
	}
}

// TestMCPSurvivesARestartOfItsServer kills the server between two calls of one client, and during a third.
func TestMCPSurvivesARestartOfItsServer(t *testing.T) {
	t.Parallel()
	s := start(t, options{})
	p := newProxy(t, s)
	call := calling(goMCP(t, overHTTP("http://"+p.Addr().String()+"/mcp", s.Token), olderMCP, nil))
	first := call.called(t, "execute_code", map[string]any{"code": "kept = 42"})
	s.Kill9()
	s.Restart(t)
	p.redirect(s)
	p.cut()
	r, err := call(within(t), "execute_code", map[string]any{"code": "kept"})
	if err != nil { // on a connection that was cut: a client tries again
		r = call.called(t, "execute_code", map[string]any{"code": "kept"})
	}
	if strings.TrimSpace(r.Structured.Output) != "42" || r.Structured.SessionID != first.Structured.SessionID {
		t.Errorf("after the restart: %+v", r)
	}
	waiting := make(chan toolResult, 1)
	cellStarted(t, s.Client(), r.Structured.SessionID, func() {
		go func() {
			r, err := call(within(t), "execute_code", map[string]any{"code": gate})
			if err != nil {
				t.Error(err)
			}
			waiting <- r
		}()
	})
	s.Terminate(t) // in order: whoever waits is answered
	if r := <-waiting; r.Structured.Status != "running" || r.Structured.ExecutionID == "" {
		t.Errorf("a call that a shutdown ended returned %+v", r)
	}
}

// TestTalariaMCPStartsItsOwnServer has no server at first; then two programs that share one, which outlives the first.
func TestTalariaMCPStartsItsOwnServer(t *testing.T) {
	t.Parallel()
	s := prepare(t, options{})
	t.Cleanup(func() { s.stopHosts(t) })
	first := goMCP(t, onStdio(t, s, "--session", "work"), olderMCP, nil)
	calling(first).called(t, "execute_code", map[string]any{"code": "kept = 42"})
	second := goMCP(t, onStdio(t, s, "--session", "work"), newerMCP, nil)
	if r := calling(second).called(t, "execute_code", map[string]any{"code": "kept"}); strings.TrimSpace(r.Structured.Output) != "42" {
		t.Errorf("two programs do not share a server: %+v", r)
	}
	begin := time.Now()
	if err := first.Close(); err != nil {
		t.Errorf("the first program ended with %v", err)
	}
	if took := time.Since(begin); took > ending {
		t.Errorf("the first program took %v to end after its input did", took)
	}
	if r := calling(second).called(t, "execute_code", map[string]any{"code": "kept"}); strings.TrimSpace(r.Structured.Output) != "42" {
		t.Errorf("the second program lost its variables: %+v", r)
	}
}

// TestTalariaMCPSaysWhatToDo has servers that cannot be used.
func TestTalariaMCPSaysWhatToDo(t *testing.T) {
	t.Parallel()
	s := start(t, options{config: "mcp: off\n"})
	const ping = `{"jsonrpc":"2.0","id":"a","method":"ping"}` + "\n"
	for _, one := range []struct {
		name, in     string
		args         []string
		stdout, fail string
	}{
		{"switched off", ping, nil, "mcp: off", ""},
		{"not JSON", "hello\n", nil, `"code":-32700`, ""},
		{"no server there", ping, []string{"--server", "http://127.0.0.1:9"}, "", "is talaria serve running there?"},
		{"a wrong token", ping, []string{"--server", start(t, options{}).URL, "--token", "wrong"}, "create one with talaria token create", ""},
		{"no input", "", nil, "", ""},
	} {
		var stdout, stderr bytes.Buffer
		cmd := s.command(within(t), append([]string{"mcp", "--state-dir", s.StateDir}, one.args...)...)
		cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(one.in), &stdout, &stderr
		err := cmd.Run()
		if (err != nil) != (one.fail != "") || !strings.Contains(stdout.String(), one.stdout) || !strings.Contains(stderr.String(), one.fail) {
			t.Errorf("%s: %v\nstdout %s\nstderr %s", one.name, err, stdout.String(), stderr.String())
		}
	}
	if resp, err := http.Post(s.URL+"/mcp", "application/json", strings.NewReader("{}")); err != nil || resp.StatusCode != http.StatusNotFound {
		t.Errorf("mcp: off answers %v (%v)", resp, errors.Join(err, resp.Body.Close()))
	}
}
