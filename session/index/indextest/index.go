// Package indextest is a package index for tests: it makes wheels and source distributions of its own and serves them on
// loopback, as PEP 503 or PEP 691 say. It is used by the tests of several packages and knows none of them.
package indextest

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"html"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
)

// File is one file of a project.
type File struct {
	Name    string
	Content []byte
	// SHA256 is what the index says; "" means the digest of Content, and NoHash says nothing.
	SHA256         string
	URL            string // where it lies, if not here
	RequiresPython string
	Yanked         string // the reason; "" is not yanked
	Metadata       []byte // is offered beside the file (PEP 658), if there is any
}

// NoHash is the SHA256 of a file whose hash the index does not say.
const NoHash = "none"

// Index is an index on loopback. It is safe for concurrent use once it serves; its settings are made before.
type Index struct {
	HTML           bool   // else JSON, for those who accept it
	User, Password string // that it asks for, if any
	Mux            *http.ServeMux
	Elsewhere      *Index // another one, where a file of [Standard] lies

	server *httptest.Server

	mu       sync.Mutex
	projects map[string][]File
	asked    map[string]int
	held     map[string]*hold
}

// New is an index without any project, which ends with the test.
func New(t testing.TB) *Index {
	t.Helper()
	ix := &Index{Mux: http.NewServeMux(), projects: map[string][]File{}, asked: map[string]int{}, held: map[string]*hold{}}
	ix.Mux.HandleFunc("GET /simple/{project}/{$}", ix.page)
	ix.Mux.HandleFunc("GET /files/{project}/{file}", ix.file)
	ix.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ix.mu.Lock()
		ix.asked[r.URL.Path]++
		ix.mu.Unlock()
		if user, password, _ := r.BasicAuth(); user != ix.User || password != ix.Password {
			w.Header().Set("WWW-Authenticate", "Basic")
			http.Error(w, "who are you?", http.StatusUnauthorized)
			return
		}
		ix.Mux.ServeHTTP(w, r)
	}))
	t.Cleanup(ix.server.Close)
	return ix
}

// Close ends it before the test does.
func (ix *Index) Close() { ix.server.Close() }

// URL returns the address of the simple index, without a user.
func (ix *Index) URL() string { return ix.server.URL + "/simple/" }

// Host is the index's host and port.
func (ix *Index) Host() string { return strings.TrimPrefix(ix.server.URL, "http://") }

// FileURL is where a file of a project lies.
func (ix *Index) FileURL(project, name string) string {
	return ix.server.URL + "/files/" + project + "/" + url.PathEscape(name)
}

// Add adds files to a project, whose name is normalised.
func (ix *Index) Add(project string, files ...File) {
	ix.mu.Lock()
	defer ix.mu.Unlock()
	ix.projects[project] = append(ix.projects[project], files...)
}

// Asked counts the requests for a path, such as /simple/greet/.
func (ix *Index) Asked(path string) int {
	ix.mu.Lock()
	defer ix.mu.Unlock()
	return ix.asked[path]
}

// Downloads counts the requests for a file.
func (ix *Index) Downloads(name string) (n int) {
	ix.mu.Lock()
	defer ix.mu.Unlock()
	for path, times := range ix.asked {
		if strings.HasPrefix(path, "/files/") && strings.HasSuffix(path, "/"+name) {
			n += times
		}
	}
	return n
}

// Forget resets the counts.
func (ix *Index) Forget() {
	ix.mu.Lock()
	defer ix.mu.Unlock()
	ix.asked = map[string]int{}
}

type hold struct {
	once    sync.Once
	reached chan struct{}
	release chan struct{}
}

// Hold sends the first half of a file and then nothing, until release. reached is closed when somebody has come so far.
func (ix *Index) Hold(name string) (reached <-chan struct{}, release func()) {
	h := &hold{reached: make(chan struct{}), release: make(chan struct{})}
	ix.mu.Lock()
	ix.held[name] = h
	ix.mu.Unlock()
	return h.reached, sync.OnceFunc(func() { close(h.release) })
}

func (ix *Index) filesOf(project string) []File {
	ix.mu.Lock()
	defer ix.mu.Unlock()
	return slices.Clone(ix.projects[project])
}

func (ix *Index) file(w http.ResponseWriter, r *http.Request) {
	for _, f := range ix.filesOf(r.PathValue("project")) {
		content := f.Content
		switch r.PathValue("file") {
		case f.Name:
		case f.Name + ".metadata":
			content = f.Metadata
		default:
			continue
		}
		if content == nil {
			break
		}
		ix.mu.Lock()
		h := ix.held[r.PathValue("file")]
		ix.mu.Unlock()
		w.Header().Set("Content-Length", fmt.Sprint(len(content)))
		if h != nil {
			_, _ = w.Write(content[:len(content)/2])
			w.(http.Flusher).Flush()
			h.once.Do(func() { close(h.reached) })
			select {
			case <-h.release:
			case <-r.Context().Done():
				return
			}
			content = content[len(content)/2:]
		}
		_, _ = w.Write(content)
		return
	}
	http.NotFound(w, r)
}

func sum(content []byte) string {
	digest := sha256.Sum256(content)
	return hex.EncodeToString(digest[:])
}

func (f File) hash() string {
	switch f.SHA256 {
	case "":
		return sum(f.Content)
	case NoHash:
		return ""
	}
	return f.SHA256
}

func (ix *Index) page(w http.ResponseWriter, r *http.Request) {
	project := r.PathValue("project")
	files := ix.filesOf(project)
	if files == nil {
		http.NotFound(w, r)
		return
	}
	const jsonType = "application/vnd.pypi.simple.v1+json"
	if ix.HTML || !strings.Contains(r.Header.Get("Accept"), jsonType) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprintf(w, "<!DOCTYPE html><html><body><h1>Links for %s</h1>\n", project)
		for _, f := range files {
			fmt.Fprintln(w, f.anchor(project)+"<br/>")
		}
		fmt.Fprintln(w, "</body></html>")
		return
	}
	list := []map[string]any{}
	for _, f := range files {
		list = append(list, f.json(project))
	}
	w.Header().Set("Content-Type", jsonType)
	_ = json.NewEncoder(w).Encode(map[string]any{
		"meta": map[string]string{"api-version": "1.1"}, "name": project, "files": list, "versions": []string{},
	})
}

// at is relative, as with many indexes.
func (f File) at(project string) string {
	if f.URL != "" {
		return f.URL
	}
	return "../../files/" + project + "/" + url.PathEscape(f.Name)
}

func (f File) anchor(project string) string {
	href := f.at(project)
	if hash := f.hash(); hash != "" {
		href += "#sha256=" + hash
	}
	a := fmt.Sprintf(`<a href="%s"`, html.EscapeString(href))
	if f.RequiresPython != "" {
		a += fmt.Sprintf(` data-requires-python="%s"`, html.EscapeString(f.RequiresPython))
	}
	if f.Yanked != "" {
		a += fmt.Sprintf(` data-yanked="%s"`, html.EscapeString(f.Yanked))
	}
	if f.Metadata != nil {
		a += fmt.Sprintf(` data-dist-info-metadata="sha256=%s"`, sum(f.Metadata))
	}
	return a + ">" + html.EscapeString(f.Name) + "</a>"
}

func (f File) json(project string) map[string]any {
	hashes := map[string]string{}
	if hash := f.hash(); hash != "" {
		hashes["sha256"] = hash
	}
	out := map[string]any{
		"filename": f.Name, "url": f.at(project), "hashes": hashes, "yanked": false, "size": len(f.Content),
		"requires-python": nil, "core-metadata": false,
	}
	if f.RequiresPython != "" {
		out["requires-python"] = f.RequiresPython
	}
	if f.Yanked != "" {
		out["yanked"] = f.Yanked
	}
	if f.Metadata != nil {
		out["core-metadata"] = map[string]string{"sha256": sum(f.Metadata)}
	}
	return out
}
