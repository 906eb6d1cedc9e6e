package e2e

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
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

// accept runs an acceptance script, and does what it asks for.
func accept(t *testing.T, s *Server, p *proxy, cmd *exec.Cmd) {
	t.Helper()
	cmd.Stderr = t.Output()
	out, err := cmd.StdoutPipe()
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
		case "@cut":
			p.cut()
		default:
			t.Log(last)
		}
	}
	if err := cmd.Wait(); err != nil || last != "done" {
		t.Fatalf("after %q: %v", last, err)
	}
}

func TestThePythonClientAsTheServerServesIt(t *testing.T) {
	t.Parallel()
	s := start(t, options{})
	p := newProxy(t, s)
	wheel := fetchLibrary(t, s, "talaria-0.2.0-py3-none-any.whl")
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	// A wheel is a zip, and so can be imported from as it is.
	cmd := exec.CommandContext(ctx, "python3", "-u", "testdata/sdk/acceptance.py", s.URL, s.Token, "http://"+p.Addr().String())
	cmd.Env = append(os.Environ(), "PYTHONPATH="+wheel)
	accept(t, s, p, cmd)
}

func TestTheTypeScriptClientAsTheServerServesIt(t *testing.T) {
	t.Parallel()
	if out, err := exec.Command("node", "-p", "parseInt(process.versions.node)>=20").Output(); err != nil ||
		strings.TrimSpace(string(out)) != "true" {
		t.Skip("node 20 or newer is not installed")
	}
	s := start(t, options{})
	p := newProxy(t, s)
	module := filepath.Join(filepath.Dir(fetchLibrary(t, s, "talaria.js")), "talaria.mjs")
	if err := os.Rename(strings.TrimSuffix(module, ".mjs")+".js", module); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	accept(t, s, p, exec.CommandContext(ctx, "node", "testdata/sdk/acceptance.mjs", module, s.URL, s.Token,
		"http://"+p.Addr().String()))
}
