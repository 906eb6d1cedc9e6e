package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"talaria/api"
)

// jupyterFile is a file or folder as Jupyter's contents API shows it.
type jupyterFile struct {
	Name, Path, Type string
	Size             *int64
	Format, MIMEType *string
	Hash             string
	Content          json.RawMessage
}

func TestJupyterContentsAreTheWorkspacesOfKernels(t *testing.T) {
	t.Parallel()
	s := start(t, options{})
	id := s.kernel(t)
	const root = "/jupyter/api/contents"
	at := root + "/" + id
	file := func(method, path, body string, status int) jupyterFile {
		t.Helper()
		a := s.want(t, call{method: method, path: path, body: body}, status, "")
		return decode[jupyterFile](t, string(a.body))
	}
	names := func(f jupyterFile) (list []string) {
		for _, one := range decode[[]jupyterFile](t, string(f.Content)) {
			list = append(list, one.Type+" "+one.Path)
		}
		return list
	}
	wantWords(t, names(file("GET", root, "", http.StatusOK)), "directory "+id)

	const notebook = `{"cells":[],"metadata":{},"nbformat":4,"nbformat_minor":5}`
	made := file("PUT", at+"/a%20b/x.ipynb", `{"type":"notebook","format":"json","content":`+notebook+`}`, http.StatusCreated)
	if made.Path != id+"/a b/x.ipynb" || made.Type != "notebook" || string(made.Content) != "null" {
		t.Errorf("saved: %+v", made)
	}
	file("PUT", at+"/a%20b/x.ipynb", `{"type":"notebook","format":"json","content":`+notebook+`}`, http.StatusOK)
	if opened := file("GET", at+"/a%20b/x.ipynb?type=notebook", "", http.StatusOK); !strings.Contains(string(opened.Content), `"nbformat":`) || *opened.Format != "json" {
		t.Errorf("opened: %+v", opened)
	}
	run(t, s.Client(), id, `open("t.txt", "w").write("héllo"); open("b.bin", "wb").write(bytes([255, 0])); import os; os.symlink("/etc", "link")`)
	wantWords(t, names(file("GET", at, "", http.StatusOK)), "directory "+id+"/a b", "file "+id+"/b.bin", "file "+id+"/t.txt")
	if text := file("GET", at+"/t.txt?hash=1", "", http.StatusOK); string(text.Content) != `"héllo"` || *text.Format != "text" ||
		text.Hash != "3c48591d8d098a4538f5e013dfcf406e948eac4d3277b10bf614e295d6068179" {
		t.Errorf("a text: %+v", text)
	}
	if bits := file("GET", at+"/b.bin", "", http.StatusOK); string(bits.Content) != `"/wA="` || *bits.Format != "base64" {
		t.Errorf("bytes: %+v", bits)
	}
	if bare := file("GET", at+"/t.txt?content=0", "", http.StatusOK); string(bare.Content) != "null" || bare.Format != nil || *bare.Size != 6 {
		t.Errorf("without content: %+v", bare)
	}
	for path, status := range map[string]int{
		"/b.bin?format=text": 400, "/t.txt?type=directory": 400, "/a%20b?type=file": 400, "/nothing": 404, "/link/passwd": 403, "/t.txt?type=notebook": 400,
	} {
		s.want(t, call{method: "GET", path: at + path}, status, "")
	}
	s.want(t, call{method: "GET", path: root + "/nobody/x"}, http.StatusNotFound, "")
	s.want(t, call{method: "GET", path: at, token: s.owner(t, "other")}, http.StatusNotFound, "")
	s.want(t, call{method: "GET", path: at, token: "-"}, http.StatusForbidden, "")

	t.Run("new files, copies and parts", func(t *testing.T) {
		for _, want := range []string{"Untitled.ipynb", "Untitled1.ipynb"} {
			if f := file("POST", at, `{"type":"notebook"}`, http.StatusCreated); f.Name != want {
				t.Errorf("it is named %s, want %s", f.Name, want)
			}
		}
		if f := file("POST", at, `{"type":"file","ext":".md"}`, http.StatusCreated); f.Name != "untitled.md" {
			t.Errorf("it is named %s", f.Name)
		}
		if f := file("POST", at+"/a%20b", `{"copy_from":"`+id+`/t.txt"}`, http.StatusCreated); f.Path != id+"/a b/t.txt" {
			t.Errorf("the copy is %s", f.Path)
		}
		if f := file("POST", at, `{"copy_from":"`+id+`/t.txt"}`, http.StatusCreated); f.Name != "t-Copy1.txt" {
			t.Errorf("the copy is %s", f.Name)
		}
		file("PUT", at+"/parts", `{"type":"file","format":"base64","content":"YWI=","chunk":1}`, http.StatusCreated)
		file("PUT", at+"/parts", `{"type":"file","format":"base64","content":"Y2Q=","chunk":-1}`, http.StatusOK)
		if f := file("GET", at+"/parts", "", http.StatusOK); string(f.Content) != `"abcd"` {
			t.Errorf("of two parts: %s", f.Content)
		}
		file("PUT", at+"/new", `{"type":"directory"}`, http.StatusCreated)
		s.want(t, call{method: "PUT", path: at + "/bad.ipynb", body: `{"type":"notebook","content":"no"}`}, http.StatusBadRequest, "")
	})
	t.Run("a checkpoint goes with its file, and back", func(t *testing.T) {
		path := at + "/t.txt"
		made := decode[struct{ ID string }](t, string(s.want(t, call{method: "POST", path: path + "/checkpoints"}, http.StatusCreated, "").body))
		file("PUT", path, `{"type":"file","format":"text","content":"other"}`, http.StatusOK)
		file("PATCH", path, `{"path":"`+id+`/u.txt"}`, http.StatusOK)
		s.want(t, call{method: "GET", path: path}, http.StatusNotFound, "")
		path = at + "/u.txt"
		s.want(t, call{method: "POST", path: path + "/checkpoints/" + made.ID}, http.StatusNoContent, "")
		if f := file("GET", path, "", http.StatusOK); string(f.Content) != `"héllo"` {
			t.Errorf("restored: %s", f.Content)
		}
		s.want(t, call{method: "DELETE", path: path + "/checkpoints/" + made.ID}, http.StatusNoContent, "")
		if a := s.want(t, call{method: "GET", path: path + "/checkpoints"}, http.StatusOK, ""); string(a.body) != "[]" {
			t.Errorf("the checkpoints are %s", a.body)
		}
		s.want(t, call{method: "DELETE", path: path}, http.StatusNoContent, "")
		s.want(t, call{method: "DELETE", path: at}, http.StatusForbidden, "")
		s.want(t, call{method: "PUT", path: root + "/x.txt", body: `{"type":"file","content":""}`}, http.StatusNotFound, "")
	})
	t.Run("a folder may be named checkpoints", func(t *testing.T) {
		folder := at + "/run/checkpoints"
		file("PUT", at+"/run", `{"type":"directory"}`, http.StatusCreated)
		file("PUT", folder, `{"type":"directory"}`, http.StatusCreated)
		file("PUT", folder+"/checkpoint", `{"type":"file","format":"text","content":"weights"}`, http.StatusCreated)
		if f := file("GET", folder+"/checkpoint", "", http.StatusOK); string(f.Content) != `"weights"` {
			t.Errorf("the file contains %s", f.Content)
		}
		if f := file("GET", folder, "", http.StatusOK); f.Type != "directory" {
			t.Errorf("the folder is a %s", f.Type)
		}
		s.want(t, call{method: "DELETE", path: folder + "/checkpoint"}, http.StatusNoContent, "")
		s.want(t, call{method: "DELETE", path: folder}, http.StatusNoContent, "")
	})
	t.Run("a notebook runs in the session whose workspace it lies in", func(t *testing.T) {
		body := `{"path":"` + id + `/a b/x.ipynb","type":"notebook","kernel":{"name":"python3"}}`
		a := s.want(t, call{method: "POST", path: "/jupyter/api/sessions", body: body}, http.StatusCreated, "")
		made := decode[struct {
			ID     string
			Kernel jupyterKernel
		}](t, string(a.body))
		if made.Kernel.ID != id {
			t.Errorf("its kernel is %s, not %s", made.Kernel.ID, id)
		}
		s.want(t, call{method: "DELETE", path: "/jupyter/api/sessions/" + made.ID}, http.StatusNoContent, "")
		if e := run(t, s.Client(), id, `print(open("a b/x.ipynb").read()[:1], "os" in globals())`); e.Text != "{ False\n" {
			t.Errorf("after the notebook's kernel was shut down: %q", e.Text)
		}
	})
	t.Run("notebooks in one workspace share its kernel", func(t *testing.T) {
		type model struct {
			ID, Path string
			Kernel   jupyterKernel
		}
		body := func(n int) string {
			return fmt.Sprintf(`{"path":"%s/n%d.ipynb","type":"notebook","kernel":{"name":"python3"}}`, id, n)
		}
		var wait sync.WaitGroup
		made := make([]model, 8)
		for n := range made {
			wait.Go(func() {
				a := s.do(t, call{method: "POST", path: "/jupyter/api/sessions", body: body(n)})
				if err := json.Unmarshal(a.body, &made[n]); err != nil || a.status != http.StatusCreated || made[n].Kernel.ID != id {
					t.Errorf("notebook %d: %d %s", n, a.status, a.body)
				}
			})
		}
		wait.Wait()
		again := decode[model](t, string(s.want(t, call{method: "POST", path: "/jupyter/api/sessions", body: body(3)}, http.StatusCreated, "").body))
		if again.ID != made[3].ID {
			t.Errorf("opened again it is %+v, it was %+v", again, made[3])
		}
		s.want(t, call{method: "DELETE", path: "/jupyter/api/sessions/" + made[3].ID}, http.StatusNoContent, "")
		s.want(t, call{method: "PATCH", path: "/jupyter/api/sessions/" + made[5].ID, body: `{"path":"` + id + `/renamed.ipynb"}`}, http.StatusOK, "")
		var paths []string
		for _, n := range decode[[]model](t, string(s.want(t, call{method: "GET", path: "/jupyter/api/sessions"}, http.StatusOK, "").body)) {
			paths = append(paths, strings.TrimPrefix(n.Path, id+"/"))
		}
		slices.Sort(paths)
		wantWords(t, paths, "n0.ipynb", "n1.ipynb", "n2.ipynb", "n4.ipynb", "n6.ipynb", "n7.ipynb", "renamed.ipynb")
	})
	t.Run("a new file in the root has a session of its own", func(t *testing.T) {
		made := file("POST", root, `{"type":"notebook"}`, http.StatusCreated)
		kernel, name, _ := strings.Cut(made.Path, "/")
		if name != "Untitled.ipynb" || made.Type != "notebook" || kernel == id {
			t.Errorf("a notebook: %+v", made)
		}
		wantWords(t, names(file("GET", root+"/"+kernel, "", http.StatusOK)), "notebook "+made.Path)
		folder := file("POST", root, `{"type":"directory"}`, http.StatusCreated)
		if folder.Path != folder.Name || folder.Type != "directory" {
			t.Errorf("a folder: %+v", folder)
		}
		s.want(t, call{method: "POST", path: root, body: `{"type":"nothing"}`}, http.StatusBadRequest, "")
		s.want(t, call{method: "POST", path: root, body: `{"copy_from":"` + id + `/b.bin"}`}, http.StatusForbidden, "")
		wantWords(t, names(file("GET", root, "", http.StatusOK)), "directory "+folder.Path, "directory "+kernel, "directory "+id)
	})
	t.Run("the token of one session sees its workspace as the root", func(t *testing.T) {
		made, err := s.Client().CreateToken(within(t), id, api.SessionTokenRequest{Rights: []api.Right{api.RightRun}})
		if err != nil {
			t.Fatal(err)
		}
		s.want(t, call{method: "GET", path: root + "/b.bin", token: made.Token}, http.StatusOK, "")
		s.want(t, call{method: "PUT", path: root + "/b.bin", token: made.Token, body: `{"type":"file","content":""}`}, http.StatusForbidden, "")
	})
}
