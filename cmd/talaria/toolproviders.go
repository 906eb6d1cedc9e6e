package main

import (
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"strings"

	"talaria/session"
	"talaria/session/mcpclient"
	"talaria/session/webhook"
)

// webhooks says which webhooks sessions may have as tools.
type webhooks struct {
	Prefixes   []string `config:"prefixes"`    // of their URLs; none: there are no webhooks
	SecretFile string   `config:"secret_file"` // what calls are signed with
}

// mcpServer is an MCP server whose tools sessions may use: a program or a URL.
type mcpServer struct {
	Name        string   `config:"name"`
	Command     string   `config:"command"`
	Args        []string `config:"args"`
	EnvFile     string   `config:"env_file"` // lines NAME=value
	URL         string   `config:"url"`
	HeadersFile string   `config:"headers_file"` // lines "Name: value"
}

// remoteTools makes the providers of tools that are configured. Nothing is connected to yet. The caller closes them.
func (c config) remoteTools(log *slog.Logger) (r session.RemoteTools, err error) {
	switch {
	case len(c.Webhooks.Prefixes) == 0:
	case c.Webhooks.SecretFile == "":
		return r, c.wrong("webhooks.prefixes", "needs webhooks.secret_file, so that receivers know who calls them; "+
			`create one with: (umask 077; echo "whsec_$(openssl rand -base64 32)" > FILE)`)
	default:
		text, err := os.ReadFile(c.Webhooks.SecretFile)
		if err != nil {
			return r, c.wrong("webhooks.secret_file", "cannot be read: %w", err)
		}
		secrets, err := webhook.ParseSecrets(string(text))
		if err != nil {
			return r, c.wrong("webhooks.secret_file", "(%s): %w", c.Webhooks.SecretFile, err)
		}
		if r.Webhooks, err = webhook.New(webhook.Config{Prefixes: c.Webhooks.Prefixes, Secrets: secrets}); err != nil {
			return r, c.wrong("webhooks.prefixes", "cannot be used: %w", err)
		}
	}
	if len(c.MCPServers) == 0 {
		return r, nil
	}
	var servers []mcpclient.Server
	for i, s := range c.MCPServers {
		key := fmt.Sprintf("mcp_servers[%d]", i)
		one := mcpclient.Server{Name: s.Name, Command: s.Command, Args: s.Args, URL: s.URL}
		if one.Env, err = fileLines(s.EnvFile); err != nil {
			return r, c.wrong(key, "has an env_file that cannot be read: %w", err)
		}
		headers, err := fileLines(s.HeadersFile)
		if err != nil {
			return r, c.wrong(key, "has a headers_file that cannot be read: %w", err)
		}
		for n, line := range headers {
			name, value, ok := strings.Cut(line, ":")
			if name = strings.TrimSpace(name); !ok || name == "" || strings.ContainsAny(name, " \t") {
				return r, c.wrong(key, "has a headers_file whose line %d is not NAME: VALUE", n+1) // the line may be a secret
			}
			if one.Header == nil {
				one.Header = http.Header{}
			}
			one.Header.Add(name, strings.TrimSpace(value))
		}
		servers = append(servers, one)
	}
	if r.Servers, err = mcpclient.New(mcpclient.Config{Servers: servers, Version: fullVersion(), Log: log}); err != nil {
		return r, c.wrong("mcp_servers", "is not valid: %w", err)
	}
	return r, nil
}

// fileLines are the lines of a file without blank ones and comments, which begin with #. No file has none.
func fileLines(path string) (lines []string, err error) {
	if path == "" {
		return nil, nil
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
			lines = append(lines, line)
		}
	}
	return lines, nil
}

// closeRemote ends what remoteTools made.
func closeRemote(r session.RemoteTools) error {
	if r.Webhooks != nil {
		r.Webhooks.Close()
	}
	if r.Servers != nil {
		r.Servers.Close()
	}
	return nil
}
