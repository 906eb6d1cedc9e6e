package server

import (
	"io"
	"mime"
	"net/http"
	"path"
	"strings"
	"time"
	"unicode/utf8"

	"talaria/api"
)

// sandboxPolicy keeps a download that a browser displays from running or loading anything.
const sandboxPolicy = "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:; frame-ancestors 'none'"

// download is a file being sent. Empty fields are not sent.
type download struct {
	file     io.ReadSeeker
	name     string // for Content-Disposition
	media    string
	attached bool // a browser saves it, also if it could show it
	tag      string
	modified time.Time
	cache    string
}

// send answers with the file, or the part or the "not modified" that the request's headers ask for.
func (d download) send(c *call) {
	media := d.media
	if media == "" {
		media = "application/octet-stream"
	}
	h := c.Writer.Header()
	h.Set("Content-Type", media)
	h.Set("Content-Disposition", disposition(media, d.name, d.attached))
	h.Set("Content-Security-Policy", sandboxPolicy)
	h.Set("ETag", d.tag)
	h.Set("Cache-Control", d.cache)
	w := &downloadWriter{call: c}
	http.ServeContent(w, c.Request, "", d.modified, d.file)
}

// disposition says whether a browser may show a file that is not to be attached, and its name: as ASCII for old clients, and in full.
func disposition(media, name string, attached bool) string {
	kind := "attachment"
	if shown(media) && !attached {
		kind = "inline"
	}
	if name == "" {
		return kind
	}
	name = strings.ToValidUTF8(path.Base(name), string(utf8.RuneError))
	var plain, full strings.Builder
	for _, r := range name {
		if r < ' ' || r > '~' || r == '"' || r == '\\' || r == '%' {
			plain.WriteByte('_')
		} else {
			plain.WriteRune(r)
		}
	}
	const hex = "0123456789ABCDEF"
	for i := range len(name) {
		if b := name[i]; attrChar(b) {
			full.WriteByte(b)
		} else {
			full.Write([]byte{'%', hex[b>>4], hex[b&15]})
		}
	}
	return kind + `; filename="` + plain.String() + `"; filename*=UTF-8''` + full.String()
}

// attrChar reports whether RFC 8187 allows the byte unescaped.
func attrChar(b byte) bool {
	return 'a' <= b && b <= 'z' || 'A' <= b && b <= 'Z' || '0' <= b && b <= '9' || strings.IndexByte("!#$&+-.^_`|~", b) >= 0
}

// shown reports whether a browser may show the type in place: nothing that can contain a script.
func shown(media string) bool {
	name, _, err := mime.ParseMediaType(media)
	if err != nil {
		return false
	}
	switch name {
	case "image/png", "image/jpeg", "image/gif", "image/webp", "image/avif", "image/bmp",
		"text/plain", "text/csv", "text/markdown", "application/json":
		return true
	}
	return strings.HasPrefix(name, "audio/") || strings.HasPrefix(name, "video/")
}

// downloadWriter turns the errors of [http.ServeContent], which are plain text, into problems, and lets the kernel
// copy the file if the connection supports that.
type downloadWriter struct {
	call   *call
	failed bool
}

func (w *downloadWriter) Header() http.Header { return w.call.Writer.Header() }

func (w *downloadWriter) WriteHeader(status int) {
	var problem *api.Error
	switch {
	case status < http.StatusBadRequest:
		w.call.Writer.WriteHeader(status)
		w.call.Writer.WriteHeaderNow()
		return
	case status == http.StatusPreconditionFailed:
		problem = api.Errorf(api.CodePreconditionFailed, "the file has changed since you read it; read it again")
	case status == http.StatusRequestedRangeNotSatisfiable:
		problem = api.Errorf(api.CodeRangeInvalid, "the file has no such range")
	default:
		problem = api.Errorf(api.CodeInternal, "the file could not be read")
	}
	w.failed = true
	h := w.Header()
	for _, name := range []string{"Content-Disposition", "Content-Length", "ETag", "Last-Modified"} {
		h.Del(name)
	}
	w.call.front.refusal()(w.call.Writer, problem)
}

func (w *downloadWriter) Write(p []byte) (int, error) {
	if w.failed {
		return len(p), nil
	}
	return w.call.Writer.Write(p)
}

// ReadFrom implements [io.ReaderFrom].
func (w *downloadWriter) ReadFrom(r io.Reader) (int64, error) {
	if w.failed {
		return io.Copy(io.Discard, r)
	}
	w.call.Writer.WriteHeaderNow()
	var below http.ResponseWriter = w.call.Writer
	if wrapped, ok := below.(interface{ Unwrap() http.ResponseWriter }); ok {
		below = wrapped.Unwrap()
	}
	return io.Copy(below, r)
}
