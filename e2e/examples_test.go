package e2e

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"talaria/api"
)

// exampleEnv is the environment of an example: the client library as the server serves it, and where the server is.
func exampleEnv(t *testing.T, s *Server) []string {
	t.Helper()
	return append(os.Environ(), "PYTHONPATH="+fetchLibrary(t, s, "talaria-0.2.0-py3-none-any.whl"), "PORT=0",
		"TALARIA_URL="+s.URL, "TALARIA_TOKEN="+s.Token)
}

// chatServer starts a server of the chat example, and returns where it listens.
func chatServer(t *testing.T, cmd *exec.Cmd) string {
	t.Helper()
	cmd.Stderr = t.Output()
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	line, err := bufio.NewReader(out).ReadString('\n')
	at, ok := strings.CutPrefix(strings.TrimSpace(line), "open ")
	if err != nil || !ok {
		t.Fatalf("the chat server says %q: %v", line, err)
	}
	return strings.TrimSuffix(at, "/")
}

func TestExamplesTheChat(t *testing.T) {
	t.Parallel()
	s := start(t, options{})
	modules := t.TempDir() // where npm would install the client
	library := filepath.Join(modules, "node_modules", "talaria")
	for _, err := range []error{
		os.MkdirAll(library, 0o755),
		os.Rename(fetchLibrary(t, s, "talaria.js"), filepath.Join(library, "index.js")),
		os.WriteFile(filepath.Join(library, "package.json"), []byte(`{"name":"talaria","type":"module","main":"index.js"}`), 0o644),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"index.html", "server.mjs", "server.py"} {
		data, err := os.ReadFile(filepath.Join("..", "examples", "chat", name))
		if err == nil {
			err = os.WriteFile(filepath.Join(modules, name), data, 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for program, file := range map[string]string{"python3": "server.py", "node": "server.mjs"} {
		t.Run(program, func(t *testing.T) {
			if program == "node" {
				needsNode(t)
			}
			cmd := exec.Command(program, file)
			cmd.Dir, cmd.Env = modules, exampleEnv(t, s)
			at := chatServer(t, cmd)
			resp, err := http.Get(at + "/")
			if err != nil {
				t.Fatal(err)
			}
			page, err := io.ReadAll(resp.Body)
			resp.Body.Close()
			if err != nil || !bytes.Contains(page, []byte("<textarea")) {
				t.Errorf("the page: %v %.100q", err, page)
			}
			say := func(code string) (parts []map[string]string) {
				t.Helper()
				resp, err := http.Post(at+"/chat/"+program, "text/plain", strings.NewReader(code))
				if err != nil {
					t.Fatal(err)
				}
				defer resp.Body.Close()
				for d := json.NewDecoder(resp.Body); d.More(); {
					var part map[string]string
					if err := d.Decode(&part); err != nil {
						t.Fatal(err)
					}
					if n := len(parts); n > 0 && part["type"] == "text" && parts[n-1]["type"] == "text" {
						parts[n-1]["text"] += part["text"] // output may arrive in pieces
						continue
					}
					parts = append(parts, part)
				}
				return parts
			}
			if got := say("x = 20\nprint('hello')\nx + 1"); len(got) != 1 || got[0]["text"] != "hello\n21\n" {
				t.Errorf("a cell: %v", got)
			}
			if got := say("x * 2"); len(got) != 1 || got[0]["text"] != "40\n" {
				t.Errorf("the state is not kept: %v", got)
			}
			if got := say("import matplotlib.pyplot as plt\nplt.plot([1, 2]); plt.show()"); len(got) != 1 || got[0]["type"] != "image" ||
				!strings.HasPrefix(got[0]["data"], "iVBOR") {
				t.Errorf("a figure: %.200v", got)
			}
			if got := say("1/0"); len(got) != 1 || got[0]["type"] != "error" || !strings.Contains(got[0]["text"], "ZeroDivisionError") {
				t.Errorf("an error: %v", got)
			}
		})
	}
}

// model stands in for a language model: it asks for one cell after another, and then answers.
type model struct {
	t     *testing.T
	cells []string

	mu   sync.Mutex
	seen []json.RawMessage // the messages of the last request
}

func (m *model) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var req struct {
		Model    string
		Messages []json.RawMessage
		Tools    []struct{ Function struct{ Name string } }
	}
	if err := json.NewDecoder(r.Body).Decode(&req); err != nil || r.URL.Path != "/v1/chat/completions" ||
		r.Header.Get("Authorization") != "Bearer key" || req.Model != "fake" ||
		len(req.Tools) > 0 && req.Tools[0].Function.Name != "run_python" {
		m.t.Errorf("the request %s %+v: %v", r.URL, req, err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	message := map[string]any{"role": "assistant", "content": "It is done."}
	if len(req.Tools) == 0 { // a cell asks, by a tool
		message["content"] = "Answer to " + string(req.Messages[0])
	} else if m.seen = req.Messages; len(m.cells) > 0 {
		arguments := m.cells[0]
		m.cells = m.cells[1:]
		message = map[string]any{"role": "assistant", "content": nil, "tool_calls": []any{map[string]any{
			"id": "call_" + strings.Repeat("x", len(m.cells)+1), "type": "function",
			"function": map[string]any{"name": "run_python", "arguments": arguments},
		}}}
	}
	if err := json.NewEncoder(w).Encode(map[string]any{"choices": []any{map[string]any{"message": message}}}); err != nil {
		m.t.Error(err)
	}
}

func TestExamplesTheAgent(t *testing.T) {
	t.Parallel()
	s := start(t, options{})
	m := &model{t: t, cells: []string{
		`{"code":"x = 6"}`, `not JSON`, `{"code":"x * 7"}`, `{"code":"import matplotlib.pyplot as plt; plt.plot([x]); plt.show()"}`,
		`{"code":"from hermes_tools import ask_model\nask_model('Why?')"}`, `{"code":"1/0"}`,
	}}
	endpoint := httptest.NewServer(m)
	defer endpoint.Close()
	cmd := exec.CommandContext(within(t), "python3", "../examples/agent/agent.py", "What is six times seven?")
	cmd.Env = append(exampleEnv(t, s), "OPENAI_BASE_URL="+endpoint.URL+"/v1", "OPENAI_API_KEY=key", "OPENAI_MODEL=fake")
	cmd.Stderr = t.Output()
	out, err := cmd.Output()
	if err != nil || string(out) != "It is done.\n" {
		t.Fatalf("the agent says %q: %v", out, err)
	}
	var roles, texts []string
	images := 0
	for _, raw := range m.seen {
		var message struct {
			Role    string
			Content any
		}
		if err := json.Unmarshal(raw, &message); err != nil {
			t.Fatal(err)
		}
		roles = append(roles, message.Role)
		switch content := message.Content.(type) {
		case string:
			texts = append(texts, content)
		case []any:
			images += bytes.Count(raw, []byte("data:image/png;base64,iVBOR"))
		}
	}
	if got, want := strings.Join(roles, " "), "user assistant tool assistant tool assistant tool assistant tool user assistant tool assistant tool"; got != want || images != 1 {
		t.Errorf("the messages are %s with %d images, want %s with one", got, images, want)
	}
	said := strings.Join(texts, "\n")
	for _, want := range []string{"(no output)", "must be a JSON object", "42", "Answer to", "Why?", "ZeroDivisionError"} {
		if !strings.Contains(said, want) {
			t.Errorf("%q is not in what the model was told: %q", want, said)
		}
	}
	if page, err := s.Client().Executions(within(t), "agent", api.PageQuery{}); err != nil || len(page.Items) != 5 {
		t.Errorf("%d cells were run (%v), want 5", len(page.Items), err)
	}
}

func TestExamplesNameTheVariablesThatAreMissing(t *testing.T) {
	t.Parallel()
	s := start(t, manual)
	empty := []string{"TALARIA_URL=", "TALARIA_TOKEN=", "OPENAI_BASE_URL=", "OPENAI_API_KEY=", "OPENAI_MODEL="}
	for file, want := range map[string]string{
		"chat/server.py": "set TALARIA_URL to the output of `talaria url`, and TALARIA_TOKEN to the output of `talaria token show`\n",
		"agent/agent.py": "set TALARIA_URL to the output of `talaria url`\nset TALARIA_TOKEN to the output of `talaria token show`\n" +
			"set OPENAI_BASE_URL to an endpoint with OpenAI's chat completions API, such as http://127.0.0.1:11434/v1\n" +
			"set OPENAI_API_KEY to its key; any text if it needs none\nset OPENAI_MODEL to the name of one of its models\n",
	} {
		cmd := exec.CommandContext(within(t), "python3", "../examples/"+file, "Why?")
		cmd.Env = append(exampleEnv(t, s), empty...)
		if out, err := cmd.CombinedOutput(); err == nil || string(out) != want {
			t.Errorf("%s says %q: %v", file, out, err)
		}
	}
}
