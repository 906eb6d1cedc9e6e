package server

import (
	"crypto/rand"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"path"
	"strings"

	"github.com/gin-gonic/gin"

	"talaria/api"
	"talaria/web"
)

// pagePolicy is for the notebook page: its own files only, no script in the text; %s is the nonce of the styles that
// the editor makes. Style attributes are allowed, since browsers make some while text is edited.
const pagePolicy = "default-src 'none'; script-src 'self'; style-src 'self' 'nonce-%s'; style-src-attr 'unsafe-inline'; " +
	"img-src 'self' data: blob:; media-src data:; font-src 'self'; connect-src 'self'; frame-src 'self'; worker-src 'self'; " +
	"form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// workerPolicy is for the page's worker, which loads scripts and reaches nothing else.
const workerPolicy = "default-src 'none'; script-src 'self'; frame-ancestors 'none'"

// page is the embedded notebook page: index.html, login.html, frames, and static files.
type page struct {
	index  []byte
	login  *asset
	frames map[string]*asset
	static map[string]*asset
}

func newPage() (*page, error) {
	p := &page{static: map[string]*asset{}, frames: map[string]*asset{}}
	files := web.FS()
	all := map[string]*asset{}
	err := fs.WalkDir(files, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := fs.ReadFile(files, name)
		if err != nil {
			return err
		}
		if of, compressed := strings.CutSuffix(name, ".br"); compressed { // comes behind the file that it is of
			if all[of] == nil {
				return fmt.Errorf("%s is a copy of nothing; make web builds the page", name)
			}
			all[of].brotli = data
			return nil
		}
		a := newAsset(name, data)
		all[name] = a
		switch {
		case name == "index.html":
			p.index = data
		case name == "login.html":
			a.policy = fmt.Sprintf(pagePolicy, nonce()) // it has no styles of its own: nobody needs to know this one
			p.login = a
		case path.Dir(name) == "sandbox" && path.Ext(name) == ".html":
			frame := strings.TrimSuffix(path.Base(name), ".html")
			if a.policy, err = framePolicy(frame, data); err != nil {
				return err
			}
			p.frames[frame] = a
		case name == "assets/worker.js":
			a.policy = workerPolicy
			p.static[name] = a
		default:
			p.static[name] = a
		}
		return nil
	})
	if err == nil && (p.index == nil || p.login == nil || len(p.frames) != 3) {
		err = fmt.Errorf("index.html, login.html or a frame is missing; make web builds them: %w", fs.ErrNotExist)
	}
	return p, err
}

// nonce is a fresh one for each page that is sent.
func nonce() string { return rand.Text() }

// getPage is GET /: the notebook, or the login form for who has no token. A token in the address becomes a cookie,
// and goes away from the address.
func (s *Server) getPage(c *call) error {
	cred := credentials(c.Request, c.query)
	if !s.identify(c, cred) {
		status := http.StatusOK
		if cred.given && !cred.cookie {
			status = http.StatusUnauthorized
		}
		s.page.login.send(c, status, "no-store")
		return nil
	}
	if c.query.Has("token") {
		rest := url.Values{}
		for key, values := range c.query {
			if key != "token" {
				rest[key] = values
			}
		}
		s.enter(c, cred.token, rest)
		return nil
	}
	s.page.sendIndex(c)
	return nil
}

// sendIndex sends the page with a nonce of its own.
func (p *page) sendIndex(c *call) {
	n := nonce()
	c.Header("Content-Security-Policy", fmt.Sprintf(pagePolicy, n))
	c.Header("Cache-Control", "no-store")
	c.Data(http.StatusOK, "text/html; charset=utf-8",
		[]byte(strings.NewReplacer("%%NONCE%%", n, "%%SHARE%%", c.visited()).Replace(string(p.index))))
}

// enter sets the cookie of a token that is good, and leads to the page: with a share's to the session that it shows.
func (s *Server) enter(c *call, token string, query url.Values) {
	name := cookieName
	if c.visit != nil {
		name = shareCookie
		query.Set("session", c.visit.Session)
	}
	s.setCookie(c.Context, name, token)
	target := url.URL{Path: "/", RawQuery: query.Encode()}
	seeOther(c.Context, target.String())
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
		s.page.login.send(c, http.StatusUnauthorized, "no-store")
		return nil
	}
	s.enter(c, token, url.Values{})
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
	if strings.HasPrefix(c.filePath(), "sandbox/") { // loaded by a frame, which has an origin of its own
		c.Header("Cross-Origin-Resource-Policy", "cross-origin")
	}
	file.send(c, http.StatusOK, "no-cache")
	return nil
}
