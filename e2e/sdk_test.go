package e2e

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// fetchLibrary saves a file of the server, without a token.
func fetchLibrary(t *testing.T, s *Server, name string) string {
	t.Helper()
	resp, err := http.Get(s.URL + "/sdk/" + name)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("GET /sdk/%s: %d %v", name, resp.StatusCode, err)
	}
	file := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(file, data, 0o644); err != nil {
		t.Fatal(err)
	}
	return file
}

// accept runs an acceptance script and does what it asks for, answering each time with an empty line.
func accept(t *testing.T, s *Server, p *proxy, cmd *exec.Cmd) {
	t.Helper()
	cmd.Stderr = t.Output()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	done, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	last := ""
	for lines := bufio.NewScanner(out); lines.Scan(); {
		switch last = lines.Text(); last {
		case "@kill":
			s.Kill9()
			s.Restart(t)
			p.redirect(s)
			_, _ = io.WriteString(done, "\n") // a script that has ended says so below
		case "@cut":
			p.cut()
			_, _ = io.WriteString(done, "\n")
		case "@lose":
			p.lose()
			_, _ = io.WriteString(done, "\n")
		default:
			t.Log(last)
		}
	}
	if err := cmd.Wait(); err != nil || last != "done" {
		t.Fatalf("after %q: %v", last, err)
	}
	if !p.lost() {
		t.Error("the answer that should be lost did not come through the proxy")
	}
}

func TestThePythonClientAsTheServerServesIt(t *testing.T) {
	t.Parallel()
	s := start(t, manual)
	p := newProxy(t, s)
	wheel := fetchLibrary(t, s, "talaria-0.2.0-py3-none-any.whl")
	ctx := withinProgram(t)
	// A wheel is a zip, and so can be imported from as it is.
	cmd := exec.CommandContext(ctx, "python3", "-u", "testdata/sdk/acceptance.py", s.URL, s.Token, "http://"+p.Addr().String())
	cmd.Env = append(os.Environ(), "PYTHONPATH="+wheel)
	accept(t, s, p, cmd)
}

// needsNode skips a test where there is no Node that the JavaScript client runs in: Debian 12 has an older one.
func needsNode(t *testing.T) {
	t.Helper()
	out, err := exec.Command("node", "-p", "const [a, b] = process.versions.node.split('.'); a > 20 || a == 20 && b >= 19").Output()
	if err != nil || strings.TrimSpace(string(out)) != "true" {
		t.Skip("SKIP: node 20.19 or newer is not installed")
	}
}

// node is a Node that has a WebSocket; version 20 has to be asked for it.
func node(ctx context.Context, args ...string) *exec.Cmd {
	if exec.Command("node", "-e", "if (!globalThis.WebSocket) process.exit(1)").Run() != nil {
		args = append([]string{"--experimental-websocket"}, args...)
	}
	return exec.CommandContext(ctx, "node", args...)
}

func TestTheTypeScriptClientAsTheServerServesIt(t *testing.T) {
	t.Parallel()
	needsNode(t)
	s := start(t, manual)
	p := newProxy(t, s)
	module := filepath.Join(filepath.Dir(fetchLibrary(t, s, "talaria.js")), "talaria.mjs")
	if err := os.Rename(strings.TrimSuffix(module, ".mjs")+".js", module); err != nil {
		t.Fatal(err)
	}
	ctx := withinProgram(t)
	accept(t, s, p, node(ctx, "testdata/sdk/acceptance.mjs", module, s.URL, s.Token, "http://"+p.Addr().String()))
}

// examples matches the programs in the documentation that use a client library.
var examples = regexp.MustCompile("(?s)<!-- example: (?:sdk|client)-(python|javascript|go) -->\n```[a-z]+\n(.*?)```")

// printedLine matches the end of a line that says what the line prints.
var printedLine = regexp.MustCompile(`(?m)^.*(?:[pP]rint|console\.log).*\S\s+(?:#|//) (\S.*)$`)

// TestTheExamplesOfTheClientLibraries runs them as they stand, and compares what they print with their comments.
func TestTheExamplesOfTheClientLibraries(t *testing.T) {
	t.Parallel()
	s := start(t, options{})
	wheel := fetchLibrary(t, s, "talaria-0.2.0-py3-none-any.whl")
	dir := t.TempDir()
	module, err := os.ReadFile(fetchLibrary(t, s, "talaria.js"))
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string][]byte{
		"sdk/talaria.js":                    module,
		"node_modules/talaria/index.js":     module,
		"node_modules/talaria/package.json": []byte(`{"name":"talaria","type":"module","main":"index.js"}`),
	} {
		file := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, data, 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	for page, want := range map[string]int{
		"../README.md": 2, "../docs/api.md": 2, "../docs/sdk.md": 4, "../docs/tools.md": 3,
		"../sdk/python/README.md": 1, "../sdk/typescript/README.md": 1,
	} {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		found := examples.FindAllStringSubmatch(string(text), -1)
		if len(found) != want {
			t.Errorf("%s has %d examples, want %d", page, len(found), want)
		}
		for _, example := range found {
			t.Run(strings.TrimPrefix(page, "../")+"/"+example[1], func(t *testing.T) {
				runExample(t, s, dir, wheel, example[1], example[2])
			})
		}
	}
}

// runExample runs a program in a folder with the client libraries.
func runExample(t *testing.T, s *Server, dir, wheel, language, program string) {
	t.Helper()
	file := filepath.Join(dir, "tour."+map[string]string{"python": "py", "javascript": "mjs", "go": "go"}[language])
	if err := os.WriteFile(file, []byte(program), 0o644); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(within(t), "python3", file)
	cmd.Dir = dir
	switch language {
	case "javascript":
		needsNode(t)
		cmd = node(within(t), "--no-warnings", file)
		cmd.Dir = dir
	case "go":
		cmd = exec.CommandContext(within(t), "go", "run", file) // in the module of the client
	}
	cmd.Env = append(os.Environ(), "PYTHONPATH="+wheel, "TALARIA_URL="+s.URL, "TALARIA_TOKEN="+s.Token)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	said := strings.Join(strings.Fields(string(out)), " ")
	var comments []string
	for _, c := range printedLine.FindAllStringSubmatch(program, -1) {
		comments = append(comments, c[1])
	}
	if want := strings.Join(comments, " "); len(comments) > 0 && said != want || said == "" {
		t.Errorf("it prints %q, and its comments say %q", said, want)
	}
}
