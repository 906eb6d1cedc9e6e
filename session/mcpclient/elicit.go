package mcpclient

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"talaria/api"
	"talaria/session/remote"
)

// The answers to an elicitation.
const (
	accept  = "accept"
	decline = "decline"
	dismiss = "cancel"
)

// asker is an open call whose caller can ask a person.
type asker struct {
	ctx  context.Context // ends when nobody waits for the call any more
	call remote.Call
}

// askerKey is the key of a call's asker in the context of its requests.
type askerKey struct{}

// track notes an open call until done is called, and returns the context for its requests.
func (c *connection) track(ctx context.Context, call remote.Call) (own context.Context, done func()) {
	a := &asker{ctx, call}
	own = context.WithValue(ctx, askerKey{}, a)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open[a] = true
	return own, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.open, a)
	}
}

// asks returns the call that a question belongs to. A question in a result has its call in ctx. A request does not say
// which call it belongs to; then it is the open one, if there is exactly one: with several, a question could reach another
// owner's session.
func (c *connection) asks(ctx context.Context) *asker {
	if a, ok := ctx.Value(askerKey{}).(*asker); ok {
		return a
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.open) == 1 {
		for a := range c.open {
			return a
		}
	}
	return nil
}

// elicit has the session of the open call ask a person what the server asks. It declines what a yes or no cannot answer.
func (c *connection) elicit(ctx context.Context, r *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
	if r.Params.Mode == "url" || r.Params.URL != "" { // after a mere refusal the SDK would wait for the page to be visited
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "Talaria does not open URLs for elicitation; only forms can be answered"}
	}
	a := c.asks(ctx)
	if a == nil || a.call.Ask == nil {
		c.server.log.Warn("declined a question from an MCP server: it needs exactly one open call that can ask a person")
		return &mcp.ElicitResult{Action: decline}, nil
	}
	content, err := filledIn(r.Params)
	if err != nil {
		if a.call.Progress != nil {
			a.call.Progress("declined a question from the MCP server " + c.server.cfg.Name + ": " + err.Error())
		}
		return &mcp.ElicitResult{Action: decline}, nil
	}
	detail := strings.ToValidUTF8(r.Params.Message, "\uFFFD")
	if len(content) > 0 {
		encoded, err := api.Marshal(content)
		if err != nil {
			return nil, err
		}
		detail += "\nApproving sends " + string(encoded)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(a.ctx, cancel)()
	switch err := a.call.Ask(ctx, detail); {
	case ctx.Err() != nil:
		return &mcp.ElicitResult{Action: dismiss}, nil
	case err != nil:
		return &mcp.ElicitResult{Action: decline}, nil
	}
	return &mcp.ElicitResult{Action: accept, Content: content}, nil
}

// filledIn returns what a yes sends for the form of a question: the defaults of its fields, and true for a single
// required field that is a boolean without a default. The error says why a yes cannot answer it.
func filledIn(p *mcp.ElicitParams) (map[string]any, error) {
	var form struct {
		Properties map[string]struct {
			Type    string          `json:"type"`
			Default json.RawMessage `json:"default"`
		} `json:"properties"`
		Required []string `json:"required"`
	}
	encoded, err := api.Marshal(p.RequestedSchema)
	if err == nil {
		err = json.Unmarshal(encoded, &form)
	}
	if err != nil {
		return nil, fmt.Errorf("its form cannot be read: %w", err)
	}
	content := map[string]any{}
	for name, field := range form.Properties {
		if len(field.Default) > 0 {
			content[name] = field.Default
		}
	}
	for _, name := range form.Required {
		switch {
		case content[name] != nil:
		case len(form.Required) == 1 && form.Properties[name].Type == "boolean":
			content[name] = true
		default:
			return nil, fmt.Errorf("its field %.80q needs a value, and a person can only answer yes or no", name)
		}
	}
	// The SDK validates the values, which it needs decoded.
	if encoded, err = api.Marshal(content); err != nil {
		return nil, err
	}
	decoded := map[string]any{}
	return decoded, json.Unmarshal(encoded, &decoded)
}
