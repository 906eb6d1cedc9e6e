package server

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"mime"
	"net/http"
	"net/url"
	"path"

	"github.com/gin-gonic/gin"

	"talaria/api"
	"talaria/web"
)

// pagePolicy is for the notebook page: its own files only, no script in the text. Styles may stand in the text since
// the script-free frames that show HTML of cells inherit it.
const pagePolicy = "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; " +
	"img-src 'self' data: blob:; font-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; " +
	"frame-ancestors 'none'"

// asset is one file of the page.
type asset struct {
	data  []byte
	media string
	tag   string
}

// page is the embedded notebook page: index.html, login.html, and static files.
type page struct {
	index  asset
	login  asset
	static map[string]asset
}

func newPage() (*page, error) {
	p := &page{static: map[string]asset{}}
	files := web.FS()
	err := fs.WalkDir(files, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := fs.ReadFile(files, name)
		if err != nil {
			return err
		}
		sum := sha256.Sum256(data)
		a := asset{data: data, media: mediaOf(name), tag: `"` + hex.EncodeToString(sum[:16]) + `"`}
		switch name {
		case "index.html":
			p.index = a
		case "login.html":
			p.login = a
		default:
			p.static[name] = a
		}
		return nil
	})
	if err == nil && (p.index.data == nil || p.login.data == nil) {
		err = fmt.Errorf("index.html or login.html is missing: %w", fs.ErrNotExist)
	}
	return p, err
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
	}
	return mime.TypeByExtension(path.Ext(name))
}

func (a asset) send(c *gin.Context, status int, cache string) {
	c.Header("Content-Security-Policy", pagePolicy)
	c.Header("Cache-Control", cache)
	if status == http.StatusOK && cache != "no-store" {
		c.Header("ETag", a.tag)
		if c.GetHeader("If-None-Match") == a.tag {
			c.Status(http.StatusNotModified)
			return
		}
	}
	c.Data(status, a.media, a.data)
}

// getPage is GET /: the notebook, or the login form for who has no token. A token in the address becomes a cookie,
// and goes away from the address.
func (s *Server) getPage(c *call) error {
	cred := credentials(c.Request, c.query)
	if !s.identify(c, cred) {
		status := http.StatusOK
		if cred.given && !cred.cookie {
			status = http.StatusUnauthorized
		}
		s.page.login.send(c.Context, status, "no-store")
		return nil
	}
	if c.query.Has("token") {
		s.setCookie(c.Context, cred.token)
		rest := url.Values{}
		for key, values := range c.query {
			if key != "token" {
				rest[key] = values
			}
		}
		target := url.URL{Path: "/", RawQuery: rest.Encode()}
		seeOther(c.Context, target.String())
		return nil
	}
	s.page.index.send(c.Context, http.StatusOK, "no-store")
	return nil
}

func seeOther(c *gin.Context, target string) {
	c.Header("Cache-Control", "no-store")
	c.Header("Location", target)
	c.Status(http.StatusSeeOther)
}

// login takes the token of the login form.
func (s *Server) login(c *call) error {
	if !s.sameSite(c.Request) {
		return errOrigin()
	}
	c.Request.Body = http.MaxBytesReader(c.Writer, c.Request.Body, 64<<10)
	token := c.Request.PostFormValue("token")
	if !s.identify(c, credential{token: token}) {
		s.page.login.send(c.Context, http.StatusUnauthorized, "no-store")
		return nil
	}
	s.setCookie(c.Context, token)
	seeOther(c.Context, "/")
	return nil
}

// sameSite reports whether the form can be ours. A browser sends "Origin: null" for it, since our pages send no
// referrer; it then says in Sec-Fetch-Site where the form was.
func (s *Server) sameSite(r *http.Request) bool {
	if site := r.Header.Get("Sec-Fetch-Site"); site != "" {
		return site == "same-origin" || site == "none"
	}
	origin := r.Header.Get("Origin")
	return origin == "" || origin == "null" || s.originAllowed(r)
}

func (s *Server) getStatic(c *call) error {
	file, ok := s.page.static[c.filePath()]
	if !ok {
		return api.Errorf(api.CodeNotFound, "there is nothing at this path")
	}
	file.send(c.Context, http.StatusOK, "no-cache")
	return nil
}
