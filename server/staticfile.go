package server

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"mime"
	"net/http"
	"path"
	"strconv"
	"strings"
	"sync"
)

// asset is one file of the page. It is safe for concurrent use, and must not be copied once it was sent compressed.
type asset struct {
	data   []byte
	media  string
	tag    string // without quotes
	policy string // Content-Security-Policy; "" if it is not a document

	brotli []byte        // data compressed when the page was built; nil if there is none
	packed func() []byte // data, gzipped once; nil if that gains nothing
}

func newAsset(name string, data []byte) *asset {
	sum := sha256.Sum256(data)
	a := &asset{data: data, media: mediaOf(name), tag: hex.EncodeToString(sum[:16])}
	if path.Ext(name) != ".woff2" && len(data) > 1<<10 {
		a.packed = sync.OnceValue(func() []byte {
			var out bytes.Buffer
			w, _ := gzip.NewWriterLevel(&out, gzip.BestCompression) // the level is valid
			_, _ = w.Write(data)                                    // to memory
			_ = w.Close()
			return out.Bytes()
		})
	}
	return a
}

// mediaOf is fixed for the page's own files: the host's tables must not decide whether the page works.
func mediaOf(name string) string {
	switch path.Ext(name) {
	case ".html":
		return "text/html; charset=utf-8"
	case ".js":
		return "text/javascript; charset=utf-8"
	case ".css":
		return "text/css; charset=utf-8"
	case ".svg":
		return "image/svg+xml"
	case ".woff2":
		return "font/woff2"
	case ".txt", ".md":
		return "text/plain; charset=utf-8"
	}
	return mime.TypeByExtension(path.Ext(name))
}

func (a *asset) send(c *call, status int, cache string) {
	header := c.Writer.Header()
	policy := a.policy
	if policy == "" {
		policy = "default-src 'none'; sandbox; frame-ancestors 'none'"
	}
	header.Set("Content-Security-Policy", policy)
	header.Set("Cache-Control", cache)
	body, tag := a.data, a.tag
	if a.packed != nil {
		header.Set("Vary", "Accept-Encoding")
		switch {
		case a.brotli != nil && takes(c.Request, "br"):
			body, tag = a.brotli, tag+"-br"
			header.Set("Content-Encoding", "br")
		case takes(c.Request, "gzip"):
			body, tag = a.packed(), tag+"-gz"
			header.Set("Content-Encoding", "gzip")
		}
	}
	if status == http.StatusOK && cache != "no-store" {
		quoted := `"` + tag + `"`
		header.Set("ETag", quoted)
		if c.GetHeader("If-None-Match") == quoted {
			header.Del("Content-Encoding")
			c.Status(http.StatusNotModified)
			return
		}
	}
	c.Data(status, a.media, body)
}

// takes reports whether a client accepts a content coding (RFC 9110, section 12.5.3). A "*" for all others does not
// count: a client that wants a coding names it.
func takes(r *http.Request, wanted string) bool {
	for coding := range strings.SplitSeq(strings.Join(r.Header.Values("Accept-Encoding"), ","), ",") {
		name, weight, given := strings.Cut(strings.TrimSpace(coding), ";")
		if !strings.EqualFold(strings.TrimSpace(name), wanted) {
			continue
		}
		q, err := strconv.ParseFloat(strings.TrimPrefix(strings.ReplaceAll(strings.ToLower(weight), " ", ""), "q="), 64)
		return !given || err == nil && q > 0
	}
	return false
}
