package server

import (
	"net/http"
	"strings"
)

// Routes returns every endpoint as the router knows it, such as "GET /v1/sessions/{id}", without HEAD.
func (s *Server) Routes() []string {
	var list []string
	for _, r := range s.engine.Routes() {
		if r.Method == http.MethodHead {
			continue
		}
		segments := strings.Split(r.Path, "/")
		for i, segment := range segments {
			if segment != "" && strings.ContainsRune(":*", rune(segment[0])) {
				segments[i] = "{" + segment[1:] + "}"
			}
		}
		list = append(list, r.Method+" "+strings.Join(segments, "/"))
	}
	return list
}
