package server

import (
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/gin-gonic/gin"
)

// confirmation asks before a link signs the browser in as somebody: whoever made the link would see everything done
// there.
var confirmation = template.Must(template.New("confirmation").Parse(`<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>Sign in to Talaria</title>
<h1>Sign in as {{.Owner}}?</h1>
<p>A link sent you here with a token for this owner. Whatever you do next belongs to {{.Owner}}.
Continue only if you trust the link.</p>
<form method="post" action="{{.Action}}">
<input type="hidden" name="token" value="{{.Token}}">
<button>Sign in as {{.Owner}}</button>
</form>
<p><a href="/">Cancel</a></p>
`))

// fromPage reports whether a page sent the browser here. It may be our own: notebooks show links of anybody.
func fromPage(r *http.Request) bool {
	site := r.Header.Get("Sec-Fetch-Site")
	return site != "" && site != "none"
}

// opensTab reports whether the answer will be the document of a tab, not a picture or another part of a page.
func opensTab(r *http.Request) bool {
	destination := r.Header.Get("Sec-Fetch-Dest")
	return destination == "" || destination == "document"
}

// confirm shows the form that signs in with the token of the address.
func (s *Server) confirm(c *call) error {
	var page strings.Builder
	err := confirmation.Execute(&page, struct{ Owner, Token, Action string }{
		c.owner, c.cred.token, (&url.URL{Path: "/login", RawQuery: c.restOfQuery().Encode()}).String()})
	if err != nil {
		return fmt.Errorf("show the confirmation: %w", err)
	}
	c.Header("Content-Security-Policy", "default-src 'none'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'")
	c.Header("Cache-Control", "no-store")
	c.Data(http.StatusOK, "text/html; charset=utf-8", []byte(page.String()))
	return nil
}

// restOfQuery returns the query without the token.
func (c *call) restOfQuery() url.Values {
	rest := url.Values{}
	for key, values := range c.query {
		if key != "token" {
			rest[key] = values
		}
	}
	return rest
}

// enter sets the cookie of a valid token, and redirects to the page: for a share's token, to the session that it
// shows.
func (s *Server) enter(c *call) error {
	query := c.restOfQuery()
	if c.visit != nil {
		query.Set("session", c.visit.Session)
		s.setCookie(c.Context, shareCookie, c.visit.Token)
	} else if err := s.logIn(c); err != nil {
		return err
	}
	seeOther(c.Context, (&url.URL{Path: "/", RawQuery: query.Encode()}).String())
	return nil
}

func (s *Server) logIn(c *call) error {
	login, err := s.tokens.Login(c.command(), c.cred.token, time.Now().Add(LoginTime))
	if err != nil {
		return fmt.Errorf("log in: %w", err)
	}
	s.setCookie(c.Context, loginCookie, login)
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
	if ok, err := s.identify(c, credential{token: token, given: true}); err != nil {
		return err
	} else if !ok {
		s.page.login.send(c, http.StatusUnauthorized, "no-store")
		return nil
	}
	return s.enter(c)
}

// logout ends the login of the browser, with its sockets and streams, and forgets its share.
func (s *Server) logout(c *call) error {
	if !s.sameSite(c.Request) {
		return errOrigin()
	}
	if login := fromCookie(c.Request, loginCookie); login != "" {
		if err := s.tokens.Logout(c.command(), login); err != nil {
			return fmt.Errorf("log out: %w", err)
		}
		s.recheck(c.command())
	}
	s.setCookie(c.Context, loginCookie, "")
	s.setCookie(c.Context, shareCookie, "")
	seeOther(c.Context, "/")
	return nil
}

// sameSite reports whether the form can be ours. A browser sends "Origin: null" for it, since our pages send no
// referrer; Sec-Fetch-Site then says where the form was.
func (s *Server) sameSite(r *http.Request) bool {
	if site := r.Header.Get("Sec-Fetch-Site"); site != "" {
		return site == "same-origin" || site == "none"
	}
	origin := r.Header.Get("Origin")
	return origin == "" || origin == "null" || s.originAllowed(r)
}
