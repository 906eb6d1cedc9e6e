package server

import (
	"context"
	"encoding/base64"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/gorilla/websocket"

	"talaria/api"
)

// The cookies of an owner's login, and of a visitor with a share's link.
const (
	loginCookie = "talaria_login"
	shareCookie = "talaria_share"
)

// credential is what a request carries to identify its caller. At most one of token, login, sandbox, signed, assertion and
// pass is set.
type credential struct {
	token string // from a header or the address: an owner's or a share's
	login string // from an owner's cookie
	share string // from a share's cookie, alone or in addition to an owner's
	// sandbox is the token of a single sandbox, of a client of E2B.
	sandbox string
	// signed is the query of a file's URL that was signed with such a token.
	signed string
	// assertion is a token that a LibreChat has signed.
	assertion string
	// pass is a cookie that opens files of Jupyter's front: see filePasses.
	pass  string
	given bool // something was given, even if it is empty
}

// cookie reports whether a browser sent the credential by itself.
func (c credential) cookie() bool { return c.login != "" || c.share != "" }

// credentials finds the token of a request: an Authorization header decides alone if there is one, then ?token= on
// requests that a browser makes without headers, then the cookie.
func credentials(r *http.Request, query map[string][]string) credential {
	return credentialsOf(r, query, nil)
}

// credentialsOf finds the token as clients of a front send it, which is a cookie only where the front has
// a login of its own; nil is our own API.
func credentialsOf(r *http.Request, query map[string][]string, f *front) credential {
	if f != nil && f.credential != nil {
		return f.credential(r, query)
	}
	if headers, ok := r.Header["Authorization"]; ok {
		if len(headers) != 1 {
			return credential{given: true}
		}
		scheme, token, _ := strings.Cut(headers[0], " ")
		if !strings.EqualFold(scheme, "Bearer") && (f == nil || !strings.EqualFold(scheme, f.scheme)) {
			return credential{given: true}
		}
		return credential{token: strings.TrimSpace(token), given: true}
	}
	if tokens, ok := query["token"]; ok && (f != nil || safeMethod(r.Method)) {
		return credential{token: tokens[0], given: true}
	}
	if f != nil && f.cookie != nil {
		return f.cookie(r)
	}
	if f != nil {
		return credential{}
	}
	login, share := fromCookie(r, loginCookie), fromCookie(r, shareCookie)
	return credential{login: login, share: share, given: login != "" || share != ""}
}

// fromCookie returns the value of a cookie, "" for none.
func fromCookie(r *http.Request, name string) string {
	cookie, err := r.Cookie(name)
	if err != nil {
		return ""
	}
	value, err := base64.RawURLEncoding.DecodeString(cookie.Value)
	if err != nil {
		return ""
	}
	return string(value)
}

func safeMethod(method string) bool { return method == http.MethodGet || method == http.MethodHead }

// setCookie keeps a value in the browser for as long as a login lasts; "" removes the cookie.
func (s *Server) setCookie(c *gin.Context, name, value string) {
	age := int(LoginTime / time.Second)
	if value == "" {
		age = -1
	}
	http.SetCookie(c.Writer, &http.Cookie{
		Name:     name,
		Value:    base64.RawURLEncoding.EncodeToString([]byte(value)),
		Path:     "/",
		HttpOnly: true,
		Secure:   s.secureCookies || c.Request.TLS != nil,
		SameSite: http.SameSiteStrictMode,
		MaxAge:   age,
	})
}

// authenticate is the gate of every route that is not open: the token, then the Origin of requests that a browser
// could have been tricked into making.
func (s *Server) authenticate(c *call) error {
	cred := credentialsOf(c.Request, c.query, c.front)
	if ok, err := s.identify(c, cred); err != nil {
		return err
	} else if !ok {
		c.Header("WWW-Authenticate", `Bearer realm="talaria"`)
		if cred.given {
			return api.Errorf(api.CodeUnauthorized, "the token is not valid; create one with talaria token create")
		}
		return api.Errorf(api.CodeUnauthorized, "authentication required: send Authorization: Bearer TOKEN")
	}
	if c.front != nil { // a page cannot be tricked into sending a token that it does not have; cookies need a header beside them
		return nil
	}
	upgrade := websocket.IsWebSocketUpgrade(c.Request)
	if upgrade && len(c.Request.Header.Values("Origin")) == 0 {
		return nil // not a browser
	}
	if (upgrade || cred.cookie() && !safeMethod(c.Request.Method)) && !s.originAllowed(c.Request) {
		return errOrigin()
	}
	return nil
}

// identify sets the caller; ok is false if there is none. Addresses that tried many wrong credentials have to wait
// before they try another.
func (s *Server) identify(c *call, cred credential) (ok bool, err error) {
	if !cred.given {
		return false, nil
	}
	defer func() {
		if ok {
			s.uses.note(c.cred)
		}
	}()
	if cred.sandbox != "" {
		return s.enterSandbox(c, cred)
	}
	if cred.assertion != "" {
		return s.enterAssertion(c, cred)
	}
	if cred.pass != "" {
		return s.recognize(c, credential{token: s.filePasses.token(cred.pass)}), nil
	}
	if cred.token == "" && cred.signed == "" { // the values of cookies cannot be guessed
		return s.recognize(c, cred), nil
	}
	from := addressOf(c.Request.RemoteAddr)
	if cred.signed != "" {
		cred.token = cred.signed // what is guessed
	}
	if wait := s.guesses.wait(from, cred.token); wait > 0 {
		seconds := int(wait/time.Second) + 1
		c.Header("Retry-After", strconv.Itoa(seconds))
		return false, api.Errorf(api.CodeTooManyRequests,
			"too many invalid tokens from your address; try again in %d s", seconds)
	}
	if cred.signed != "" {
		ok, err = s.enterSigned(c)
	} else {
		ok = s.recognize(c, cred)
	}
	s.guesses.saw(from, cred.token, ok)
	return ok, err
}

// recognize finds the owner, or the visitor with a share's token. If both cookies are present, the owner's counts,
// unless the request is about the session that somebody else shared.
func (s *Server) recognize(c *call, cred credential) (ok bool) {
	switch {
	case cred.token != "":
		if c.owner, c.first, ok = s.tokens.Owner(c.ctx(), cred.token); !ok {
			return s.admit(c, cred.token)
		}
		c.cred = credential{token: cred.token}
		return true
	case cred.login != "":
		c.owner, c.first, ok = s.tokens.LoginOwner(c.ctx(), cred.login)
		c.cred = credential{login: cred.login}
	}
	if cred.share == "" {
		return ok
	}
	visit, shared := s.sessions.Visit(c.ctx(), cred.share)
	if !shared || ok && (visit.Owner == c.owner || !c.about(visit.Session)) {
		return ok
	}
	c.owner, c.first, c.visit, c.cred = visit.Owner, false, &visit, credential{share: cred.share}
	return true
}

// admit lets the token of a share in.
func (s *Server) admit(c *call, token string) bool {
	visit, ok := s.sessions.Visit(c.ctx(), token)
	if ok {
		c.owner, c.visit, c.cred = visit.Owner, &visit, credential{share: token}
	}
	return ok
}

// good reports whether a credential is still valid.
func (s *Server) good(ctx context.Context, cred credential) (ok bool) {
	switch {
	case cred.sandbox != "":
		_, err := s.e2b.Recognize(cred.sandbox)
		ok = err == nil
	case cred.assertion != "": // it ends by itself
		ok = true
	case cred.token != "":
		_, _, ok = s.tokens.Owner(ctx, cred.token)
	case cred.login != "":
		_, _, ok = s.tokens.LoginOwner(ctx, cred.login)
	default:
		_, ok = s.sessions.Visit(ctx, cred.share)
	}
	return ok
}

// operator refuses everybody except the first owner.
func operator(c *call) error {
	if !c.first {
		return api.Errorf(api.CodeForbidden, "only the first owner's token may read the server's statistics")
	}
	return nil
}
