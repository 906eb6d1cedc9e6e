package server

import (
	"net/http"
	"net/url"
	"strings"

	"talaria/server/execd"
	"talaria/session"
)

// execdFront is how clients of OpenSandbox's execd authenticate and are answered.
var execdFront = &front{
	name: "execd", prefix: execd.Prefix,
	open:       execd.Open,
	refuse:     execd.Refuse,
	credential: execdCredential,
}

// execdCredential finds a token in execd's own header, in the one of OpenSandbox's proxy, or as our own API takes it.
func execdCredential(r *http.Request, _ url.Values) credential {
	for _, name := range []string{"X-Execd-Access-Token", "Open-Sandbox-Api-Key"} {
		if token := r.Header.Get(name); token != "" {
			return credential{token: token, given: true}
		}
	}
	if scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " "); scheme != "" {
		if !strings.EqualFold(scheme, "Bearer") {
			return credential{given: true}
		}
		return credential{token: strings.TrimSpace(token), given: true}
	}
	return credential{}
}

func (s *Server) execdRoutes() []route {
	if s.execd == nil {
		return nil
	}
	var routes []route
	for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodDelete} {
		d := doc{
			id: strings.ToLower(method) + "Execd", summary: "The API of OpenSandbox's execd, for execd clients",
			answers: answers{200: jsonOf[struct{}]()},
		}
		if method == http.MethodPost {
			d.body = optional(jsonOf[struct{}]())
		}
		routes = append(routes, route{method: method, path: execd.Prefix + "/{path}", handle: s.serveExecd, doc: d, front: execdFront})
	}
	return routes
}

func (s *Server) serveExecd(c *call) error {
	s.execd.ServeHTTP(c.Writer, c.Request, execd.Caller{
		Owner: c.owner, Attach: func(sess *session.Session) func() { return c.attach(sess) }, Body: c.wholeBody,
	})
	return nil
}
