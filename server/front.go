package server

import (
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"

	"talaria/api"
)

// front is how clients of another protocol authenticate and are answered.
type front struct {
	name   string                     // in the configuration
	prefix string                     // of its paths
	scheme string                     // what they write for Bearer; they may also send ?token= with every method
	open   func(r *http.Request) bool // whether a request needs no token
	refuse func(http.ResponseWriter, *api.Error)
	// credential finds what a request carries to identify its caller; nil: a token as our own API takes it, with scheme.
	credential func(*http.Request, url.Values) credential
	// cookie finds it in the cookies of a login that the front has; nil: cookies are not looked at.
	cookie func(*http.Request) credential
}

// allFronts lists the fronts that this program has; each is served only where its configuration says so.
var allFronts = []*front{jupyterFront, e2bFront, librechatFront, execdFront, engineFront}

// ServeFront is [Server.Serve] for the front of that name alone, for clients that need the root of a host: its paths are
// served without its prefix as well as with it, and no others are. Serve must run too.
func (s *Server) ServeFront(name string, listener net.Listener) error {
	web := s.frontWebs[name]
	if web == nil {
		return fmt.Errorf("the front %q is not served", name)
	}
	return web.Serve(door{listener, s.lobby})
}

// refusal returns what answers with an error; nil is our own API.
func (f *front) refusal() func(http.ResponseWriter, *api.Error) {
	if f == nil {
		return writeProblem
	}
	return f.refuse
}

// atRoot returns a handler that serves the front's paths with and without its prefix.
func (f *front) atRoot(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !beneath(r.URL.Path, f.prefix) {
			// Both forms change together, or EscapedPath takes the raw one for invalid and encodes the other.
			r = r.Clone(r.Context())
			r.URL.Path = f.prefix + "/" + strings.TrimPrefix(r.URL.Path, "/")
			if r.URL.RawPath != "" {
				r.URL.RawPath = f.prefix + "/" + strings.TrimPrefix(r.URL.RawPath, "/")
			}
		}
		handler.ServeHTTP(w, r)
	})
}

// frontOf returns the front that a path belongs to, or nil.
func frontOf(path string) *front {
	for _, f := range allFronts {
		if beneath(path, f.prefix) {
			return f
		}
	}
	return nil
}

// beneath reports whether a path is prefix or lies below it.
func beneath(path, prefix string) bool {
	rest, ok := strings.CutPrefix(path, prefix)
	return ok && (rest == "" || rest[0] == '/')
}
