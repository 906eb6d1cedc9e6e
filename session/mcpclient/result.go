package mcpclient

import (
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"talaria/api"
	"talaria/session/remote"
)

// resultOf is what a cell gets of an answer. Pictures and sounds become displays. The value is the structured content if
// there is any; else the text, if there is only text; else the parts as MCP has them, without pictures and sounds.
func resultOf(answer *mcp.CallToolResult) (remote.Result, error) {
	var r remote.Result
	var texts []string
	var parts []mcp.Content
	for _, part := range answer.Content {
		switch p := part.(type) {
		case *mcp.TextContent:
			texts = append(texts, p.Text)
			parts = append(parts, p)
		case *mcp.ImageContent:
			r.Displays = append(r.Displays, remote.Display{MediaType: p.MIMEType, Data: p.Data})
		case *mcp.AudioContent:
			r.Displays = append(r.Displays, remote.Display{MediaType: p.MIMEType, Data: p.Data})
		default:
			parts = append(parts, p)
		}
	}
	text := strings.Join(texts, "\n")
	if answer.IsError {
		if text == "" {
			text = "the tool failed without saying why"
		}
		return remote.Result{}, remote.ReportedFailure(remote.CodeToolError, text)
	}
	var value any
	switch {
	case answer.StructuredContent != nil:
		value = answer.StructuredContent
	case len(parts) > len(texts):
		value = parts
	case len(texts) > 0:
		value = text
	}
	encoded, err := api.Marshal(value)
	if err != nil {
		return remote.Result{}, remote.Failuref(remote.CodeInvalidAnswer, "the result cannot be passed on: %v", err)
	}
	if len(encoded) > remote.MaxResult {
		return remote.Result{}, remote.Failuref(remote.CodeLimit, "the result has more than %d bytes", remote.MaxResult)
	}
	r.Value = encoded
	return r, nil
}
