package server

import (
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"net/http"

	"github.com/gorilla/websocket"

	"talaria/api"
	"talaria/server/jupyter"
)

// jupyterLogin is where clients log in that have a password in place of a token, as Jupyter Server has it: a GET sets a cookie, whose
// value comes back in the form and later in a header, so that no page of another site can send either.
const jupyterLogin = jupyter.Prefix + "/login"

const (
	jupyterCookieName = "talaria_jupyter" // holds the token
	xsrfCookie        = "_xsrf"
	xsrfHeader        = "X-Xsrftoken"
)

// jupyterCookie finds the token of a login, or a pass for files. What changes something, and a WebSocket, needs the header beside
// the login's cookie.
func jupyterCookie(r *http.Request) credential {
	token := fromCookie(r, jupyterCookieName)
	switch {
	case token == "":
		if pass := fromCookie(r, filePassCookie); pass != "" && opensFiles(r) {
			return credential{pass: pass, given: true}
		}
		return credential{}
	case (!safeMethod(r.Method) || websocket.IsWebSocketUpgrade(r)) && !sameXSRF(r, r.Header.Get(xsrfHeader)):
		return credential{given: true}
	}
	return credential{token: token, given: true}
}

// sameXSRF reports whether a value is that of the cookie.
func sameXSRF(r *http.Request, value string) bool {
	cookie, err := r.Cookie(xsrfCookie)
	return err == nil && value != "" && subtle.ConstantTimeCompare([]byte(cookie.Value), []byte(value)) == 1
}

// loginJupyter is GET and POST of jupyterLogin. The password is a token.
func (s *Server) loginJupyter(c *call) error {
	c.Header("Cache-Control", "no-store")
	if c.Request.Method == http.MethodGet {
		value := rand.Text()
		if cookie, err := c.Request.Cookie(xsrfCookie); err == nil && cookie.Value != "" {
			value = cookie.Value // other requests of the client may be under way with it
		}
		s.setJupyterCookie(c, xsrfCookie, value)
		c.String(http.StatusOK, "POST to this address with the form fields _xsrf, which is the cookie's value, and password, which is a Talaria token.\n")
		return nil
	}
	c.Request.Body = http.MaxBytesReader(c.Writer, c.Request.Body, 64<<10)
	form := c.Request.PostFormValue
	if !sameXSRF(c.Request, form(xsrfCookie)) {
		return api.Errorf(api.CodeForbidden, "the field _xsrf does not match the cookie _xsrf; GET this address to set the cookie")
	}
	password := form("password")
	ok, err := s.identify(c, credential{token: password, given: true})
	if err != nil {
		return err
	}
	if !ok {
		jupyter.RefusePassword(c.Writer)
		return nil
	}
	s.setJupyterCookie(c, jupyterCookieName, base64.RawURLEncoding.EncodeToString([]byte(password)))
	c.Header("Location", jupyter.Prefix+"/api")
	c.Status(http.StatusFound)
	return nil
}

// setJupyterCookie sets a cookie for as long as the client runs. A page cannot read it.
func (s *Server) setJupyterCookie(c *call, name, value string) {
	http.SetCookie(c.Writer, &http.Cookie{
		Name: name, Value: value, Path: "/", HttpOnly: true, Secure: s.secureCookies || c.Request.TLS != nil, SameSite: http.SameSiteStrictMode,
	})
}
