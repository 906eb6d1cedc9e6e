package main

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
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
