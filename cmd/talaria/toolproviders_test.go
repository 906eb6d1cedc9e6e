package main

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestProvidersOfToolsAreCheckedAtTheStart(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	secret := file("secret", "whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=\n")
	prefixes := []string{"https://hooks.example.com/talaria/"}
	for want, c := range map[string]config{
		"": {Webhooks: webhooks{prefixes, secret}, MCPServers: []mcpServer{
			{Name: "a", Command: "/bin/true", EnvFile: file("env", "# a comment\nKEY=value\n")},
			{Name: "b", URL: "https://example.com/mcp", HeadersFile: file("headers", "Authorization: Bearer x\n")},
		}},
		"webhooks.prefixes needs webhooks.secret_file":    {Webhooks: webhooks{Prefixes: prefixes}},
		"webhooks.secret_file cannot be read":             {Webhooks: webhooks{prefixes, filepath.Join(dir, "none")}},
		`a secret must be "whsec_"`:                       {Webhooks: webhooks{prefixes, file("short", "whsec_AAAA\n")}},
		"webhooks.prefixes cannot be used":                {Webhooks: webhooks{[]string{"ftp://example.com/"}, secret}},
		"needs either a command or a url":                 {MCPServers: []mcpServer{{Name: "a"}}},
		"cannot have the name":                            {MCPServers: []mcpServer{{Name: "A b", Command: "/bin/true"}}},
		"two MCP servers have the name":                   {MCPServers: []mcpServer{{Name: "a", Command: "x"}, {Name: "a", Command: "y"}}},
		"mcp_servers[0] has an env_file that cannot be":   {MCPServers: []mcpServer{{Name: "a", Command: "x", EnvFile: dir + "/none"}}},
		"mcp_servers[0] has a headers_file whose line 2 ": {MCPServers: []mcpServer{{Name: "a", URL: "https://x.example", HeadersFile: file("bad", "A: b\nsesame\n")}}},
	} {
		remote, err := c.remoteTools(slog.New(slog.DiscardHandler))
		if err := closeRemote(remote); err != nil {
			t.Error(err)
		}
		switch {
		case want == "" && (err != nil || remote.Webhooks == nil || remote.Servers == nil):
			t.Errorf("%+v: %+v, %v", c, remote, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "sesame")):
			t.Errorf("the error is %v, want one with %q", err, want)
		}
	}
}
