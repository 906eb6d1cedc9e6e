package server

import (
	"net/http"
	"net/url"
	"strings"

	"talaria/api"
	"talaria/server/e2b"
	"talaria/session"
	"talaria/session/access"
)

// e2bFront is how clients of E2B authenticate and are answered.
var e2bFront = &front{
	name: "e2b", prefix: e2b.Prefix,
	open:       func(*http.Request) bool { return false },
	refuse:     e2b.Refuse,
	credential: e2bCredential,
}

func (s *Server) newE2B(key []byte) *e2b.Handler {
	return e2b.New(e2b.Config{
		Sessions: s.sessions, Version: s.version, Log: s.log, Key: key, Stall: s.stall, UntilDrain: s.untilDrain, Problem: s.problem,
	})
}

// e2bCredential finds the token of a sandbox, an owner's token, or the signature of a file's URL. Basic authentication is no
// credential there: it names the user inside the sandbox, of which there is one.
func e2bCredential(r *http.Request, query url.Values) credential {
	for _, name := range []string{"X-Access-Token", "E2b-Traffic-Access-Token", "X-Api-Key"} {
		if token := r.Header.Get(name); token != "" {
			return e2bToken(token)
		}
	}
	if scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " "); strings.EqualFold(scheme, "Bearer") {
		return e2bToken(strings.TrimSpace(token))
	}
	if query.Get("signature") != "" && strings.HasSuffix(r.URL.Path, e2b.SignedFiles) {
		return credential{signed: query.Encode(), given: true}
	}
	return credential{}
}

func e2bToken(token string) credential {
	if strings.HasPrefix(token, e2b.TokenPrefix) {
		return credential{sandbox: token, given: true}
	}
	return credential{token: token, given: true}
}

// enterSandbox lets the token of a sandbox in. It cannot be guessed, so nobody has to wait.
func (s *Server) enterSandbox(c *call, cred credential) (ok bool, err error) {
	access, err := s.e2b.Recognize(cred.sandbox)
	if err != nil {
		return false, err
	}
	c.enter(access)
	return true, nil
}

// enterSigned lets the owner of a signed URL in.
func (s *Server) enterSigned(c *call) (ok bool, err error) {
	access, err := s.e2b.Signed(c.ctx(), c.Request.Method, c.query)
	if err != nil {
		return false, err
	}
	c.enter(access)
	return true, nil
}

// enter makes the caller one that may do everything in one sandbox.
func (c *call) enter(a e2b.Access) {
	c.owner, c.cred = a.Owner, credential{sandbox: a.Token}
	c.visit = &access.Visit{ShareID: "sandbox " + a.Session, Owner: a.Owner, Session: a.Session, Token: a.Token, Rights: api.Rights}
}

func (s *Server) e2bRoutes() []route {
	if s.e2b == nil {
		return nil
	}
	var routes []route
	for _, path := range []string{e2b.Prefix + "/{path}", e2b.SignedFiles} {
		name, methods := "E2B", []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodDelete}
		if path == e2b.SignedFiles {
			name, methods = "SignedFile", methods[:2]
		}
		for _, method := range methods {
			d := doc{id: strings.ToLower(method) + name, summary: "E2B's APIs, for E2B clients", answers: answers{200: jsonOf[struct{}]()}}
			if path == e2b.SignedFiles {
				d.summary = "A file of a sandbox, by the signed URL that a client of E2B made"
			}
			if method == http.MethodPost || method == http.MethodPut {
				d.body = optional(jsonOf[struct{}]())
			}
			routes = append(routes, route{method: method, path: path, handle: s.serveE2B, doc: d, front: e2bFront}.readable())
		}
	}
	return routes
}

// serveE2B answers a request. What its caller may do with a sandbox is checked for each.
func (s *Server) serveE2B(c *call) error {
	s.e2b.ServeHTTP(c.Writer, c.Request, e2b.Caller{
		Owner: c.owner, Session: c.visited(), Permit: c.permit, Attach: func(sess *session.Session) func() { return c.attach(sess) },
		Body: c.wholeBody, Intake: c.intake,
	})
	return nil
}
