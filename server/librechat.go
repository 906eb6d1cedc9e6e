package server

import (
	"net/http"
	"net/url"
	"strings"
	"time"

	"talaria/server/librechat"
)

// librechatFront is how LibreChat authenticates and is answered.
var librechatFront = &front{
	name: "librechat", prefix: librechat.Prefix,
	open:       librechat.Open,
	refuse:     librechat.Refuse,
	credential: librechatCredential,
}

// librechatCredential finds a Talaria token in the header of older clients, a token that LibreChat has signed, or a Talaria token in
// the path, for those that send no header.
func librechatCredential(r *http.Request, _ url.Values) credential {
	if token := r.Header.Get("X-Api-Key"); token != "" {
		return credential{token: token, given: true}
	}
	if scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " "); scheme != "" {
		token = strings.TrimSpace(token)
		switch {
		case !strings.EqualFold(scheme, "Bearer"):
			return credential{given: true}
		case librechat.IsJWT(token):
			return credential{assertion: token, given: true}
		}
		return credential{token: token, given: true}
	}
	if token, _ := librechat.Split(r.URL.Path); token != "" {
		return credential{token: token, given: true}
	}
	return credential{}
}

// enterAssertion lets the user in whom a token of LibreChat names. It cannot be guessed, so nobody has to wait.
func (s *Server) enterAssertion(c *call, cred credential) (ok bool, err error) {
	c.owner, c.shared, err = librechat.Verify(cred.assertion, s.librechatKeys, time.Now())
	c.cred = cred
	return err == nil, err
}

func (s *Server) librechatRoutes() []route {
	if s.librechat == nil {
		return nil
	}
	var routes []route
	for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodDelete} {
		d := doc{
			id: strings.ToLower(method) + "LibreChat", summary: "LibreChat's code interpreter API, for LibreChat",
			answers: answers{200: jsonOf[struct{}]()},
		}
		if method == http.MethodPost {
			d.body = optional(jsonOf[struct{}]())
		}
		routes = append(routes, route{method: method, path: librechat.Prefix + "/{path}", handle: s.serveLibreChat, doc: d, front: librechatFront})
	}
	return routes
}

func (s *Server) serveLibreChat(c *call) error {
	shared := c.shared
	if shared == "" {
		shared = c.owner
	}
	s.librechat.ServeHTTP(c.Writer, c.Request, librechat.Caller{
		Owner: c.owner, Shared: shared, Body: c.wholeBody,
	})
	return nil
}
