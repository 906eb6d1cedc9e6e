package server

import (
	"net"
	"net/http"
	"net/url"

	"talaria/api"
	"talaria/server/mcp"
	"talaria/session/toolspec"
)

const mcpPath = "/mcp"

// newMCP returns the handler of /mcp, or nil where it is switched off.
func (s *Server) newMCP(tools string) *mcp.Handler {
	if tools == mcp.ToolsOff {
		return nil
	}
	return mcp.New(mcp.Config{
		Sessions: s.sessions, Version: s.version, Log: s.log, Tools: tools,
		ExecuteCode: s.describeExecuteCode(toolspec.BuiltinTools(), s.sessions.DefaultLimits(), api.NetworkNone),
		UntilDrain:  s.untilDrain, Problem: s.problem,
	})
}

func (s *Server) mcpRoutes() []route {
	if s.mcp == nil {
		return nil
	}
	rpc := jsonOf[struct{}]()
	return []route{
		post(mcpPath, s.serveMCP, doc{
			id: "postMCP", summary: "A message of the Model Context Protocol", query: "session", body: rpc,
			answers: answers{200: rpc, 202: nothing}}).readable(),
		del(mcpPath, s.serveMCP, doc{
			id: "endMCP", summary: "End a client's session of the Model Context Protocol", query: "session",
			answers: answers{204: nothing}}).readable(),
	}
}

// serveMCP answers a message. What its caller may do with a session is checked by each tool.
func (s *Server) serveMCP(c *call) error {
	if !s.mcpOriginAllowed(c.Request) {
		return errOrigin()
	}
	if credentials(c.Request, c.query).cookie() {
		return api.Errorf(api.CodeUnauthorized, "/mcp does not accept cookies: send Authorization: Bearer TOKEN")
	}
	caller := mcp.Caller{Key: c.callerKey(), Owner: c.owner, Session: c.visited(), Permit: c.permit}
	id, given, err := c.value("session")
	if err != nil {
		return err
	}
	if given {
		if !api.ValidID(id) {
			return badQuery("session", "not a session's id")
		}
		if err := c.mayUse(id); err != nil {
			return err
		}
		caller.Default = id
	}
	c.keepsBody = true // the library keeps a call's arguments until the call is answered, which may take an hour
	data, release, err := readBody(c, c.Request.Method == http.MethodDelete, "application/json")
	defer release()
	if err != nil {
		return err
	}
	s.mcp.ServeHTTP(c.Writer, c.Request, caller, data)
	return nil
}

// permit refuses what the caller may not do in a session; without a right, what only an owner may.
func (c *call) permit(right api.Right) error {
	if c.visit == nil {
		return nil
	}
	return permit(c.visit, right)
}

// mayUse refuses a visitor another session than its own.
func (c *call) mayUse(id string) error {
	if c.visit != nil && id != c.visit.Session {
		return api.Errorf(api.CodeSessionNotFound, "you have no session %.140q", id)
	}
	return nil
}

// mcpOriginAllowed is stricter than originAllowed: programs send no Origin, and a page whose name was made to point at this
// machine (DNS rebinding) has an Origin that agrees with its Host. So the server's own origin counts only as an address
// of this machine; others have to be configured.
func (s *Server) mcpOriginAllowed(r *http.Request) bool {
	values := r.Header.Values("Origin")
	if len(values) == 0 {
		return true
	}
	if len(values) > 1 {
		return false
	}
	if s.configured(values[0]) {
		return true
	}
	u, err := url.Parse(values[0])
	return err == nil && isLoopback(u.Hostname()) && s.originAllowed(r)
}

func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
