package e2e

import (
	"bytes"
	"fmt"
	"io"
	"mime/multipart"
	"net"
	"net/url"
	"strings"
	"testing"

	"talaria/api"
)

func TestFilesOverREST(t *testing.T) {
	t.Parallel()
	s := start(t, options{})
	c := s.Client()
	id := session(t, c, api.SessionRequest{})
	files := "/v1/sessions/" + id + "/files"
	runOK(t, c, id, `import os
os.symlink("/etc/passwd", "to-file"); os.symlink("/etc", "to-folder"); os.symlink("nowhere", "dangling")
os.mkfifo("pipe"); os.mkdir("folder"); os.symlink("../inside.txt", "folder/to-inside"); open("inside.txt", "w").write("inside")
os.symlink("folder", "to-own-folder"); open("folder/page.html", "w").write("<script>1</script>")
import stat; os.mknod("sock", stat.S_IFSOCK | 0o600)`)

	for _, p := range []string{"../x", "%2e%2e/x", "%2E%2E%2Fx", "..%2fx", "folder/../../x", "folder%2F..%2F..%2Fx", "%2Fetc/passwd",
		"/etc/passwd", "a%00b", "to-file", "to-folder/passwd", "to-own-folder/page.html", "folder/to-inside", "dangling", "dangling/x",
		"folder/..", "."} {
		for _, c := range []call{{method: "GET"}, {method: "PUT", body: "x", kind: "text/plain"}, {method: "PATCH", body: `{"path":"y"}`}} {
			c.path = files + "/" + p
			a := s.do(t, c)
			link := c.method == "PATCH" && (p == "to-file" || p == "dangling" || p == "folder/to-inside")
			if a.status != 403 && !link {
				t.Errorf("%s %s: %d %.200s", c.method, p, a.status, a.body)
			} else if !link {
				checkProblem(t, c.method+" "+p, a, 403, api.CodePathOutside)
			}
			if link && a.status == 200 { // a link may be renamed like any name; back again
				s.want(t, call{method: "PATCH", path: files + "/y", body: `{"path":"` + p + `"}`}, 200, "")
			}
		}
	}
	if a := s.do(t, call{method: "GET", path: files + "/folder/"}); a.status == 200 {
		t.Errorf("a trailing slash is taken: %s", a.body)
	}
	s.want(t, call{method: "GET", path: files + "?path=to-folder"}, 403, api.CodePathOutside)
	s.want(t, call{method: "GET", path: files + "?path=.."}, 403, api.CodePathOutside)
	s.want(t, call{method: "GET", path: files + "?path=/etc"}, 403, api.CodePathOutside)
	s.want(t, call{method: "GET", path: files + "/pipe"}, 409, api.CodeNotAFile)
	s.want(t, call{method: "GET", path: files + "/sock"}, 409, api.CodeNotAFile)
	s.want(t, call{method: "GET", path: files + "/nothing"}, 404, api.CodeFileNotFound)
	s.want(t, call{method: "DELETE", path: files + "/nothing"}, 404, api.CodeFileNotFound)
	for _, link := range []string{"to-file", "to-folder", "dangling", "to-own-folder", "folder/to-inside", "pipe", "sock"} {
		s.want(t, call{method: "DELETE", path: files + "/" + link}, 204, "")
	}
	if got := runOK(t, c, id, "print(sorted(os.listdir('.')), os.listdir('folder'), os.path.exists('/etc/passwd'))"); got != "['folder', 'inside.txt'] ['page.html'] True\n" {
		t.Errorf("the workspace has %s", got)
	}

	// Upload, replace, download in parts.
	s.want(t, call{method: "PUT", path: files + "/deep/er/a.txt", body: "0123456789", kind: "text/plain"}, 201, "")
	s.want(t, call{method: "PUT", path: files + "/deep/er/a.txt", body: "abcdefghij", kind: "text/plain"}, 200, "")
	a := s.want(t, call{method: "GET", path: files + "/deep/er/a.txt"}, 200, "")
	tag := a.header.Get("ETag")
	if string(a.body) != "abcdefghij" || tag == "" || a.header.Get("X-Content-Type-Options") != "nosniff" {
		t.Errorf("downloaded %q with %v", a.body, a.header)
	}
	with := func(k, v string) call {
		return call{method: "GET", path: files + "/deep/er/a.txt", header: map[string]string{k: v}}
	}
	s.want(t, with("If-None-Match", tag), 304, "")
	if a := s.want(t, with("Range", "bytes=2-4"), 206, ""); string(a.body) != "cde" || a.header.Get("Content-Range") != "bytes 2-4/10" {
		t.Errorf("a range: %q %v", a.body, a.header)
	}
	if a := s.want(t, with("Range", "bytes=-3"), 206, ""); string(a.body) != "hij" {
		t.Errorf("the last bytes: %q", a.body)
	}
	s.want(t, with("Range", "bytes=10-"), 416, api.CodeRangeInvalid)
	s.want(t, call{method: "PUT", path: files + "/deep/er/a.txt", body: "changed", kind: "text/plain"}, 200, "")
	if a := s.want(t, with("If-None-Match", tag), 200, ""); string(a.body) != "changed" || a.header.Get("ETag") == tag {
		t.Errorf("after a change: %q", a.body)
	}
	s.want(t, call{method: "PATCH", path: files + "/deep/er/a.txt", body: `{"path":"moved/b.txt"}`}, 200, "")
	s.want(t, call{method: "PATCH", path: files + "/moved/b.txt", body: `{"path":"../b.txt"}`}, 403, api.CodePathOutside)
	s.want(t, call{method: "GET", path: files + "/moved/b.txt"}, 200, "")

	for _, name := range []string{`quo"te.txt`, "semi;colon, comma.txt", "Ünïcode 名.txt", "100%.txt", "back\\slash", "new\nline", "a b"} {
		path := files + "/" + url.PathEscape(name)
		s.want(t, call{method: "PUT", path: path, body: "x", kind: "text/plain"}, 201, "")
		a := s.want(t, call{method: "GET", path: path}, 200, "")
		if d := a.header.Get("Content-Disposition"); d == "" || strings.ContainsAny(d, "\r\n") {
			t.Errorf("%q: Content-Disposition %q", name, d)
		}
		s.want(t, call{method: "DELETE", path: path}, 204, "")
	}
	if a := s.want(t, call{method: "GET", path: files + "/folder/page.html"}, 200, ""); !strings.HasPrefix(a.header.Get("Content-Disposition"), "attachment") {
		t.Errorf("HTML is shown: %v", a.header)
	}

	var form bytes.Buffer
	w := multipart.NewWriter(&form)
	for _, name := range []string{"one.txt", "sub/two.txt"} {
		part, _ := w.CreateFormFile("files", name) // a buffer accepts it
		_, _ = io.WriteString(part, "of "+name)
	}
	_ = w.Close()
	s.want(t, call{method: "POST", path: files, body: form.String(), kind: w.FormDataContentType()}, 201, "")
	if got := runOK(t, c, id, "print(open('one.txt').read())"); got != "of one.txt\n" {
		t.Errorf("uploaded by form: %q", got)
	}
	a = s.want(t, call{method: "GET", path: files}, 200, "")
	list := decode[api.Page[api.File]](t, string(a.body))
	for i := 1; i < len(list.Items); i++ {
		if list.Items[i-1].Name >= list.Items[i].Name {
			t.Errorf("the list is not by name: %s", a.body)
		}
	}
}

func TestABrokenUploadLeavesTheOldFile(t *testing.T) {
	t.Parallel()
	s := start(t, options{})
	c := s.Client()
	id := session(t, c, api.SessionRequest{})
	if _, _, err := c.PutFile(within(t), id, "f", strings.NewReader("old")); err != nil {
		t.Fatal(err)
	}
	conn, err := (&net.Dialer{}).DialContext(within(t), "tcp", strings.TrimPrefix(s.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(conn, "PUT /v1/sessions/%s/files/f HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Length: 1000000\r\n\r\nnew", id, s.Token)
	if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	_, _ = io.ReadAll(conn) // until the server has given up
	conn.Close()
	a := s.want(t, call{method: "GET", path: "/v1/sessions/" + id + "/files/f"}, 200, "")
	if string(a.body) != "old" {
		t.Errorf("after a broken upload the file has %q", a.body)
	}
	if list, err := c.Files(within(t), id, ""); err != nil || len(list) != 1 {
		t.Errorf("after a broken upload there are %+v (%v)", list, err)
	}
}

func TestArtifactsAreForThoseWhoseSessionsReferToThem(t *testing.T) {
	t.Parallel()
	s := start(t, options{})
	c := s.Client()
	id := session(t, c, api.SessionRequest{})
	other := s.owner(t, "other")
	e := run(t, c, id, "open('a.svg', 'w').write('<svg/>'); open('b.txt', 'w').write('text')")
	if len(e.Artifacts) != 2 {
		t.Fatalf("artifacts %+v", e.Artifacts)
	}
	for _, made := range e.Artifacts {
		a := s.want(t, call{method: "GET", path: made.URL}, 200, "")
		if a.header.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s: %v", made.Path, a.header)
		}
		attached := strings.HasPrefix(a.header.Get("Content-Disposition"), "attachment")
		if made.Path == "a.svg" && !attached {
			t.Errorf("SVG is shown: %v", a.header)
		}
		s.want(t, call{method: "GET", path: made.URL, header: map[string]string{"Range": "bytes=0-1"}}, 206, "")
		s.want(t, call{method: "GET", path: made.URL, token: other}, 404, api.CodeArtifactNotFound)
	}
	a := s.want(t, call{method: "GET", path: "/v1/sessions/" + id + "/artifacts?limit=1"}, 200, "")
	page := decode[api.Page[api.SessionArtifact]](t, string(a.body))
	if len(page.Items) != 1 || page.Items[0].ExecutionID != e.ID || page.NextCursor == "" {
		t.Errorf("the list is %s", a.body)
	}
	s.want(t, call{method: "DELETE", path: "/v1/sessions/" + id}, 204, "")
	for _, made := range e.Artifacts {
		s.want(t, call{method: "GET", path: made.URL}, 404, api.CodeArtifactNotFound)
	}
}
