package server

import (
	"encoding/base64"
	"net/http"
	"strings"

	"github.com/gin-gonic/gin"
	"github.com/gorilla/websocket"

	"talaria/api"
)

const cookieName = "talaria_token"

// credential is a token and how it came.
type credential struct {
	token  string
	cookie bool
	given  bool
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
	if cookie, err := r.Cookie(cookieName); err == nil {
		if token, err := base64.RawURLEncoding.DecodeString(cookie.Value); err == nil {
			return credential{token: string(token), cookie: true, given: true}
		}
	}
	return credential{}
}

func safeMethod(method string) bool { return method == http.MethodGet || method == http.MethodHead }

func (s *Server) setCookie(c *gin.Context, token string) {
	http.SetCookie(c.Writer, &http.Cookie{
		Name:     cookieName,
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

// identify sets who calls.
func (s *Server) identify(c *call, cred credential) (ok bool) {
	if cred.token == "" {
		return false
	}
	c.owner, c.first, ok = s.tokens.Owner(c.ctx(), cred.token)
	return ok
}

// operator refuses all but the first owner.
func operator(c *call) error {
	if !c.first {
		return api.Errorf(api.CodeForbidden, "only the first owner's token may see the server's figures")
	}
	return nil
}
