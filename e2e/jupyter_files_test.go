package e2e

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"talaria/api"
)

// wantRefusal checks that an answer is an error as a Jupyter Server gives it, and has nothing of a file.
func wantRefusal(t *testing.T, a answer, status int) {
	t.Helper()
	var problem struct{ Message string }
	if a.status != status || json.Unmarshal(a.body, &problem) != nil || problem.Message == "" || strings.Contains(string(a.body), "secret") ||
		a.header.Get("Content-Disposition") != "" {
		t.Errorf("%d %.200s %v, want a refusal with %d", a.status, a.body, a.header, status)
	}
}

func TestJupyterFilesAreThoseOfTheWorkspace(t *testing.T) {
	t.Parallel()
	s := start(t, options{})
	id, other := s.kernel(t), s.kernel(t)
	const root = "/jupyter/files/"
	at := root + id + "/"
	hostile := `<script>fetch('/v1/sessions')</script>`
	run(t, s.Client(), other, `open("t.txt", "w").write("secret of another kernel")`)
	run(t, s.Client(), id, `
import os
os.mkdir("a b")
open("a b/t.txt", "w").write("0123456789")
open("p.png", "wb").write(b"\x89PNG\r\n\x1a\n")
for name in ("x.html", "x.svg", "x.pdf", "x.ipynb"): open(name, "w").write("""`+hostile+`""")
os.symlink("/etc/passwd", "link"); os.symlink("..", "up"); os.symlink("a b", "inner"); os.mkfifo("pipe")`)

	get := func(path string, header map[string]string, status int) answer {
		t.Helper()
		return s.want(t, call{method: "GET", path: path, header: header}, status, "")
	}
	text := get(at+"a%20b/t.txt", nil, http.StatusOK)
	if kind := text.header.Get("Content-Disposition"); string(text.body) != "0123456789" || !strings.HasPrefix(kind, `inline; filename="t.txt"`) {
		t.Errorf("a text: %q, %s", text.body, kind)
	}
	if kind := get(at+"a%20b/t.txt?download=1", nil, http.StatusOK).header.Get("Content-Disposition"); !strings.HasPrefix(kind, `attachment; filename="t.txt"`) {
		t.Errorf("a download: %s", kind)
	}
	if part := get(at+"a%20b/t.txt", map[string]string{"Range": "bytes=2-4"}, http.StatusPartialContent); string(part.body) != "234" {
		t.Errorf("a part: %q", part.body)
	}
	get(at+"a%20b/t.txt", map[string]string{"If-None-Match": text.header.Get("ETag")}, http.StatusNotModified)
	wantRefusal(t, get(at+"a%20b/t.txt", map[string]string{"Range": "bytes=20-"}, 416), 416)
	if head := s.want(t, call{method: "HEAD", path: at + "a%20b/t.txt"}, http.StatusOK, ""); head.header.Get("Content-Length") != "10" || len(head.body) > 0 {
		t.Errorf("its head: %q %v", head.body, head.header)
	}

	t.Run("a page in the workspace cannot act as JupyterLab's", func(t *testing.T) {
		for name, kind := range map[string]string{
			"p.png": "inline image/png", "x.html": "attachment text/html; charset=utf-8", "x.svg": "attachment image/svg+xml",
			"x.pdf": "attachment application/pdf", "x.ipynb": "attachment application/x-ipynb+json",
		} {
			header := get(at+name, nil, http.StatusOK).header
			shown, _, _ := strings.Cut(header.Get("Content-Disposition"), ";")
			policy := header.Get("Content-Security-Policy")
			if got := shown + " " + header.Get("Content-Type"); got != kind || header.Get("X-Content-Type-Options") != "nosniff" ||
				!strings.HasPrefix(policy, "sandbox; default-src 'none'") || strings.Contains(policy, "allow-") {
				t.Errorf("%s is %s: %v", name, got, header)
			}
		}
	})
	t.Run("what is not a file of the workspace is refused", func(t *testing.T) {
		for path, status := range map[string]int{
			root: 409, root + id: 409, at + "a%20b": 409, at + "pipe": 409, at + "none": 404, root + "nobody/t.txt": 404,
			at + "link": 403, at + "up/" + other + "/t.txt": 403, at + "inner/t.txt": 403,
			at + "../" + other + "/t.txt": 403, at + "%2e%2e/" + other + "/t.txt": 403, at + "a%20b//t.txt": 403,
			at + "..%2f" + other + "%2ft.txt": 403, at + "%2fetc%2fpasswd": 403,
		} {
			wantRefusal(t, get(path, nil, status), status)
		}
		s.want(t, call{method: "PUT", path: at + "t.txt", body: "x"}, http.StatusNotFound, "")
	})
	t.Run("others have no part in it", func(t *testing.T) {
		path := at + "a%20b/t.txt"
		wantRefusal(t, s.do(t, call{method: "GET", path: path, token: s.owner(t, "other")}), http.StatusNotFound)
		for _, token := range []string{"-", "wrong"} {
			wantRefusal(t, s.do(t, call{method: "GET", path: path, token: token}), http.StatusForbidden)
		}
	})
	t.Run("a page that lists files gets a cookie that opens them, and nothing else", func(t *testing.T) {
		made, err := s.Client().CreateToken(within(t), id, api.SessionTokenRequest{Rights: api.Rights})
		if err != nil {
			t.Fatal(err)
		}
		cookie := func(token string) map[string]string {
			t.Helper()
			set := s.want(t, call{method: "GET", path: "/jupyter/api/contents", token: token}, http.StatusOK, "").header.Get("Set-Cookie")
			value, attributes, _ := strings.Cut(set, ";")
			if !strings.Contains(attributes, "HttpOnly") || !strings.Contains(attributes, "SameSite=Strict") || strings.Contains(set, token) {
				t.Fatalf("the cookie is %q", set)
			}
			again := s.want(t, call{method: "GET", path: "/jupyter/api/contents", token: token, header: map[string]string{"Cookie": value}}, http.StatusOK, "")
			if again.header.Get("Set-Cookie") != "" {
				t.Errorf("it is set again: %s", again.header["Set-Cookie"])
			}
			return map[string]string{"Cookie": value}
		}
		owner, visitor, stranger := cookie(s.Token), cookie(made.Token), cookie(s.owner(t, "stranger"))
		for _, one := range []call{
			{method: "GET", path: at + "a%20b/t.txt", header: owner}, {method: "HEAD", path: at + "a%20b/t.txt", header: owner},
			{method: "GET", path: root + "a%20b/t.txt", header: visitor},
		} {
			one.token = "-"
			s.want(t, one, http.StatusOK, "")
		}
		for _, one := range []call{
			{method: "GET", path: at + "a%20b/t.txt", header: stranger}, {method: "GET", path: at + "a%20b/t.txt", header: visitor},
			{method: "GET", path: root + other + "/t.txt", header: visitor},
		} {
			one.token = "-"
			wantRefusal(t, s.do(t, one), http.StatusNotFound)
		}
		for _, path := range []string{"/jupyter/api/contents/" + id, "/jupyter/api/kernels", "/jupyter/api/me", "/jupyter/filesx"} {
			wantRefusal(t, s.do(t, call{method: "GET", path: path, token: "-", header: owner}), http.StatusForbidden)
		}
		for _, method := range []string{"POST", "PUT", "PATCH", "DELETE"} {
			wantRefusal(t, s.do(t, call{method: method, path: at + "a%20b/t.txt", token: "-", header: owner}), http.StatusForbidden)
		}
		s.want(t, call{method: "GET", path: "/v1/sessions", token: "-", header: owner}, http.StatusUnauthorized, api.CodeUnauthorized)
		wantRefusal(t, s.do(t, call{method: "GET", path: at + "a%20b/t.txt", token: "-", header: map[string]string{"Cookie": "talaria_jupyter_files=AAAA"}}), http.StatusForbidden)
		s.want(t, call{method: "DELETE", path: "/v1/sessions/" + id + "/tokens/" + made.ID}, http.StatusNoContent, "")
		wantRefusal(t, s.do(t, call{method: "GET", path: root + "a%20b/t.txt", token: "-", header: visitor}), http.StatusForbidden)
	})
	t.Run("the token of a session reaches its files only", func(t *testing.T) {
		made, err := s.Client().CreateToken(within(t), id, api.SessionTokenRequest{})
		if err != nil {
			t.Fatal(err)
		}
		if a := s.want(t, call{method: "GET", path: root + "a%20b/t.txt", token: made.Token}, http.StatusOK, ""); string(a.body) != "0123456789" {
			t.Errorf("its file: %q", a.body)
		}
		for _, path := range []string{other + "/t.txt", "..%2f" + other + "%2ft.txt", "up/" + other + "/t.txt", "t.txt"} {
			a := s.do(t, call{method: "GET", path: root + path, token: made.Token})
			wantRefusal(t, a, a.status)
			if a.status != http.StatusNotFound && a.status != http.StatusForbidden {
				t.Errorf("%s: %d", path, a.status)
			}
		}
	})
}
