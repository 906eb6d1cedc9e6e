package server

import (
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/gin-gonic/gin"

	"talaria/api"
)

const (
	corsMethods = "GET, HEAD, POST, PUT, PATCH, DELETE"
	corsHeaders = "Authorization, Content-Type, Accept, Last-Event-ID, Range, If-Match, If-None-Match, If-Range, " +
		"Mcp-Session-Id, Mcp-Protocol-Version, Mcp-Method, Mcp-Name"
	corsExposed = "Location, ETag, Content-Disposition, Content-Range, Accept-Ranges, Mcp-Session-Id"
)

func parseOrigins(list []string) (map[string]bool, error) {
	origins := map[string]bool{}
	for _, text := range list {
		origin, err := parseOrigin(text)
		if err != nil {
			return nil, err
		}
		origins[origin] = true
	}
	return origins, nil
}

// CheckOrigin reports an error if text is not an origin that Config.Origins may have.
func CheckOrigin(text string) error {
	_, err := parseOrigin(text)
	return err
}

func parseOrigin(text string) (string, error) {
	u, err := url.Parse(strings.TrimSuffix(text, "/"))
	if err != nil || u.Scheme == "" || u.Hostname() == "" || u.Path != "" || u.RawQuery != "" || u.Fragment != "" || u.User != nil ||
		strings.Contains(u.Host, "*") || !validPort(u) {
		return "", fmt.Errorf("origin %q is not of the form https://host or https://host:port", text)
	}
	return canonicalOrigin(u), nil
}

func validPort(u *url.URL) bool {
	if u.Port() == "" {
		return !strings.HasSuffix(u.Host, ":")
	}
	port, err := strconv.ParseUint(u.Port(), 10, 16)
	return err == nil && port > 0
}

// canonicalOrigin is the origin as browsers send it: lower case, without the scheme's own port.
func canonicalOrigin(u *url.URL) string {
	scheme, host := strings.ToLower(u.Scheme), strings.ToLower(u.Host)
	switch scheme {
	case "http":
		host = strings.TrimSuffix(host, ":80")
	case "https":
		host = strings.TrimSuffix(host, ":443")
	}
	return scheme + "://" + host
}

func (s *Server) configured(origin string) bool {
	u, err := url.Parse(origin)
	return err == nil && u.Host != "" && s.origins[canonicalOrigin(u)]
}

// originAllowed reports whether the Origin of r is the server's own or configured. A missing one is not.
func (s *Server) originAllowed(r *http.Request) bool {
	values := r.Header.Values("Origin")
	if len(values) != 1 {
		return false
	}
	u, err := url.Parse(values[0])
	if err != nil || u.Host == "" {
		return false
	}
	own := url.URL{Scheme: "http", Host: r.Host}
	if r.TLS != nil {
		own.Scheme = "https"
	}
	origin := canonicalOrigin(u)
	return origin == canonicalOrigin(&own) || s.origins[origin]
}

func errOrigin() *api.Error {
	return api.Errorf(api.CodeOriginNotAllowed,
		"the request's Origin is neither the server's own nor listed in origins; an operator can add it there")
}

// cors lets pages of configured origins use /v1, /mcp and the fronts, and answers their preflight requests, which carry no token. Pages of
// any origin may import the client libraries, which are public and the same for everybody.
func (s *Server) cors(c *gin.Context) {
	r, h := c.Request, c.Writer.Header()
	if strings.HasPrefix(r.URL.Path, "/sdk/") {
		h.Set("Access-Control-Allow-Origin", "*")
		return
	}
	if !beneath(r.URL.Path, "/v1") && r.URL.Path != mcpPath && frontOf(r.URL.Path) == nil {
		return
	}
	h.Add("Vary", "Origin")
	origin := r.Header.Get("Origin")
	allowed := origin != "" && s.configured(origin)
	if allowed {
		h.Set("Access-Control-Allow-Origin", origin)
		h.Set("Access-Control-Allow-Credentials", "true")
		h.Set("Access-Control-Expose-Headers", corsExposed)
	}
	if r.Method != http.MethodOptions || r.Header.Get("Access-Control-Request-Method") == "" {
		return
	}
	if !allowed {
		s.fail(c, errOrigin())
	} else {
		h.Set("Access-Control-Allow-Methods", corsMethods)
		h.Set("Access-Control-Allow-Headers", corsHeaders)
		h.Set("Access-Control-Max-Age", "600")
		c.Status(http.StatusNoContent)
		c.Writer.WriteHeaderNow()
	}
	c.Abort()
}

// securityHeaders are on every answer; pages and downloads set a Content-Security-Policy of their own.
func securityHeaders(c *gin.Context) {
	h := c.Writer.Header()
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	if strings.HasPrefix(c.Request.URL.Path, "/v1") {
		h.Set("Cache-Control", "no-store")
	}
}
