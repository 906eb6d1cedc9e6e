package e2e

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"talaria/api"
)

// asking starts an MCP server whose tool asks whether it may go on, and returns the configuration that names it.
func asking(t *testing.T) string {
	t.Helper()
	server := mcp.NewServer(&mcp.Implementation{Name: "asking", Version: "1"}, nil)
	mcp.AddTool(server, &mcp.Tool{Name: "erase"}, func(ctx context.Context, r *mcp.CallToolRequest, _ struct{}) (*mcp.CallToolResult, any, error) {
		answer, err := r.Session.Elicit(ctx, &mcp.ElicitParams{Message: "Erase the archive?"})
		if err != nil {
			return nil, nil, err
		}
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: answer.Action}}}, nil, nil
	})
	web := httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, nil))
	t.Cleanup(web.Close)
	return fmt.Sprintf("mcp_servers:\n  - name: asking\n    url: %s\n", web.URL)
}

func TestAQuestionOfAnMCPServerIsAnApproval(t *testing.T) {
	t.Parallel()
	s := start(t, options{config: asking(t)})
	c := s.Client()
	id := session(t, c, api.SessionRequest{MCPServers: &[]string{"asking"}})
	const code = "from hermes_tools import asking__erase\nprint(asking__erase())"
	if got := runOK(t, c, id, code); got != "decline\n" {
		t.Errorf("with nobody to ask the server was told %q", got)
	}
	w := watch(t, c, id)
	for _, one := range []struct {
		decision api.ApprovalDecision
		want     string
	}{{api.DecisionOnce, "accept\n"}, {api.DecisionDeny, "decline\n"}} {
		w.start(code)
		asked := event[api.ApprovalRequested](w)
		if asked.Kind != api.ApprovalTool || !strings.Contains(asked.Detail, "Erase the archive?") {
			t.Errorf("the question is %+v", asked)
		}
		w.decide(asked.ApprovalID, one.decision)
		if e := event[api.ExecutionFinished](w).Execution; e.Status != api.StatusOK || e.Text != one.want {
			t.Errorf("after %s the cell printed %q (%s), want %q", one.decision, e.Text, e.Status, one.want)
		}
	}
	w.start(code)
	asked := event[api.ApprovalRequested](w)
	if err := c.Interrupt(within(t), id, ""); err != nil {
		t.Fatal(err)
	}
	for {
		if got := event[api.ApprovalResolved](w); got.ApprovalID == asked.ApprovalID {
			if got.Decision != api.DecisionCancelled {
				t.Errorf("after an interrupt the question ended with %s", got.Decision)
			}
			break
		}
	}
}
