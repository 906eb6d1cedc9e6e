package server

import (
	"encoding/base64"
	"net/http"
	"strings"

	"github.com/gin-gonic/gin"
	"github.com/gorilla/websocket"

	"talaria/api"
)

// The cookies of an owner, and of who came with a share's link.
const (
	cookieName  = "talaria_token"
	shareCookie = "talaria_share"
)

// credential is a token and how it came.
type credential struct {
	token  string
	cookie bool
	given  bool
	share  string // of the share's cookie, which comes beside an owner's or alone
}

// credentials finds the token of a request: an Authorization header decides alone where there is one, then ?token=
// on requests that a browser makes without headers, then the cookie.
func credentials(r *http.Request, query map[string][]string) credential {
	if headers, ok := r.Header["Authorization"]; ok {
		if len(headers) != 1 {
			return credential{given: true}
		}
		scheme, token, _ := strings.Cut(headers[0], " ")
		if !strings.EqualFold(scheme, "Bearer") {
			return credential{given: true}
		}
		return credential{token: strings.TrimSpace(token), given: true}
	}
	if tokens, ok := query["token"]; ok && safeMethod(r.Method) {
		return credential{token: tokens[0], given: true}
	}
	own, share := fromCookie(r, cookieName), fromCookie(r, shareCookie)
	if own == "" && share == "" {
		return credential{}
	}
	return credential{token: own, share: share, cookie: true, given: true}
}

// fromCookie is the token in a cookie, "" for none.
func fromCookie(r *http.Request, name string) string {
	cookie, err := r.Cookie(name)
	if err != nil {
		return ""
	}
	token, err := base64.RawURLEncoding.DecodeString(cookie.Value)
	if err != nil {
		return ""
	}
	return string(token)
}

func safeMethod(method string) bool { return method == http.MethodGet || method == http.MethodHead }

func (s *Server) setCookie(c *gin.Context, name, token string) {
	http.SetCookie(c.Writer, &http.Cookie{
		Name:     name,
		Value:    base64.RawURLEncoding.EncodeToString([]byte(token)),
		Path:     "/",
		HttpOnly: true,
		Secure:   c.Request.TLS != nil,
		SameSite: http.SameSiteStrictMode,
		MaxAge:   30 * 24 * 3600,
	})
}

// authenticate is the gate of every route that is not open: the token, then the Origin of requests that a browser
// could have been tricked into.
func (s *Server) authenticate(c *call) error {
	cred := credentials(c.Request, c.query)
	if !s.identify(c, cred) {
		c.Header("WWW-Authenticate", `Bearer realm="talaria"`)
		if cred.given {
			return api.Errorf(api.CodeUnauthorized, "the token is not valid; talaria token create makes a new one")
		}
		return api.Errorf(api.CodeUnauthorized, "a token is needed: Authorization: Bearer TOKEN")
	}
	upgrade := websocket.IsWebSocketUpgrade(c.Request)
	if upgrade && len(c.Request.Header.Values("Origin")) == 0 {
		return nil // not a browser
	}
	if (upgrade || cred.cookie && !safeMethod(c.Request.Method)) && !s.originAllowed(c.Request) {
		return errOrigin()
	}
	return nil
}

// identify sets who calls: an owner, or a visitor who came with a share's token. Where both cookies are there the
// owner's counts, unless the request is about the session that somebody else shared.
func (s *Server) identify(c *call, cred credential) (ok bool) {
	if cred.token != "" {
		if c.owner, c.first, ok = s.tokens.Owner(c.ctx(), cred.token); !ok && !cred.cookie {
			return s.admit(c, cred.token)
		}
	}
	if cred.share == "" {
		return ok
	}
	visit, shared := s.sessions.Visit(c.ctx(), cred.share)
	if !shared || ok && (visit.Owner == c.owner || !c.about(visit.Session)) {
		return ok
	}
	c.owner, c.first, c.visit = visit.Owner, false, &visit
	return true
}

// admit lets the token of a share in.
func (s *Server) admit(c *call, token string) bool {
	visit, ok := s.sessions.Visit(c.ctx(), token)
	if ok {
		c.owner, c.visit = visit.Owner, &visit
	}
	return ok
}

// operator refuses all but the first owner.
func operator(c *call) error {
	if !c.first {
		return api.Errorf(api.CodeForbidden, "only the first owner's token may see the server's figures")
	}
	return nil
}
