package index_test

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"talaria/session/index"
	"talaria/session/index/indextest"
)

// patience bounds every wait of a test; nothing waits that long unless something is wrong.
const patience = 2 * time.Minute

func within(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

// gateway is an index of ours over another one, with one installation admitted.
type gateway struct {
	testing.TB
	ix      *index.Index
	socket  string
	token   string
	release func()
	client  *http.Client
}

func newGateway(t testing.TB, from *indextest.Index, changes ...func(*index.Config)) *gateway {
	t.Helper()
	cfg := index.Config{URL: from.URL(), CacheDir: filepath.Join(t.TempDir(), "cache"), Proxy: noProxy, Timeout: patience}
	for _, change := range changes {
		change(&cfg)
	}
	ix, err := index.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	g := &gateway{TB: t, ix: ix, socket: filepath.Join(t.TempDir(), "index.sock")}
	l, err := net.Listen("unix", g.socket)
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- ix.Serve(l) }()
	g.token, g.release = ix.Admit()
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", g.socket)
	}}
	g.client = &http.Client{Transport: transport}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		ix.Close()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return g
}

func noProxy(*http.Request) (*url.URL, error) { return nil, nil }

// get asks for a path below the token.
func (g *gateway) get(path string, header ...string) (status int, body string, err error) {
	g.Helper()
	return g.fetch("/"+g.token+path, header...)
}

func (g *gateway) fetch(path string, header ...string) (status int, body string, err error) {
	g.Helper()
	r, err := http.NewRequestWithContext(within(g.TB), http.MethodGet, "http://"+index.Name+path, nil)
	if err != nil {
		g.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	resp, err := g.client.Do(r)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	content, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(content), err
}

// want asks for a path that is to be answered so.
func (g *gateway) want(path string, status int, text string, header ...string) (body string) {
	g.Helper()
	got, body, err := g.get(path, header...)
	if err != nil || got != status || !strings.Contains(body, text) {
		g.Errorf("%s: %d %.300q %v, want %d %q", path, got, body, err, status, text)
	}
	return body
}

const asJSON = "application/vnd.pypi.simple.v1+json"

type listedFile struct {
	Filename       string
	URL            string
	Hashes         map[string]string
	Size           int64
	RequiresPython string `json:"requires-python"`
	Yanked         any
	CoreMetadata   any `json:"core-metadata"`
}

// files are those of a project's page.
func (g *gateway) files(project string) []listedFile {
	g.Helper()
	body := g.want("/simple/"+project+"/", 200, "", "Accept", asJSON)
	var page struct{ Files []listedFile }
	if err := json.Unmarshal([]byte(body), &page); err != nil {
		g.Fatalf("the page of %s: %v", project, err)
	}
	return page.Files
}

// file is one whose name ends so.
func (g *gateway) file(project, ending string) listedFile {
	g.Helper()
	files := g.files(project)
	i := slices.IndexFunc(files, func(f listedFile) bool { return strings.HasSuffix(f.Filename, ending) })
	if i < 0 {
		g.Fatalf("%s has no %s: %v", project, ending, files)
	}
	return files[i]
}
