// Package mcpclient calls tools of MCP servers: programs on standard input and output, and URLs, all of them from the
// operator's configuration. A server has one connection, which everybody shares.
package mcpclient

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"regexp"
	"strings"

	"talaria/api"
	"talaria/session/remote"
)

// Server is a configured MCP server: a program or a URL.
type Server struct {
	Name    string   // lower-case letters, digits and single underscores; at most 32
	Command string   // a program, which runs as the user of this process
	Args    []string // its arguments
	Env     []string // NAME=value; besides these it gets HOME, LANG, PATH, TMPDIR and USER only
	URL     string   // of the streamable HTTP transport
	Header  http.Header
}

// Tool is a tool of an MCP server.
type Tool struct {
	Name        string // SERVER__TOOL, as cells call it
	Server      string
	Description string
	Parameters  api.Raw // JSON Schema of the arguments
	ReadOnly    bool    // as the server says
	Idempotent  bool    // as the server says
}

// separator stands between the names of server and tool.
const separator = "__"

var namePattern = regexp.MustCompile(`^[a-z][a-z0-9]*(_[a-z0-9]+)*$`)

// Config configures [New].
type Config struct {
	Servers []Server
	Version string              // of Talaria, which the servers are told
	Changed func(server string) // is called when the tools of a server changed; may be nil. It must not block
	Log     *slog.Logger
}

// Servers are the configured MCP servers. It is safe for concurrent use.
type Servers struct {
	order  []string
	byName map[string]*server
}

// New checks the configuration. A server is connected to when it is first used.
func New(cfg Config) (*Servers, error) {
	s := &Servers{byName: map[string]*server{}}
	for _, one := range cfg.Servers {
		if err := one.check(); err != nil {
			return nil, err
		}
		if s.byName[one.Name] != nil {
			return nil, fmt.Errorf("two MCP servers have the name %q", one.Name)
		}
		s.order = append(s.order, one.Name)
		s.byName[one.Name] = newServer(one, cfg)
	}
	return s, nil
}

func (s Server) check() error {
	if !namePattern.MatchString(s.Name) || len(s.Name) > 32 {
		return fmt.Errorf("an MCP server cannot have the name %q; use at most 32 lower-case letters, digits and single underscores, with a letter first", s.Name)
	}
	if (s.Command == "") == (s.URL == "") {
		return fmt.Errorf("the MCP server %s needs either a command or a url", s.Name)
	}
	if s.Command != "" {
		if len(s.Header) > 0 {
			return fmt.Errorf("the MCP server %s has headers, which need a url", s.Name)
		}
		for _, variable := range s.Env {
			if name, _, ok := strings.Cut(variable, "="); !ok || name == "" {
				return fmt.Errorf("the MCP server %s has an environment variable without a name or a value", s.Name)
			}
		}
		return nil
	}
	if len(s.Args)+len(s.Env) > 0 {
		return fmt.Errorf("the MCP server %s has args or env, which need a command", s.Name)
	}
	u, err := url.Parse(s.URL)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.User != nil || u.Fragment != "" {
		return fmt.Errorf("the url of the MCP server %s must be http or https, without a user name or fragment", s.Name)
	}
	return nil
}

// Names lists the configured servers in their order.
func (s *Servers) Names() []string { return s.order }

// Tools lists the tools of a server, which it connects to if need be. ctx bounds the wait. The error is a
// [remote.Failure].
func (s *Servers) Tools(ctx context.Context, name string) ([]Tool, error) {
	one, err := s.find(name)
	if err != nil {
		return nil, err
	}
	c, err := one.connect(ctx)
	if err != nil {
		return nil, err
	}
	return c.list(ctx), nil
}

// Call calls a tool of a server by its name SERVER__TOOL. It waits until ctx ends, and then tells the server
// that it has given up. Every error is a [remote.Failure].
func (s *Servers) Call(ctx context.Context, call remote.Call) (remote.Result, error) {
	name, _, _ := strings.Cut(call.Tool, separator)
	one, err := s.find(name)
	if err != nil {
		return remote.Result{}, err
	}
	for range 2 {
		c, err := one.connect(ctx)
		if err != nil {
			return remote.Result{}, err
		}
		result, err := c.call(ctx, call)
		if !errors.Is(err, errForgotten) {
			return result, err
		}
		one.drop(c) // the server restarted and did not make the call
	}
	return remote.Result{}, remote.Failuref(remote.CodeUnavailable, "the MCP server %s keeps losing its sessions", name)
}

func (s *Servers) find(name string) (*server, error) {
	if one := s.byName[name]; one != nil {
		return one, nil
	}
	return nil, remote.Failuref(remote.CodeUnavailable, "no MCP server has the name %q", name)
}

// Close ends all connections and programs, and waits until they have ended. Calls that are open fail.
func (s *Servers) Close() {
	for _, one := range s.byName { // all at once
		one.cancel()
	}
	for _, one := range s.byName {
		one.close()
	}
}
