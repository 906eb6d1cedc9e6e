package server_test

import (
	"bytes"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net"
	"net/textproto"
	"net/url"
	"strings"
	"testing"

	"talaria/api"
)

func (h *harness) put(path, body string) response {
	h.Helper()
	return h.do(request{method: "PUT", path: "/v1/sessions/s/files/" + path, body: body,
		header: map[string]string{"Content-Type": "application/octet-stream"}})
}

func TestFilesGoUpAndDown(t *testing.T) {
	h := start(t)
	h.session("s")
	first := h.put("data/in%20put.csv", "a,b\n1,2\n")
	h.want(first, 201, "")
	if f := decode[api.File](t, first.body); f.Path != "data/in put.csv" || f.Size != 8 {
		t.Errorf("file %s", first.body)
	}
	h.want(h.put("data/in%20put.csv", "a,b\n3,4\n"), 200, "")
	list := decode[struct{ Items []api.File }](t, h.do(request{method: "GET", path: "/v1/sessions/s/files?path=data"}).body)
	if len(list.Items) != 1 || list.Items[0].Name != "in put.csv" {
		t.Errorf("list %v", list)
	}
	root := decode[struct{ Items []api.File }](t, h.do(request{method: "GET", path: "/v1/sessions/s/files"}).body)
	if len(root.Items) != 1 || root.Items[0].Kind != "directory" {
		t.Errorf("root %v", root)
	}
	get := h.do(request{method: "GET", path: "/v1/sessions/s/files/data/in%20put.csv"})
	h.want(get, 200, "")
	if string(get.body) != "a,b\n3,4\n" {
		t.Errorf("body %q", get.body)
	}
	renamed := h.do(request{method: "PATCH", path: "/v1/sessions/s/files/data%2Fin%20put.csv", body: `{"path":"out.csv"}`})
	h.want(renamed, 200, "")
	h.want(h.do(request{method: "PATCH", path: "/v1/sessions/s/files/out.csv", body: `{}`}), 400, "invalid_request")
	h.want(h.do(request{method: "PATCH", path: "/v1/sessions/s/files/out.csv", body: `{"path":"../x"}`}), 403, "path_outside_workspace")
	h.want(h.do(request{method: "DELETE", path: "/v1/sessions/s/files/out.csv"}), 204, "")
	h.want(h.do(request{method: "DELETE", path: "/v1/sessions/s/files/out.csv"}), 404, "file_not_found")
	h.want(h.do(request{method: "GET", path: "/v1/sessions/s/files/out.csv"}), 404, "file_not_found")
	h.want(h.do(request{method: "GET", path: "/v1/sessions/s/files?path=none"}), 404, "file_not_found")
	h.want(h.do(request{method: "GET", path: "/v1/sessions/s/files?path=.."}), 403, "path_outside_workspace")
}

func TestDownloadHonoursConditionsAndRanges(t *testing.T) {
	h := start(t)
	h.session("s")
	h.put("f.txt", "0123456789")
	get := func(method string, header map[string]string) response {
		return h.do(request{method: method, path: "/v1/sessions/s/files/f.txt", header: header})
	}
	whole := get("GET", nil)
	tag := whole.header.Get("ETag")
	if !strings.HasPrefix(tag, `"`) || whole.header.Get("Accept-Ranges") != "bytes" {
		t.Errorf("header %v", whole.header)
	}
	head := get("HEAD", nil)
	if head.status != 200 || head.header.Get("Content-Length") != "10" || len(head.body) != 0 {
		t.Errorf("HEAD: %d %v", head.status, head.header)
	}
	part := get("GET", map[string]string{"Range": "bytes=2-4"})
	if part.status != 206 || string(part.body) != "234" || part.header.Get("Content-Range") != "bytes 2-4/10" {
		t.Errorf("range: %d %q %v", part.status, part.body, part.header)
	}
	if r := get("GET", map[string]string{"If-None-Match": tag}); r.status != 304 || len(r.body) != 0 {
		t.Errorf("If-None-Match: %d", r.status)
	}
	if r := get("GET", map[string]string{"Range": "bytes=2-4", "If-Range": tag}); r.status != 206 {
		t.Errorf("If-Range: %d", r.status)
	}
	bad := get("GET", map[string]string{"Range": "bytes=50-60"})
	h.want(bad, 416, "range_not_satisfiable")
	if bad.header.Get("Content-Range") != "bytes */10" {
		t.Errorf("Content-Range %q", bad.header.Get("Content-Range"))
	}
	h.want(get("GET", map[string]string{"If-Match": `"other"`}), 412, "precondition_failed")
	h.put("f.txt", "abcdefghij")
	if r := get("GET", map[string]string{"Range": "bytes=2-4", "If-Range": tag}); r.status != 200 || string(r.body) != "abcdefghij" {
		t.Errorf("If-Range of an old file: %d %q", r.status, r.body)
	}
	if r := get("GET", map[string]string{"If-None-Match": tag}); r.status != 200 {
		t.Errorf("If-None-Match of an old file: %d", r.status)
	}
}

func TestDownloadCannotHarmTheBrowser(t *testing.T) {
	h := start(t)
	h.session("s")
	for name, want := range map[string]string{
		"page.html":          "attachment",
		"picture.svg":        "attachment",
		"data.xml":           "attachment",
		"script.js":          "attachment",
		"unknown.bin":        "attachment",
		"chart.png":          "inline",
		"text.txt":           "inline",
		"é\"x\\y\n;.txt":     "inline",
		"100% \u202egnp.txt": "inline",
	} {
		h.want(h.put(url.PathEscape(name), "<script>alert(1)</script>"), 201, "")
		r := h.do(request{method: "GET", path: "/v1/sessions/s/files/" + url.PathEscape(name)})
		h.want(r, 200, "")
		header := r.header.Get("Content-Disposition")
		kind, params, err := mime.ParseMediaType(header)
		if err != nil || kind != want || params["filename"] != name {
			t.Errorf("%q: Content-Disposition %q: %s %q %v", name, header, kind, params["filename"], err)
		}
		if strings.ContainsAny(header, "\r\n") || strings.ContainsFunc(header, func(r rune) bool { return r > '~' }) {
			t.Errorf("%q: header %q", name, header)
		}
		if csp := r.header.Get("Content-Security-Policy"); !strings.Contains(csp, "sandbox") {
			t.Errorf("%q: Content-Security-Policy %q", name, csp)
		}
		if r.header.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%q may be sniffed", name)
		}
	}
}

func TestUploadHasNoLimitOfItsOwn(t *testing.T) {
	h := start(t)
	h.session("s")
	r := h.put("big", strings.Repeat("x", api.MaxBody+1))
	h.want(r, 201, "")
}

func TestBrokenUploadLeavesTheOldFile(t *testing.T) {
	h := start(t)
	h.session("s")
	h.put("f", "old")
	conn, err := net.Dial("tcp", strings.TrimPrefix(h.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "PUT /v1/sessions/s/files/f HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Length: 100\r\n\r\nnew", firstToken)
	if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	answer, err := io.ReadAll(conn) // the server has noticed
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(string(answer), "HTTP/1.1 400") {
		t.Errorf("answer %q", answer)
	}
	if r := h.do(request{method: "GET", path: "/v1/sessions/s/files/f"}); string(r.body) != "old" {
		t.Errorf("the file is %q", r.body)
	}
	list := h.do(request{method: "GET", path: "/v1/sessions/s/files"})
	if items := decode[struct{ Items []api.File }](t, list.body).Items; len(items) != 1 {
		t.Errorf("left over: %s", list.body)
	}
}

func TestFormUploadsSeveralFiles(t *testing.T) {
	h := start(t)
	h.session("s")
	form := func(names ...string) response {
		var body bytes.Buffer
		w := multipart.NewWriter(&body)
		for _, name := range names {
			header := textproto.MIMEHeader{}
			header.Set("Content-Disposition", mime.FormatMediaType("form-data", map[string]string{"name": "files", "filename": name}))
			part, err := w.CreatePart(header)
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprint(part, "content of "+name)
		}
		w.Close()
		return h.do(request{method: "POST", path: "/v1/sessions/s/files", body: body.String(),
			header: map[string]string{"Content-Type": w.FormDataContentType()}})
	}
	r := form("a.txt", "deep/er/b.txt")
	h.want(r, 201, "")
	if items := decode[struct{ Items []api.File }](t, r.body).Items; len(items) != 2 || items[1].Path != "deep/er/b.txt" {
		t.Errorf("items %s", r.body)
	}
	got := h.do(request{method: "GET", path: "/v1/sessions/s/files/deep/er/b.txt"})
	if string(got.body) != "content of deep/er/b.txt" {
		t.Errorf("file %q", got.body)
	}
	h.want(form("../x"), 403, "path_outside_workspace")
	h.want(form(), 400, "invalid_request")
	h.want(h.do(request{method: "POST", path: "/v1/sessions/s/files", body: `{}`}), 415, "unsupported_media_type")
}

func TestNotebookGoesOutAndIn(t *testing.T) {
	h := start(t)
	h.session("s")
	r := h.do(request{method: "GET", path: "/v1/sessions/s/notebook"})
	h.want(r, 200, "")
	if !strings.Contains(r.header.Get("Content-Disposition"), ".ipynb") {
		t.Errorf("header %v", r.header)
	}
	for _, kind := range []string{"application/json", "application/x-ipynb+json"} {
		h.want(h.do(request{method: "POST", path: "/v1/sessions/s/notebook", body: string(r.body),
			header: map[string]string{"Content-Type": kind}}), 200, "")
	}
	h.want(h.do(request{method: "POST", path: "/v1/sessions/s/notebook", body: "x",
		header: map[string]string{"Content-Type": "text/plain"}}), 415, "unsupported_media_type")
}
