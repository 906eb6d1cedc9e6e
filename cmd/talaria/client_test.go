package main

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"talaria/client"
	"talaria/store"
)

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// served is a state directory of a server that lists no sessions, and knows no token but that one.
func served(t *testing.T, token string) (dir string) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer "+token {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"items":[]}`))
	}))
	t.Cleanup(server.Close)
	dir = t.TempDir()
	write(t, filepath.Join(dir, "url"), server.URL+"\n")
	write(t, filepath.Join(dir, "token"), token+"\n")
	db, err := store.Open(t.Context(), dir, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return dir
}

// ran is what a command prints.
func ran(t *testing.T, args ...string) (string, error) {
	t.Helper()
	var out strings.Builder
	root := command()
	root.SetArgs(args)
	root.SetOut(&out)
	err := root.ExecuteContext(t.Context())
	return strings.TrimSpace(out.String()), err
}

func TestAllCommandsFindTheStateDirectoryByOneRule(t *testing.T) {
	byFile, byVariable, byFlag := served(t, "token-by-the-file"), served(t, "token-by-the-variable"), served(t, "token-by-the-flag")
	file := filepath.Join(t.TempDir(), "talaria.yaml")
	write(t, file, "pool: 0\nstate_dir: "+byFile+"\n")
	check := func(t *testing.T, dir string, flags ...string) {
		t.Helper()
		token, _ := given("", "", filepath.Join(dir, "token"))
		url, _ := given("", "", filepath.Join(dir, "url"))
		for _, c := range []struct {
			args []string
			want string
		}{
			{[]string{"token", "show"}, token},
			{[]string{"url"}, url},
			{[]string{"sessions", "--json"}, ""}, // 401 from the other ones' servers
		} {
			if out, err := ran(t, append(c.args, flags...)...); err != nil || c.want != "" && out != c.want {
				t.Errorf("%v: %q, %v; want %q", append(c.args, flags...), out, err, c.want)
			}
		}
		out, err := ran(t, append([]string{"config", "--json"}, flags...)...)
		if err != nil || !strings.Contains(out, dir) {
			t.Errorf("the configuration has another state directory than %s: %v\n%s", dir, err, out)
		}
	}
	t.Run("file", func(t *testing.T) { check(t, byFile, "--config", file) })
	t.Run("file of the variable", func(t *testing.T) { t.Setenv("TALARIA_CONFIG", file); check(t, byFile) })
	t.Run("empty variable", func(t *testing.T) { t.Setenv("TALARIA_STATE_DIR", ""); check(t, byFile, "--config", file) })
	t.Run("empty flag", func(t *testing.T) { check(t, byFile, "--config", file, "--state-dir", "") })
	t.Run("variable", func(t *testing.T) { t.Setenv("TALARIA_STATE_DIR", byVariable); check(t, byVariable, "--config", file) })
	t.Run("flag", func(t *testing.T) {
		t.Setenv("TALARIA_STATE_DIR", byVariable)
		check(t, byFlag, "--config", file, "--state-dir", byFlag)
	})
	t.Run("mistake", func(t *testing.T) {
		write(t, file, "adr: x")
		if _, err := ran(t, "sessions", "--config", file); err == nil || !strings.Contains(err.Error(), `talaria.yaml:1: unknown key "adr"`) {
			t.Error(err)
		}
		if _, err := ran(t, "sessions", "--config", file, "--state-dir", byFlag); err != nil {
			t.Error(err)
		}
	})
}

func TestNoTokenIsSentToTheAddressOfAServerThatHasEnded(t *testing.T) {
	asked := make(chan string, 1)
	other := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		asked <- r.Header.Get("Authorization")
	}))
	t.Cleanup(other.Close)
	dir := t.TempDir()
	write(t, filepath.Join(dir, "url"), other.URL)
	write(t, filepath.Join(dir, "token"), "the-token-of-the-first-owner")
	write(t, filepath.Join(dir, "lock"), "")
	_, err := ran(t, "sessions", "--state-dir", dir)
	if err == nil || statusOf(err) != exitUnreachable || !strings.Contains(err.Error(), "no running server found (the server of "+dir+" has ended)") {
		t.Error(err)
	}
	if out, err := ran(t, "url", "--state-dir", dir); err == nil {
		t.Errorf("the server that has ended is at %s", out)
	}
	select {
	case token := <-asked:
		t.Errorf("another program got %q", token)
	default:
	}
}

func TestAnotherProgramIsNoServer(t *testing.T) {
	for _, body := range []string{"", "{}", "hello"} {
		other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = w.Write([]byte(body)) }))
		if err := client.New(other.URL, "").Ready(t.Context()); isAnswer(err) {
			t.Errorf("%q is taken for the answer of a server: %v", body, err)
		}
		other.Close()
	}
}
