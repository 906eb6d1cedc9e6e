package e2e

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"talaria/api"
)

// mcpExamples matches the examples of docs/mcp.md.
var mcpExamples = regexp.MustCompile("(?s)<!-- example: mcp-([a-z]+) -->\n```[a-z]+\n(.*?)```")

// TestTheExamplesOfMCPRun runs them as they stand, and compares what they print with their comments.
func TestTheExamplesOfMCPRun(t *testing.T) {
	t.Parallel()
	s := start(t, options{})
	session(t, s.Client(), api.SessionRequest{ID: new("demo")})
	text, err := os.ReadFile("../docs/mcp.md")
	if err != nil {
		t.Fatal(err)
	}
	run := func(t *testing.T, want, name string, args ...string) {
		t.Helper()
		cmd := exec.CommandContext(within(t), name, args...)
		cmd.Dir = ".."
		cmd.Env = append(os.Environ(), "TALARIA_URL="+s.URL, "TALARIA_TOKEN="+s.Token)
		cmd.Stderr = t.Output()
		if out, err := cmd.Output(); err != nil || !strings.Contains(string(out), want) {
			t.Errorf("it printed %q, want %q (%v)", out, want, err)
		}
	}
	write := func(t *testing.T, dir, name, program string) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(program), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	known := map[string]func(t *testing.T, example string){
		"config": func(t *testing.T, example string) { runConfigured(t, s, example) },
		"shell":  func(t *testing.T, example string) { run(t, `"size":5`, "sh", "-c", example) },
		"go": func(t *testing.T, example string) {
			run(t, "42\n", "go", "run", write(t, t.TempDir(), "main.go", example))
		},
		"node": func(t *testing.T, example string) {
			installNode(t, "testdata/mcp")
			dir := t.TempDir()
			modules, err := filepath.Abs("testdata/mcp/node_modules")
			if err == nil {
				err = os.Symlink(modules, filepath.Join(dir, "node_modules"))
			}
			if err != nil {
				t.Fatal(err)
			}
			run(t, "42\n", "node", write(t, dir, "example.mjs", example))
		},
	}
	found := mcpExamples.FindAllStringSubmatch(string(text), -1)
	if len(found) != len(known) {
		t.Errorf("docs/mcp.md has %d examples, want %d", len(found), len(known))
	}
	for _, example := range found {
		t.Run(example[1], func(t *testing.T) { known[example[1]](t, example[2]) })
	}
}

// runConfigured starts what the configuration of a desktop client names, and what talaria doctor prints for it.
func runConfigured(t *testing.T, s *Server, example string) {
	type configuration struct {
		Servers map[string]struct {
			Command string
			Args    []string
		} `json:"mcpServers"`
	}
	out, _ := s.command(context.Background(), "doctor", "--state-dir", s.StateDir).Output() // its status is about the machine
	_, printed, ok := strings.Cut(string(out), "add this to the client's configuration: ")
	printed, _, _ = strings.Cut(printed, "\n")
	if !ok || !strings.Contains(printed, s.StateDir) {
		t.Errorf("talaria doctor prints no configuration: %s", out)
	}
	for _, text := range []string{example, printed} {
		var c configuration
		if err := json.Unmarshal([]byte(text), &c); err != nil {
			t.Fatalf("%v: %s", err, text)
		}
		own := c.Servers["talaria"]
		if name := filepath.Base(own.Command); name != "talaria" || own.Args[0] != "mcp" {
			t.Fatalf("the configuration starts %q %q", own.Command, own.Args)
		}
		cmd := s.command(context.Background(), own.Args...)
		cmd.Env = append(cmd.Env, "TALARIA_URL="+s.URL, "TALARIA_TOKEN="+s.Token)
		call := calling(goMCP(t, &mcp.CommandTransport{Command: cmd}, newerMCP, nil))
		if r := call.called(t, "execute_code", map[string]any{"code": "6 * 7"}); strings.TrimSpace(r.Structured.Output) != "42" {
			t.Errorf("%s: %+v", text, r)
		}
	}
}
