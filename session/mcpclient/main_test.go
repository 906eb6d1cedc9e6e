package mcpclient_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/goleak"
)

// serveVariable makes the test binary an MCP server on standard input and output.
const serveVariable = "MCPCLIENT_TEST_SERVE"

func TestMain(m *testing.M) {
	switch os.Getenv(serveVariable) {
	case "":
		goleak.VerifyTestMain(m)
	case "refuse":
		fmt.Fprintln(os.Stderr, "a fault of the server")
		os.Exit(3)
	case "stubborn":
		// It ignores the end of its input and SIGTERM.
		go func() { _ = testServer().Run(context.Background(), &mcp.StdioTransport{}) }()
		signal.Ignore(syscall.SIGTERM, syscall.SIGPIPE)
		time.Sleep(time.Hour)
	default:
		_ = testServer().Run(context.Background(), &mcp.StdioTransport{})
	}
}

type echo struct {
	Text string `json:"text"`
}

// pixel is a PNG as far as the tests need one.
var pixel = []byte("\x89PNG\r\n\x1a\n and more")

func text(s string) *mcp.CallToolResult {
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: s}}}
}

// testServer has tools for everything that a server may do.
func testServer() *mcp.Server {
	s := mcp.NewServer(&mcp.Implementation{Name: "test", Version: "1"}, nil)
	add := func(name string, do func(context.Context, *mcp.CallToolRequest, echo) (*mcp.CallToolResult, error)) {
		mcp.AddTool(s, &mcp.Tool{Name: name, Description: "does " + name, Annotations: &mcp.ToolAnnotations{ReadOnlyHint: name == "echo"}},
			func(ctx context.Context, r *mcp.CallToolRequest, in echo) (*mcp.CallToolResult, any, error) {
				result, err := do(ctx, r, in)
				return result, nil, err
			})
	}
	add("echo", func(_ context.Context, _ *mcp.CallToolRequest, in echo) (*mcp.CallToolResult, error) {
		return text(in.Text), nil
	})
	add("two-lines", func(context.Context, *mcp.CallToolRequest, echo) (*mcp.CallToolResult, error) {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "a"}, &mcp.TextContent{Text: "b"}}}, nil
	})
	add("nothing", func(context.Context, *mcp.CallToolRequest, echo) (*mcp.CallToolResult, error) {
		return &mcp.CallToolResult{}, nil
	})
	add("picture", func(context.Context, *mcp.CallToolRequest, echo) (*mcp.CallToolResult, error) {
		return &mcp.CallToolResult{Content: []mcp.Content{
			&mcp.TextContent{Text: "a chart"}, &mcp.ImageContent{Data: pixel, MIMEType: "image/png"},
		}}, nil
	})
	add("link", func(context.Context, *mcp.CallToolRequest, echo) (*mcp.CallToolResult, error) {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.ResourceLink{URI: "file:///a", Name: "a"}}}, nil
	})
	add("fail", func(context.Context, *mcp.CallToolRequest, echo) (*mcp.CallToolResult, error) {
		return nil, errors.New("the disk is on fire")
	})
	add("big", func(context.Context, *mcp.CallToolRequest, echo) (*mcp.CallToolResult, error) {
		return text(strings.Repeat("a", 16<<20)), nil
	})
	add("wait", func(ctx context.Context, r *mcp.CallToolRequest, in echo) (*mcp.CallToolResult, error) {
		note(ctx, r, "waiting")
		<-ctx.Done()
		return nil, os.WriteFile(in.Text, []byte("cancelled"), 0o600)
	})
	add("die", func(context.Context, *mcp.CallToolRequest, echo) (*mcp.CallToolResult, error) {
		fmt.Fprintln(os.Stderr, "last words")
		os.Exit(1)
		return nil, nil
	})
	add("process", func(context.Context, *mcp.CallToolRequest, echo) (*mcp.CallToolResult, error) {
		return text(fmt.Sprint(os.Getpid(), " ", strings.Join(os.Environ(), " "))), nil
	})
	add("grow", func(_ context.Context, _ *mcp.CallToolRequest, in echo) (*mcp.CallToolResult, error) {
		add(in.Text, func(context.Context, *mcp.CallToolRequest, echo) (*mcp.CallToolResult, error) {
			return text("new"), nil
		})
		return text("grown"), nil
	})
	add("ask", func(ctx context.Context, r *mcp.CallToolRequest, in echo) (*mcp.CallToolResult, error) {
		question := &mcp.ElicitParams{Message: "may I?", RequestedSchema: json.RawMessage(in.Text)}
		if r.Session.InitializeParams().ProtocolVersion >= "2026" { // questions are results
			if answer, ok := r.Params.InputResponses["may"].(*mcp.ElicitResult); ok {
				return text(fmt.Sprint(answer.Action, " ", answer.Content)), nil
			}
			return &mcp.CallToolResult{InputRequests: mcp.InputRequestMap{"may": question}}, nil
		}
		answer, err := r.Session.Elicit(ctx, question)
		if err != nil {
			return nil, err
		}
		return text(fmt.Sprint(answer.Action, " ", answer.Content)), nil
	})
	add("input", func(context.Context, *mcp.CallToolRequest, echo) (*mcp.CallToolResult, error) {
		return &mcp.CallToolResult{InputRequests: mcp.InputRequestMap{"name": &mcp.ElicitParams{Message: "who?"}}}, nil
	})
	mcp.AddTool(s, &mcp.Tool{Name: "structured"}, func(_ context.Context, _ *mcp.CallToolRequest, in echo) (*mcp.CallToolResult, echo, error) {
		return nil, in, nil
	})
	return s
}

func note(ctx context.Context, r *mcp.CallToolRequest, message string) {
	if token := r.Params.GetProgressToken(); token != nil {
		_ = r.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ProgressToken: token, Message: message, Progress: 1})
	}
}
