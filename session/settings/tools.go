package settings

import (
	"cmp"
	"slices"
	"strings"

	"talaria/api"
	"talaria/session/toolspec"
)

// checkWebhooks validates the tools of a session's body.
func (o *Operator) checkWebhooks(list []api.Tool) error {
	if len(list) == 0 {
		return nil
	}
	if o.CheckHook == nil {
		return api.Errorf(api.CodeForbidden, "tools: this server does not call webhooks; its operator can allow them with webhooks.prefixes")
	}
	if err := toolspec.CheckList(list); err != nil {
		return err
	}
	names := map[string]bool{}
	for _, t := range list {
		if _, err := toolspec.New(t); err != nil {
			return api.Invalid("tools: %.80q: %v", t.Name, err)
		}
		if names[t.Name] {
			return api.Invalid("tools: the name %q is given twice", t.Name)
		}
		names[t.Name] = true
		if t.URL == "" {
			return api.Invalid("tools: %s has no url; the tools of a session are webhooks, and a client registers its own with the frame tools", t.Name)
		}
		if err := o.CheckHook(t.URL); err != nil {
			return api.Errorf(api.CodeForbidden, "tools: %s: %v", t.Name, err)
		}
	}
	return nil
}

// checkServers validates the MCP servers of a session's body.
func (o *Operator) checkServers(names []string) error {
	var configured []string
	if o.MCPServers != nil {
		configured = o.MCPServers()
	}
	for i, name := range names {
		if !slices.Contains(configured, name) {
			return api.Invalid("mcp_servers: there is no MCP server %.80q; configured are: %s", name, cmp.Or(strings.Join(configured, ", "), "none"))
		}
		if slices.Contains(names[:i], name) {
			return api.Invalid("mcp_servers: the name %q is given twice", name)
		}
	}
	return nil
}
