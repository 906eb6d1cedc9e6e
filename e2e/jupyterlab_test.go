package e2e

import (
	"archive/zip"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"image"
	"image/png"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"talaria/api"
	"talaria/client"
)

// labCells are the cells that testdata/jupyterlab/page.mjs runs, by their numbers.
var labCells = []string{
	"x = 41\nprint('printed')\nx + 1",
	"1/0",
	"import matplotlib.pyplot as plt\nplt.plot([1, 3, 2])\nplt.show()",
	"print('it runs', flush=True)\nwhile True: pass",
	"print('hello', input('name? '))",
	"",
	"'x' in globals()",
}

// labWidgets are the cells after those.
var labWidgets = []string{
	"import sys\nsys.path.insert(0, 'ipywidgets.zip')\nimport ipywidgets",
	"slider = ipywidgets.IntSlider(value=3)\nout = ipywidgets.Output()\n@out.capture()\ndef moved(change): print('moved to', change['new'])\n" +
		"slider.observe(moved, 'value')\nipywidgets.VBox([slider, out])",
	"slider.value",
	"slider.value = 9",
	"def show(n): print('n is', n)\nipywidgets.interact(show, n=(0, 10));",
}

// TestJupyterLabsPageRunsANotebook uses JupyterLab itself in a browser. The page is bundled from JupyterLab's packages. What it asks
// of JupyterLab's own server, its files and settings, a server of the test answers; all else goes to Talaria.
func TestJupyterLabsPageRunsANotebook(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath(cmp.Or(os.Getenv("CHROMIUM"), "chromium")); err != nil {
		t.Skip("SKIP: chromium is not installed")
	}
	const folder = "testdata/jupyterlab"
	installNode(t, folder)
	bundle := t.TempDir()
	if out, err := exec.CommandContext(within(t), "node", folder+"/build.mjs", bundle).CombinedOutput(); err != nil {
		t.Fatalf("bundle JupyterLab: %v: %s", err, out)
	}
	s := start(t, options{})
	widgets, missing := ipywidgets8(t, folder+"/node_modules/.ipywidgets")
	// newSession makes a session with the files that the page uses.
	newSession := func(cells ...string) (id string) {
		t.Helper()
		id = session(t, s.Client(), api.SessionRequest{})
		var picture bytes.Buffer
		if err := png.Encode(&picture, image.NewGray(image.Rect(0, 0, 7, 5))); err != nil {
			t.Fatal(err)
		}
		for name, content := range map[string]string{
			"analysis.ipynb": string(notebookFile(t, cells...)), "table.csv": "n\n1\n", "notes.md": "![a picture](my%20pictures/p.png)",
			"my%20pictures/p.png": picture.String(), "ipywidgets.zip": string(widgets),
		} {
			s.want(t, call{method: "PUT", path: "/v1/sessions/" + id + "/files/" + name, body: content}, http.StatusCreated, "")
		}
		return id
	}
	// use has the page do all, with a token for which the session's workspace is the folder.
	use := func(t *testing.T, token, folder string, cells int) (got map[string]string) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
		defer cancel()
		address := labServer(t, s, bundle, token) + "/jupyter/lab"
		cmd := exec.CommandContext(ctx, "node", "testdata/jupyterlab/page.mjs", address, folder, fmt.Sprint(cells), os.Getenv("TALARIA_PICTURES"))
		cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) } // the browser ends, too
		cmd.WaitDelay = time.Minute
		got = reported(t, cmd)
		wantReported(t, got, map[string]string{
			"a download":            `["table.csv","n\n1\n"]`,
			"a picture in Markdown": `7`,
			"text":                  `["printed","42"]`,
			"error":                 `["ZeroDivisionError: division by zero"]`,
			"chart":                 `"data:image/png;base64 true"`,
			"input":                 `["name?  Ann","hello Ann"]`,
			"completed":             `"globals"`,
			"after a restart":       `["False"]`,
			"a new notebook":        `["42"]`,
			"a death":               `true`,
			"after a death":         `["43"]`,
			"complaints":            `[]`,
		})
		return got
	}
	// saved checks the outputs of the first cells in the file.
	saved := func(t *testing.T, id string) {
		t.Helper()
		var types []string
		data := s.want(t, call{method: "GET", path: "/v1/sessions/" + id + "/files/analysis.ipynb"}, http.StatusOK, "").body
		for _, cell := range decode[savedNotebook](t, string(data)).Cells[:4] {
			for _, o := range cell.Outputs {
				types = append(types, o.OutputType)
			}
		}
		wantWords(t, types, "stream", "execute_result", "error", "display_data", "stream", "error")
	}
	// newNotebook checks in which session the page has made its new notebook, and that there are no more than these.
	newNotebook := func(t *testing.T, at, sessions int) {
		t.Helper()
		page, err := s.Client().Sessions(within(t), client.SessionFilter{})
		if err != nil || len(page.Items) != sessions {
			t.Fatalf("the sessions are %+v (%v)", page.Items, err)
		}
		s.want(t, call{method: "GET", path: "/v1/sessions/" + page.Items[at].ID + "/files/Untitled.ipynb"}, http.StatusOK, "")
	}

	t.Run("with an owner's token", func(t *testing.T) {
		cells := labCells
		if missing == nil {
			cells = slices.Concat(labCells, labWidgets)
		}
		id := newSession(cells...)
		got := use(t, s.Token, id, len(cells))
		saved(t, id)
		newNotebook(t, 0, 2)
		if missing != nil {
			t.Skipf("SKIP: there is no ipywidgets 8, so no slider is moved: %v", missing)
		}
		wantReported(t, got, map[string]string{"value in Python": `["100"]`})
	})
	t.Run("with the token of one session", func(t *testing.T) {
		id := newSession(labCells...)
		made, err := s.Client().CreateToken(within(t), id, api.SessionTokenRequest{Rights: []api.Right{api.RightRun, api.RightWrite}})
		if err != nil {
			t.Fatal(err)
		}
		use(t, made.Token, "", len(labCells))
		saved(t, id)
		newNotebook(t, 0, 3)
	})
}

// savedNotebook is what tests read of a notebook's file.
type savedNotebook struct {
	Cells []struct {
		ExecutionCount int `json:"execution_count"`
		Outputs        []struct {
			OutputType string `json:"output_type"`
			Data       map[string]any
		}
	}
}

// notebookFile is a notebook with these cells of code.
func notebookFile(t *testing.T, cells ...string) []byte {
	t.Helper()
	list := []any{}
	for i, code := range cells {
		list = append(list, map[string]any{"id": fmt.Sprint("cell-", i), "cell_type": "code", "source": code,
			"metadata": map[string]any{}, "outputs": []any{}, "execution_count": nil})
	}
	data, err := json.Marshal(map[string]any{"nbformat": 4, "nbformat_minor": 5, "cells": list, "metadata": map[string]any{
		"kernelspec": map[string]any{"name": "python3", "display_name": "Python 3", "language": "python"}}})
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// labServer serves JupyterLab's page at /jupyter/lab, which has the token, with the API of its settings, and passes on all else to
// Talaria.
func labServer(t *testing.T, s *Server, bundle, token string) (address string) {
	t.Helper()
	encode := func(v any) string {
		data, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	answer := func(status int, kind, text string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", kind)
			w.WriteHeader(status)
			_, _ = w.Write([]byte(text))
		}
	}
	const lab, asJSON = "/jupyter/lab", "application/json"
	text, err := os.ReadFile(filepath.Join(bundle, "settings.json"))
	if err != nil {
		t.Fatal(err)
	}
	settings := decode[map[string]json.RawMessage](t, string(text))
	config := encode(map[string]any{
		"appName": "JupyterLab", "baseUrl": "/jupyter/", "appUrl": "/lab", "token": token, "appendToken": "true", "terminalsAvailable": false,
		"themesUrl": "/lab/api/themes", "translationsApiUrl": "/lab/api/translations",
		"disabledExtensions": []string{
			"@jupyterlab/apputils-extension:announcements", // asks another site for news
			"@jupyterlab/fileeditor-extension:language-server", "@jupyterlab/notebook-extension:language-server",
		},
	})
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+lab, answer(http.StatusOK, "text/html", `<!DOCTYPE html><meta charset="utf-8"><title>JupyterLab</title>
<script id="jupyter-config-data" type="application/json">`+config+`</script>
<link rel="stylesheet" href="/jupyter/lab/static/lab.css"><body><script type="module" src="/jupyter/lab/static/lab.js"></script>`))
	mux.Handle("GET "+lab+"/static/", http.StripPrefix(lab+"/static", http.FileServer(http.Dir(bundle))))
	mux.HandleFunc("GET "+lab+"/api/themes/", func(w http.ResponseWriter, r *http.Request) {
		http.ServeFile(w, r, filepath.Join(bundle, "theme.css"))
	})
	mux.HandleFunc("GET "+lab+"/api/settings", answer(http.StatusOK, asJSON, encode(map[string]any{"settings": slices.Collect(maps.Values(settings))})))
	mux.HandleFunc("GET "+lab+"/api/settings/{id...}", func(w http.ResponseWriter, r *http.Request) {
		answer(http.StatusOK, asJSON, encode(settings[r.PathValue("id")]))(w, r)
	})
	mux.HandleFunc("GET "+lab+"/api/translations/", answer(http.StatusOK, asJSON, `{"data":{},"message":""}`))
	mux.HandleFunc("GET "+lab+"/api/workspaces", answer(http.StatusOK, asJSON, `{"workspaces":{"ids":[],"values":[]}}`))
	mux.HandleFunc("GET "+lab+"/api/workspaces/{id}", answer(http.StatusOK, asJSON, `{"data":{},"metadata":{"id":"default"}}`))
	mux.HandleFunc("PUT "+lab+"/api/workspaces/{id}", answer(http.StatusNoContent, asJSON, ""))
	talaria, err := url.Parse(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	mux.Handle("/", httputil.NewSingleHostReverseProxy(talaria))
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return server.URL
}

// ipywidgets8 is a ZIP archive with the module ipywidgets of version 8: the installed one, or that of Debian 13, which it keeps in
// the folder.
func ipywidgets8(t *testing.T, folder string) (archive []byte, err error) {
	t.Helper()
	const where = "import ipywidgets, pathlib; print(pathlib.Path(ipywidgets.__file__).parents[1] if ipywidgets.__version__[0] == '8' else '')"
	out, _ := exec.Command("/usr/bin/python3", "-c", where).Output()
	from := cmp.Or(strings.TrimSpace(string(out)), folder)
	if _, err := os.Stat(from); err != nil {
		if out, err := exec.CommandContext(within(t), "sh", "testdata/jupyterlab/ipywidgets.sh", folder).CombinedOutput(); err != nil {
			return nil, fmt.Errorf("get Debian 13's package: %w: %s", err, out)
		}
	}
	var data bytes.Buffer
	z := zip.NewWriter(&data)
	for _, pattern := range []string{"ipywidgets/*.py", "ipywidgets/*/*.py", "ipywidgets/*/*/*.py"} {
		names, err := filepath.Glob(filepath.Join(from, pattern))
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			text, err := os.ReadFile(name)
			if err != nil {
				return nil, err
			}
			w, err := z.Create(strings.TrimPrefix(name, from+"/"))
			if err != nil {
				return nil, err
			}
			if _, err := w.Write(text); err != nil {
				return nil, err
			}
		}
	}
	if err := z.Close(); err != nil {
		return nil, err
	}
	return data.Bytes(), nil
}
