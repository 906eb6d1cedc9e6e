package e2e

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"mime/multipart"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"talaria/api"
	"talaria/client"
)

// libreResult is the answer to a program, and to a part of one that calls tools.
type libreResult struct {
	SessionID     string      `json:"session_id"`
	Stdout        string      `json:"stdout"`
	Stderr        string      `json:"stderr"`
	Code          int         `json:"code"`
	Message       string      `json:"message"`
	RuntimeID     string      `json:"runtime_session_id"`
	RuntimeStatus string      `json:"runtime_status"`
	Files         []libreFile `json:"files"`
	DeletedFiles  []string    `json:"deleted_files"`

	Status    string `json:"status"`
	Error     string `json:"error"`
	Token     string `json:"continuation_token"`
	ToolCalls []struct {
		ID    string         `json:"id"`
		Name  string         `json:"name"`
		Input map[string]any `json:"input"`
	} `json:"tool_calls"`
}

type libreFile struct {
	ID               string `json:"id"`
	Name             string `json:"name"`
	StorageSessionID string `json:"storage_session_id"`
}

// libreClient makes calls as LibreChat does.
type libreClient struct {
	s      *Server
	prefix string // of the API
	header map[string]string
}

// libreKey is a LibreChat that sends a Talaria token, as older ones do.
func (s *Server) libreKey(token string) libreClient {
	return libreClient{s, "/librechat/v1", map[string]string{"X-API-Key": token, "User-Agent": "LibreChat/1.0"}}
}

func (l libreClient) call(t *testing.T, method, path, kind, body string, status int) answer {
	t.Helper()
	return l.s.want(t, call{method: method, path: l.prefix + path, token: "-", kind: kind, header: l.header, body: body}, status, "")
}

func (l libreClient) post(t *testing.T, path string, body any) libreResult {
	t.Helper()
	text, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	return decode[libreResult](t, string(l.call(t, "POST", path, "application/json", string(text), http.StatusOK).body))
}

// upload sends a form with the fields, and then the files by their names.
func (l libreClient) upload(t *testing.T, path string, fields map[string]string, files [][2]string, status int) answer {
	t.Helper()
	var body bytes.Buffer
	form := multipart.NewWriter(&body)
	for name, value := range fields {
		if err := form.WriteField(name, value); err != nil {
			t.Fatal(err)
		}
	}
	for _, f := range files {
		part, err := form.CreateFormFile("file", f[0])
		if err == nil {
			_, err = part.Write([]byte(f[1]))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := form.Close(); err != nil {
		t.Fatal(err)
	}
	return l.call(t, "POST", path, form.FormDataContentType(), body.String(), status)
}

type libreUpload struct {
	Message   string `json:"message"`
	SessionID string `json:"session_id"`
	StorageID string `json:"storage_session_id"`
	Files     []struct {
		Status   string `json:"status"`
		FileID   string `json:"fileId"`
		Filename string `json:"filename"`
	} `json:"files"`
}

type fields = map[string]any

func TestLibreChatRunsCodeInConversations(t *testing.T) {
	t.Parallel()
	s := start(t, options{args: []string{"--interrupt-grace", "10s"}})
	l := s.libreKey(s.Token)
	py := func(code string, more fields) fields {
		body := fields{"lang": "py", "code": code, "user_id": "u1", "runtime_session_hint": "conv-1", "futureField": 1}
		for k, v := range more {
			body[k] = v
		}
		return body
	}
	first := l.post(t, "/exec", py("import sys\nx = 41\nprint('out'); print('err', file=sys.stderr)\nx + 1", nil))
	if first.Stdout != "out\n42\n" || first.Stderr != "err\n" || first.Code != 0 || first.RuntimeStatus != "new" || first.RuntimeID != first.SessionID {
		t.Errorf("the first call: %+v", first)
	}
	t.Run("variables stay", func(t *testing.T) {
		r := l.post(t, "/exec", py("print(x)", nil))
		if r.Stdout != "41\n" || r.RuntimeStatus != "reused" || r.SessionID != first.SessionID {
			t.Errorf("the second call: %+v", r)
		}
	})
	t.Run("the API sees an ordinary session", func(t *testing.T) {
		info, err := s.Client().Session(within(t), first.SessionID)
		if err != nil || info.Name != "conv-1" || info.Metadata["talaria.librechat"] != "conversation" {
			t.Errorf("the session is %+v (%v)", info, err)
		}
	})
	t.Run("another user and another conversation have others", func(t *testing.T) {
		for _, more := range []fields{{"user_id": "u2"}, {"runtime_session_hint": "conv-2"}, {"runtime_session_hint": ""}} {
			r := l.post(t, "/exec", py("print('x' in globals())", more))
			if r.Stdout != "False\n" || r.SessionID == first.SessionID {
				t.Errorf("%v: %+v", more, r)
			}
		}
	})
	t.Run("an earlier call is gone on with by its session", func(t *testing.T) {
		none := fields{"runtime_session_hint": ""}
		one := l.post(t, "/exec", py("open('kept.txt', 'w').write('k')", none))
		none["session_id"] = one.SessionID
		if two := l.post(t, "/exec", py("print(open('kept.txt').read())", none)); two.Stdout != "k\n" || two.SessionID != one.SessionID {
			t.Errorf("after %+v comes %+v", one, two)
		}
		none["session_id"] = first.SessionID
		if three := l.post(t, "/exec", py("print('x' in globals())", none)); three.Stdout != "False\n" {
			t.Errorf("a session's id leads into a conversation: %+v", three)
		}
	})
	t.Run("errors, exits and deaths", func(t *testing.T) {
		for code, want := range map[string]struct {
			code   int
			stderr string
		}{
			"1/0":                          {1, "ZeroDivisionError: division by zero"},
			"import sys; sys.exit(3)":      {3, ""},
			"import os; os._exit(3)":       {1, "the variables are lost, the files are kept"},
			"import time; time.sleep(600)": {1, "Time limit exceeded; the variables and files are kept"},
		} {
			r := l.post(t, "/exec", py(code, fields{"runtime_session_hint": "conv-3", "timeout": 2000}))
			if r.Code != want.code || !strings.Contains(r.Stderr, want.stderr) || want.stderr == "" && r.Stderr != "" {
				t.Errorf("%s: %+v", code, r)
			}
		}
	})
	t.Run("arguments", func(t *testing.T) {
		r := l.post(t, "/exec", py("import sys; print(sys.argv[1:])", fields{"args": []string{"a b", `"c'`}}))
		if r.Stdout != "['a b', '\"c\\'']\n" {
			t.Errorf("with arguments: %+v", r)
		}
		if r := l.post(t, "/exec", py("import sys; print(sys.argv[1:])", nil)); r.Stdout != "[]\n" {
			t.Errorf("without: %+v", r)
		}
		r = l.post(t, "/exec", py("echo \"$1|$2\"; exit 7", fields{"lang": "bash", "args": []string{"a b", `"c'`}}))
		if r.Stdout != "a b|\"c'\n" || r.Code != 7 || r.Stderr != "" {
			t.Errorf("bash: %+v", r)
		}
	})
	t.Run("requests that make no sense", func(t *testing.T) {
		for body, status := range map[string]int{
			`{"lang":"py"}`: 400, `{"lang":"cobol","code":"1"}`: 400, `{"lang":5,"code":"1"}`: 400, `{`: 400, `{"lang":"py","code":"1","args":["\u0000"]}`: 400,
			`{"lang":"py","code":"` + strings.Repeat("x", 16<<20) + `"}`: 413,
		} {
			l.call(t, "POST", "/exec", "application/json", body, status)
		}
		if a := l.call(t, "POST", "/exec", "application/json", `{"lang":"cobol","code":"1"}`, 400); !strings.Contains(string(a.body), `"error":"Unsupported language: cobol"`) {
			t.Errorf("the error is %s", a.body)
		}
		l.call(t, "GET", "/nothing", "", "", 404)
		strict := l
		strict.header = map[string]string{"X-API-Key": s.Token, "X-CodeAPI-Expected-Profile": "else"}
		strict.call(t, "POST", "/exec", "application/json", `{"lang":"py","code":"1"}`, 409)
	})
}

func TestLibreChatGetsWhatAProgramPrintsBesideLargeDisplays(t *testing.T) {
	t.Parallel()
	s := start(t, options{})
	l := s.libreKey(s.Token)
	r := l.post(t, "/exec", fields{"lang": "py", "code": "from IPython.display import display, HTML\nfor i in range(25):\n    display(HTML(chr(97 + i) * (1 << 20)))\nprint('X')\n1/0"})
	if r.Stdout != "X\n" || !strings.Contains(r.Stderr, "ZeroDivisionError") || r.Code != 1 {
		t.Errorf("stdout %.100q, stderr %.300q, code %d", r.Stdout, r.Stderr, r.Code)
	}
}

func TestLibreChatRunsOtherLanguages(t *testing.T) {
	t.Parallel()
	s := start(t, options{})
	l := s.libreKey(s.Token)
	stored := decode[libreUpload](t, string(l.upload(t, "/upload", nil, [][2]string{{"n.txt", "42"}}, 200).body))
	for _, c := range []struct{ lang, program, code string }{
		{"bash", "bash", "cat n.txt"},
		{"js", "node", "process.stdout.write(require('fs').readFileSync('n.txt', 'utf8'))"},
		{"c", "gcc", "#include <stdio.h>\nint main() { int n; fscanf(fopen(\"n.txt\", \"r\"), \"%d\", &n); printf(\"%d\", n); }"},
		{"cpp", "g++", "#include <fstream>\n#include <iostream>\nint main() { int n; std::ifstream(\"n.txt\") >> n; std::cout << n; }"},
		{"java", "javac", "import java.nio.file.*;\npublic class App { public static void main(String[] a) throws Exception { System.out.print(Files.readString(Path.of(\"n.txt\"))); } }"},
	} {
		t.Run(c.lang, func(t *testing.T) {
			if _, err := os.Stat("/usr/bin/" + c.program); err != nil {
				t.Skipf("no %s in /usr/bin", c.program)
			}
			r := l.post(t, "/exec", fields{"lang": c.lang, "code": c.code, "files": []fields{
				{"id": stored.Files[0].FileID, "storage_session_id": stored.StorageID, "name": "n.txt", "kind": "user", "resource_id": "u"},
			}})
			if r.Stdout != "42" || r.Code != 0 || len(r.SessionID) != 21 {
				t.Errorf("%+v", r)
			}
		})
	}
	if _, err := os.Stat("/usr/bin/gcc"); err == nil {
		if r := l.post(t, "/exec", fields{"lang": "c", "code": "int main() { return x; }"}); r.Code == 0 || !strings.Contains(r.Stderr, "error") {
			t.Errorf("a program that does not compile: %+v", r)
		}
	}
}

func TestLibreChatFiles(t *testing.T) {
	t.Parallel()
	s := start(t, options{})
	l := s.libreKey(s.Token)
	other := s.libreKey(s.owner(t, "other"))
	stored := decode[libreUpload](t, string(l.upload(t, "/upload", map[string]string{"entity_id": "agent-1"}, [][2]string{{"data.csv", "n\n1\n2\n"}}, 200).body))
	if stored.Message != "success" || stored.SessionID != stored.StorageID || len(stored.Files) != 1 || stored.Files[0].Filename != "data.csv" {
		t.Fatalf("the upload: %+v", stored)
	}
	in := fields{"id": stored.Files[0].FileID, "storage_session_id": stored.StorageID, "name": "data.csv", "kind": "user"}
	object := "/" + stored.StorageID + "/" + stored.Files[0].FileID
	run := func(t *testing.T, code string, files ...fields) libreResult {
		t.Helper()
		return l.post(t, "/exec", fields{"lang": "py", "code": code, "runtime_session_hint": "c", "files": files})
	}
	t.Run("code reads, changes, makes and removes files", func(t *testing.T) {
		r := run(t, "text = open('data.csv').read()\nimport os; os.makedirs('out', exist_ok=True)\nopen('out/sum.txt', 'w').write('3')\nprint(len(text))", in)
		if r.Stdout != "6\n" || len(r.Files) != 1 || r.Files[0].Name != "out/sum.txt" || r.Files[0].StorageSessionID != r.SessionID {
			t.Fatalf("%+v", r)
		}
		path := "/download/" + r.SessionID + "/" + r.Files[0].ID
		if a := l.call(t, "GET", path+"?kind=user&id=u1", "", "", 200); string(a.body) != "3" || !strings.Contains(a.header.Get("Content-Disposition"), "sum.txt") {
			t.Errorf("the file is %s %v", a.body, a.header)
		}
		other.call(t, "GET", path, "", "", 404)
		if r := run(t, "open('data.csv', 'a').write('3\\n')", in); len(r.Files) != 1 || r.Files[0].Name != "data.csv" {
			t.Errorf("after a change: %+v", r)
		}
		if r := run(t, "print(open('data.csv').read().count('\\n'))", in); r.Stdout != "4\n" {
			t.Errorf("the upload replaced what code has changed: %+v", r)
		}
		if r := run(t, "os.remove('out/sum.txt')"); len(r.DeletedFiles) != 1 || r.DeletedFiles[0] != "out/sum.txt" {
			t.Errorf("after a removal: %+v", r)
		}
		l.call(t, "GET", path, "", "", 404)
	})
	t.Run("a newer upload replaces the file", func(t *testing.T) {
		again := decode[libreUpload](t, string(l.upload(t, "/upload", map[string]string{"entity_id": "agent-1"}, [][2]string{{"data.csv", "new"}}, 200).body))
		if again.StorageID != stored.StorageID || again.Files[0].FileID == stored.Files[0].FileID {
			t.Errorf("the second upload: %+v", again)
		}
		r := run(t, "print(open('data.csv').read())", fields{"id": again.Files[0].FileID, "session_id": again.SessionID, "name": "data.csv"})
		if r.Stdout != "new\n" {
			t.Errorf("%+v", r)
		}
	})
	t.Run("another file of the same name replaces an unchanged copy, also an older one", func(t *testing.T) {
		var refs []fields
		for _, text := range []string{"older", "newer"} {
			up := decode[libreUpload](t, string(l.upload(t, "/upload", map[string]string{"entity_id": "agent-2"}, [][2]string{{"same.txt", text}}, 200).body))
			refs = append(refs, fields{"id": up.Files[0].FileID, "storage_session_id": up.StorageID, "name": "same.txt"})
		}
		show := "print(open('same.txt').read())"
		if r := run(t, show, refs[1]); r.Stdout != "newer\n" {
			t.Errorf("the first one: %+v", r)
		}
		if r := run(t, show, refs[0]); r.Stdout != "older\n" {
			t.Errorf("the older one: %+v", r)
		}
		if r := run(t, show, refs[0], refs[1]); r.Stdout != "newer\n" {
			t.Errorf("both in one request: %+v", r)
		}
		run(t, "open('same.txt', 'w').write('changed')", refs[1])
		if r := run(t, show, refs[0]); r.Stdout != "changed\n" {
			t.Errorf("an older upload replaced what code has changed: %+v", r)
		}
	})
	t.Run("the directory has the name that models are told", func(t *testing.T) {
		if os.Getenv(tierVariable) == "landlock" {
			t.Skip("paths are the machine's in the tier landlock")
		}
		if r := run(t, "open('/mnt/data/a.txt', 'w').write('1')\nprint(os.path.samefile('a.txt', '/mnt/data/a.txt'))"); r.Stdout != "True\n" || len(r.Files) != 1 {
			t.Errorf("%+v", r)
		}
	})
	t.Run("list, state and delete", func(t *testing.T) {
		list := decode[[]struct {
			ID       string            `json:"id"`
			Name     string            `json:"name"`
			Metadata map[string]string `json:"metadata"`
		}](t, string(l.call(t, "GET", "/files/"+stored.StorageID+"?detail=full&kind=user&id=u1", "", "", 200).body))
		if len(list) != 2 || list[0].Metadata["original-filename"] != "data.csv" || list[0].Name != stored.StorageID+"/"+list[0].ID+".csv" {
			t.Errorf("the list is %+v", list)
		}
		state := decode[struct {
			LastModified time.Time `json:"lastModified"`
		}](t, string(l.call(t, "GET", "/sessions"+strings.Replace(object, "/"+stored.Files[0].FileID, "/objects/"+stored.Files[0].FileID, 1), "", "", 200).body))
		if time.Since(state.LastModified) > time.Hour {
			t.Errorf("the file was changed at %v", state.LastModified)
		}
		for _, path := range []string{"/files" + object, "/files/" + stored.StorageID} {
			method := map[bool]string{true: "DELETE", false: "GET"}[strings.HasSuffix(path, stored.Files[0].FileID)]
			other.call(t, method, path, "", "", 404)
		}
		l.call(t, "DELETE", "/files"+object, "", "", 200)
		l.call(t, "DELETE", "/files"+object, "", "", 404)
		l.call(t, "GET", "/download"+object, "", "", 404)
		if r := l.post(t, "/exec", fields{"lang": "py", "code": "print(1)", "files": []fields{in}}); r.Stdout != "1\n" || !strings.Contains(r.Stderr, "data.csv has expired") {
			t.Errorf("with a file that is gone: %+v", r)
		}
	})
	t.Run("another owner's files are not there", func(t *testing.T) {
		mine := decode[libreUpload](t, string(l.upload(t, "/upload", nil, [][2]string{{"secret.txt", "s"}}, 200).body))
		r := other.post(t, "/exec", fields{"lang": "py", "code": "import os; print(os.listdir())", "files": []fields{
			{"id": mine.Files[0].FileID, "storage_session_id": mine.StorageID, "name": "secret.txt"}}})
		if r.Stdout != "[]\n" || !strings.Contains(r.Stderr, "secret.txt has expired") {
			t.Errorf("%+v", r)
		}
	})
	t.Run("many files, and those that are refused", func(t *testing.T) {
		skill := map[string]string{"kind": "skill", "id": "s1", "version": "2"}
		some := decode[libreUpload](t, string(l.upload(t, "/upload/batch", skill, [][2]string{{"skill/SKILL.md", "x"}, {"../out", "y"}}, 200).body))
		if some.Message != "partial_success" || len(some.Files) != 2 || some.Files[0].Filename != "skill/SKILL.md" || some.Files[1].Status != "error" {
			t.Errorf("%+v", some)
		}
		l.upload(t, "/upload", nil, [][2]string{{"../out", "y"}}, 403)
		l.upload(t, "/upload", map[string]string{"kind": "user"}, nil, 400)
		l.upload(t, "/upload", map[string]string{"id": strings.Repeat("x", 5000)}, [][2]string{{"a", "y"}}, 400)
		l.call(t, "POST", "/upload", "application/json", `{}`, 415)
		l.call(t, "POST", "/upload", "multipart/form-data; boundary=b", "--b\r\nContent-Disposition: form-data; name=file; filename=a\r\n\r\nhalf", 400)
		for _, name := range []string{"../x", "/etc/passwd/../../x", "a/../../x"} {
			file := fields{"id": some.Files[0].FileID, "storage_session_id": some.StorageID, "name": name}
			text, _ := json.Marshal(fields{"lang": "py", "code": "1", "files": []fields{file}})
			l.call(t, "POST", "/exec", "application/json", string(text), 403)
		}
	})
}

func TestLibreChatProgramsCallTools(t *testing.T) {
	t.Parallel()
	s := start(t, options{})
	l := s.libreKey(s.Token)
	tools := []fields{{"name": "get-weather", "description": "d", "parameters": fields{
		"type": "object", "properties": fields{"city": fields{"type": "string"}}, "required": []string{"city"}}}}
	begin := func(t *testing.T, code string, more fields) libreResult {
		t.Helper()
		body := fields{"code": code, "tools": tools, "runtime_session_hint": "ptc", "timeout": 60000}
		for k, v := range more {
			body[k] = v
		}
		return l.post(t, "/exec/programmatic", body)
	}
	t.Run("calls at once, one after another, and one that fails", func(t *testing.T) {
		r := begin(t, `import asyncio
kept = 5
a, b = await asyncio.gather(get_weather(city="SF"), get_weather(city="NY"))
print(a["t"] + b["t"])
try:
    await get_weather(city="none")
except Exception as e:
    print("failed:", e)`, nil)
		other := s.libreKey(s.owner(t, "other"))
		temperatures := map[any]int{"SF": 1, "NY": 2}
		asked := map[any]bool{}
		for rounds := 0; r.Status == "tool_call_required"; rounds++ { // calls that are made at once may arrive one after another
			results := []fields{}
			for _, c := range r.ToolCalls {
				city := c.Input["city"]
				if asked[city] = true; c.Name != "get-weather" {
					t.Errorf("the call is %+v", c)
				}
				if degrees, known := temperatures[city]; known {
					results = append(results, fields{"call_id": c.ID, "result": fields{"t": degrees}, "is_error": false})
				} else {
					results = append(results, fields{"call_id": c.ID, "result": nil, "is_error": true, "error_message": "no such city"})
				}
			}
			goOn := fields{"continuation_token": r.Token, "tool_results": results}
			if rounds == 0 {
				text, err := json.Marshal(goOn)
				if err != nil {
					t.Fatal(err)
				}
				other.call(t, "POST", "/exec/programmatic", "application/json", string(text), 404)
				s.Kill9()
				s.Restart(t)
				l.post(t, "/exec/programmatic", goOn) // and once more, as if the answer had been lost
			}
			r = l.post(t, "/exec/programmatic", goOn)
		}
		if r.Status != "completed" || r.Stdout != "3\nfailed: no such city\n" || r.Stderr != "" || len(asked) != 3 {
			t.Errorf("the end, after calls for %v: %+v", asked, r)
		}
		if r := l.post(t, "/exec", fields{"lang": "py", "code": "print(kept)", "runtime_session_hint": "ptc"}); r.Stdout != "5\n" {
			t.Errorf("the variables of the program: %+v", r)
		}
	})
	t.Run("errors", func(t *testing.T) {
		if r := begin(t, "print(1)\n1/0", nil); r.Status != "completed" || r.Stdout != "1\n" || !strings.Contains(r.Stderr, "ZeroDivisionError") {
			t.Errorf("an exception: %+v", r)
		}
		if r := begin(t, "import time\ntime.sleep(100)", fields{"timeout": 1000}); r.Status != "error" || r.Error != "Time limit exceeded" {
			t.Errorf("a program that takes too long: %+v", r)
		}
		if r := begin(t, "print(kept)", nil); r.Stdout != "5\n" {
			t.Errorf("the variables after a time-out: %+v", r)
		}
		for body, status := range map[string]int{
			`{"continuation_token":"x"}`: 400, `{"tools":[]}`: 400, `{"code":"1","lang":"bash"}`: 422, `{"code":"1","tools":[{"name":"."}]}`: 400,
			`{"continuation_token":"` + base64.RawURLEncoding.EncodeToString([]byte(`{"s":"nobody","e":"e"}`)) + `"}`: 404,
		} {
			l.call(t, "POST", "/exec/programmatic", "application/json", body, status)
		}
	})
	t.Run("a client cancels", func(t *testing.T) {
		named := l
		named.header = map[string]string{"X-API-Key": s.Token, "X-LibreChat-Code-Request-ID": "request-1"}
		events := s.Client()
		id := begin(t, "", nil).SessionID
		from, err := events.Session(within(t), id)
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan libreResult, 1)
		go func() {
			done <- named.post(t, "/exec/programmatic", fields{"code": "print('began')\nimport time\ntime.sleep(1000)", "tools": tools, "runtime_session_hint": "ptc"})
		}()
		for event, err := range events.Events(within(t), id, client.EventsQuery{After: from.LastSeq}) {
			if err != nil {
				t.Fatal(err)
			}
			if _, printed := event.Body.(api.Stream); printed { // it has begun
				break
			}
		}
		l.call(t, "POST", "/exec/programmatic/cancel", "application/json", `{"request_id":"request-1"}`, 200)
		if r := <-done; r.Status != "error" || r.Stdout != "began\n" {
			t.Errorf("the program ended with %+v", r)
		}
	})
}

func TestLibreChatUsersAuthenticate(t *testing.T) {
	t.Parallel()
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKIXPublicKey(public)
	if err != nil {
		t.Fatal(err)
	}
	keys := filepath.Join(t.TempDir(), "librechat.pem")
	if err := os.WriteFile(keys, pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}), 0o644); err != nil {
		t.Fatal(err)
	}
	s := start(t, options{config: "fronts:\n  librechat:\n    addr: 127.0.0.1:0\n    jwt_keys: " + keys + "\n"})
	user := func(sub string) libreClient {
		part := func(v any) string {
			text, err := json.Marshal(v)
			if err != nil {
				t.Fatal(err)
			}
			return base64.RawURLEncoding.EncodeToString(text)
		}
		now := time.Now().Unix()
		text := part(fields{"alg": "EdDSA", "typ": "JWT"}) + "." + part(fields{
			"iss": "librechat", "aud": "codeapi", "sub": sub, "tenant_id": "legacy", "role": "USER", "iat": now, "nbf": now, "exp": now + 300})
		token := text + "." + base64.RawURLEncoding.EncodeToString(ed25519.Sign(private, []byte(text)))
		return libreClient{s, "/librechat/v1", map[string]string{"Authorization": "Bearer " + token}}
	}
	ann, ben := user("ann"), user("ben")
	print := fields{"lang": "py", "code": "print('x' in globals()); x = 1", "runtime_session_hint": "c"}
	mine := ann.post(t, "/exec", print)
	if again := ann.post(t, "/exec", print); again.Stdout != "True\n" || again.SessionID != mine.SessionID {
		t.Errorf("the same user again: %+v", again)
	}
	if r := ben.post(t, "/exec", print); r.Stdout != "False\n" {
		t.Errorf("another user's conversation of the same name: %+v", r)
	}
	t.Run("programs that call tools have the same variables, though LibreChat does not name their user", func(t *testing.T) {
		ann.post(t, "/exec", fields{"lang": "py", "code": "y = 2", "runtime_session_hint": "c", "user_id": "ann"})
		r := ann.post(t, "/exec/programmatic", fields{"code": "print(x, y)", "tools": []fields{{"name": "unused"}}, "runtime_session_hint": "c"})
		if r.Stdout != "1 2\n" || r.SessionID != mine.SessionID {
			t.Errorf("%+v", r)
		}
	})
	t.Run("a user is an owner, whom the operator can look after", func(t *testing.T) {
		token := s.owner(t, "librechat:legacy:ann")
		s.want(t, call{method: "GET", path: "/v1/sessions/" + mine.SessionID, token: token}, http.StatusOK, "")
		s.want(t, call{method: "GET", path: "/v1/sessions/" + mine.SessionID}, http.StatusNotFound, api.CodeSessionNotFound)
	})
	t.Run("files of an agent are its users', those of a user are not", func(t *testing.T) {
		for kind, want := range map[string]string{"agent": "shared\n", "user": "[]\n"} {
			u := decode[libreUpload](t, string(ann.upload(t, "/upload", map[string]string{"kind": kind, "id": "a1"}, [][2]string{{"f.txt", "shared"}}, 200).body))
			code := "import os; print(open('f.txt').read() if os.path.exists('f.txt') else os.listdir())"
			r := ben.post(t, "/exec", fields{"lang": "py", "code": code, "files": []fields{
				{"id": u.Files[0].FileID, "storage_session_id": u.StorageID, "name": "f.txt", "kind": kind}}})
			if r.Stdout != want {
				t.Errorf("a file of kind %s: %+v", kind, r)
			}
		}
	})
	t.Run("tokens of sessions and of strangers", func(t *testing.T) {
		run := `{"lang":"py","code":"1"}`
		for name, header := range map[string]map[string]string{
			"none": {}, "wrong key": {"X-API-Key": "wrong"}, "basic": {"Authorization": "Basic eDp5"},
			"forged": {"Authorization": strings.TrimRight(ann.header["Authorization"], "=") + "AA"},
		} {
			a := s.do(t, call{method: "POST", path: "/librechat/v1/exec", token: "-", header: header, body: run})
			if a.status != http.StatusUnauthorized {
				t.Errorf("%s: %d %s", name, a.status, a.body)
			}
		}
		s.want(t, call{method: "GET", path: "/v1/sessions", token: strings.TrimPrefix(ann.header["Authorization"], "Bearer ")}, 401, api.CodeUnauthorized)
		narrow := decode[api.SessionToken](t, string(s.want(t, call{method: "POST", path: "/v1/sessions/" + session(t, s.Client(), api.SessionRequest{}) + "/tokens",
			body: `{"rights":["run","read","write"]}`}, 201, "").body))
		s.libreKey(narrow.Token).call(t, "POST", "/exec", "application/json", run, 403)
	})
	t.Run("a client that sends no header has its token in the path", func(t *testing.T) {
		l := libreClient{s, "/librechat/" + s.Token + "/v1", nil}
		if r := l.post(t, "/exec", fields{"lang": "py", "code": "print(6 * 7)"}); r.Stdout != "42\n" {
			t.Errorf("%+v", r)
		}
		libreClient{s, "/librechat/wrong/v1", nil}.call(t, "POST", "/exec", "application/json", `{"lang":"py","code":"1"}`, 401)
	})
	t.Run("an address of its own", func(t *testing.T) {
		own := *s
		own.URL = s.Fronts["librechat"]
		l := libreClient{&own, "/v1", map[string]string{"X-API-Key": s.Token}}
		if r := l.post(t, "/exec", fields{"lang": "py", "code": "print(6 * 7)"}); r.Stdout != "42\n" {
			t.Errorf("%+v", r)
		}
		l.call(t, "GET", "/health", "", "", 200)
	})
}

// libreExamples matches the examples of docs/librechat.md.
var libreExamples = regexp.MustCompile("(?s)<!-- example: librechat-([a-z]+) -->\n```sh\n(.*?)```")

func TestTheExamplesOfLibreChatRun(t *testing.T) {
	t.Parallel()
	s := start(t, options{})
	text, err := os.ReadFile("../docs/librechat.md")
	if err != nil {
		t.Fatal(err)
	}
	found := libreExamples.FindAllStringSubmatch(string(text), -1)
	if len(found) != 2 {
		t.Errorf("docs/librechat.md has %d examples, want 2", len(found))
	}
	dir := t.TempDir()
	for _, example := range found {
		cmd := exec.CommandContext(within(t), "sh", "-ec", example[2])
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "TALARIA_URL="+s.URL, "TALARIA_TOKEN="+s.Token)
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%s: %v", example[1], err)
		}
		if example[1] == "exec" {
			if r := decode[libreResult](t, string(out)); r.Stdout != "42\n" || len(r.Files) != 1 {
				t.Errorf("the answer is %s", out)
			}
		}
	}
	// The key that the page makes is one that the server takes.
	config := "fronts:\n  librechat:\n    jwt_keys: " + filepath.Join(dir, "librechat-public.pem") + "\n"
	file := filepath.Join(dir, "talaria.yaml")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	doctor := s.command(within(t), "doctor", "--config", file)
	if out, err := doctor.CombinedOutput(); err != nil || !strings.Contains(string(out), "/librechat/v1") {
		t.Errorf("doctor: %v: %s", err, out)
	}
}
