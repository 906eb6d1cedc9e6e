package server

import (
	"crypto/rand"
	"fmt"
	"io/fs"
	"net/http"
	"path"
	"strings"

	"talaria/api"
	"talaria/web"
)

// pagePolicy is for the notebook page: only its own files, no script in the text; %s is the nonce of the styles that
// the editor generates. Style attributes are allowed, since browsers create some while text is edited.
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
		if of, compressed := strings.CutSuffix(name, ".br"); compressed { // it comes after the file that it was made from
			if all[of] == nil {
				return fmt.Errorf("%s is a copy of a missing file; make web builds the page", name)
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
			a.policy = fmt.Sprintf(pagePolicy, nonce()) // it has no styles of its own: nobody needs to know this nonce
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

// nonce returns a fresh nonce for each page that is sent.
func nonce() string { return rand.Text() }

// getPage is GET /: the notebook, or the login form for callers without a token. A token in the address becomes a
// login, and is removed from the address.
func (s *Server) getPage(c *call) error {
	cred := credentials(c.Request, c.query)
	if ok, err := s.identify(c, cred); err != nil {
		return err
	} else if !ok {
		status := http.StatusOK
		if cred.given && !cred.cookie() {
			status = http.StatusUnauthorized
		}
		s.page.login.send(c, status, "no-store")
		return nil
	}
	if !c.query.Has("token") {
		s.page.sendIndex(c)
		return nil
	}
	if !opensTab(c.Request) {
		return api.Errorf(api.CodeForbidden, "a token in the address signs in only when it is opened as a page; open the address in a tab")
	}
	if c.visit == nil && fromPage(c.Request) {
		return s.confirm(c)
	}
	return s.enter(c)
}

// sendIndex sends the page with its own nonce.
func (p *page) sendIndex(c *call) {
	n := nonce()
	c.Header("Content-Security-Policy", fmt.Sprintf(pagePolicy, n))
	c.Header("Cache-Control", "no-store")
	c.Data(http.StatusOK, "text/html; charset=utf-8",
		[]byte(strings.NewReplacer("%%NONCE%%", n, "%%SHARE%%", c.visited()).Replace(string(p.index))))
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
