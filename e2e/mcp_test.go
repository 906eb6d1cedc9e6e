package e2e

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"image/png"
	"strings"
	"testing"

	"talaria/api"
	"talaria/client"
)

// finding is what a client sees of a cell.
type finding struct {
	status string // as the tool execute_code names it
	text   string
	chart  []byte // the first picture
}

// analyst is a way in which a program works with a session.
type analyst struct {
	session string
	upload  func(t *testing.T, path, text string)
	run     func(t *testing.T, code string) finding
	stop    func(t *testing.T) // interrupts
	tools   string             // code that defines ask(i), which asks a tool, and hang(), which waits for one
	waits   string             // the name of the tool that hang waits for
}

const (
	clientTools = `
from hermes_tools import lookup, never
def ask(i): return lookup(n=i)["n"]
def hang(): never()
`
	// builtinTools need no program outside.
	builtinTools = `
from hermes_tools import terminal
def ask(i): return int(terminal(f"echo {i}")["output"])
def hang(): terminal("sleep 600")
`
)

// TestTheSameAnalysisInEveryWay uploads a table, runs cells that call a tool twenty times at once, gets a chart back,
// interrupts a cell that waits for a tool, and finds the variables there.
func TestTheSameAnalysisInEveryWay(t *testing.T) {
	t.Parallel()
	s := start(t, options{})
	endpoint := s.URL + "/mcp"
	for _, way := range []struct {
		name string
		open func(t *testing.T) analyst
	}{
		{"a WebSocket client that provides tools", func(t *testing.T) analyst { return socketAnalyst(t, s.Client()) }},
		{"an HTTP client that answers pending calls", func(t *testing.T) analyst { return httpAnalyst(t, s.Client()) }},
		{"MCP of the older era, Go", func(t *testing.T) analyst {
			return mcpAnalyst(t, calling(goMCP(t, overHTTP(endpoint, s.Token), olderMCP, nil)))
		}},
		{"MCP of the newer era, Go", func(t *testing.T) analyst {
			return mcpAnalyst(t, calling(goMCP(t, overHTTP(endpoint, s.Token), newerMCP, nil)))
		}},
		{"MCP, Node", func(t *testing.T) analyst { return mcpAnalyst(t, nodeMCP(t, endpoint, s.Token)) }},
		{"talaria mcp, older era", func(t *testing.T) analyst { return mcpAnalyst(t, calling(goMCP(t, onStdio(t, s), olderMCP, nil))) }},
		{"talaria mcp, newer era", func(t *testing.T) analyst { return mcpAnalyst(t, calling(goMCP(t, onStdio(t, s), newerMCP, nil))) }},
	} {
		t.Run(way.name, func(t *testing.T) { analyze(t, s.Client(), way.open(t)) })
	}
}

func analyze(t *testing.T, c *client.Client, a analyst) {
	a.upload(t, "weather.csv", "city,degrees\nOslo,4\nRome,17\nCairo,28\n")
	for _, step := range []struct{ code, want string }{
		{"import csv\ntotal = sum(int(row['degrees']) for row in csv.DictReader(open('weather.csv')))\nprint(total)", "49"},
		{a.tools + `
from concurrent.futures import ThreadPoolExecutor
with ThreadPoolExecutor(20) as pool:
    answers = list(pool.map(ask, range(20)))
print(answers == list(range(20)))`, "True"},
	} {
		if got := a.run(t, step.code); got.status != "success" || strings.TrimSpace(got.text) != step.want {
			t.Fatalf("%s\n%s, printed %q, want %q", step.code, got.status, got.text, step.want)
		}
	}
	drawn := a.run(t, "import matplotlib.pyplot as plt\nplt.plot([1, 2, 3])\nplt.show()")
	if picture, err := png.Decode(bytes.NewReader(drawn.chart)); err != nil || picture.Bounds().Dx() < 100 {
		t.Errorf("the chart is %d bytes: %v", len(drawn.chart), err)
	}
	waiting := make(chan finding, 1)
	toolCalled(t, c, a.session, a.waits, func() {
		go func() { waiting <- a.run(t, "kept = 42\nhang()") }()
	})
	a.stop(t)
	if got := <-waiting; got.status != "interrupted" {
		t.Errorf("the interrupted cell ended with %s: %s", got.status, got.text)
	}
	if got := a.run(t, "print(kept, total)"); strings.TrimSpace(got.text) != "42 49" {
		t.Errorf("after the interrupt: %s %q", got.status, got.text)
	}
}

// theTools are those of a client's own: lookup answers with its arguments, and never does not answer.
func theTools() []client.ToolFunc {
	return []client.ToolFunc{
		{Tool: api.Tool{Name: "lookup", Parameters: api.Raw(`{"type":"object","properties":{"n":{"type":"integer"}}}`)},
			Call: func(_ context.Context, call api.ToolRequest) (any, error) {
				return json.RawMessage(call.Arguments), nil
			}},
		{Tool: api.Tool{Name: "never"}, Call: func(ctx context.Context, _ api.ToolRequest) (any, error) { <-ctx.Done(); return nil, ctx.Err() }},
	}
}

func socketAnalyst(t *testing.T, c *client.Client) analyst {
	id := session(t, c, api.SessionRequest{})
	socket, err := c.Attach(within(t), id, client.AttachOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { socket.Close() })
	if _, err := socket.ServeTools(within(t), "", theTools()...); err != nil {
		t.Fatal(err)
	}
	a := restAnalyst(c, id)
	a.run = func(t *testing.T, code string) finding {
		run, err := socket.Execute(within(t), api.ExecutionRequest{Code: &code})
		if err != nil {
			t.Error(err)
			return finding{}
		}
		for event, err := range socket.Events(within(t)) {
			if err != nil {
				t.Error(err)
				return finding{}
			}
			if _, over := event.Body.(api.ExecutionFinished); over && event.ExecutionID == run {
				break
			}
		}
		e, err := c.Execution(within(t), id, run)
		return seen(t, e, err)
	}
	return a
}

func httpAnalyst(t *testing.T, c *client.Client) analyst {
	a := restAnalyst(c, session(t, c, api.SessionRequest{}))
	a.run = func(t *testing.T, code string) finding {
		tools := theTools()
		ctx, stop := context.WithCancel(within(t))
		defer stop()
		if strings.Contains(code, "hang()") && !strings.Contains(code, "def hang") { // the client never answers this call
			e, err := c.Execute(ctx, a.session, withTools(code, tools))
			for err == nil && !e.Status.Final() {
				e, err = c.AnswerToolCalls(ctx, a.session, e.ID, nil)
			}
			return seen(t, e, err)
		}
		e, err := c.ExecuteWithTools(ctx, a.session, api.ExecutionRequest{Code: &code}, tools...)
		return seen(t, e, err)
	}
	return a
}

func withTools(code string, tools []client.ToolFunc) api.ExecutionRequest {
	req := api.ExecutionRequest{Code: &code}
	for _, tool := range tools {
		req.Tools = append(req.Tools, tool.Tool)
	}
	return req
}

// restAnalyst has what both of our own protocols do by plain requests.
func restAnalyst(c *client.Client, id string) analyst {
	return analyst{
		session: id, tools: clientTools, waits: "never",
		upload: func(t *testing.T, path, text string) {
			if _, _, err := c.PutFile(within(t), id, path, strings.NewReader(text)); err != nil {
				t.Fatal(err)
			}
		},
		stop: func(t *testing.T) {
			if err := c.Interrupt(within(t), id, ""); err != nil {
				t.Fatal(err)
			}
		},
	}
}

// seen is an execution as a client of ours shows it.
func seen(t *testing.T, e api.Execution, err error) finding {
	if err != nil {
		t.Error(err)
		return finding{}
	}
	s := finding{status: string(api.ExecuteCode(e).Status), text: printed(e)}
	for _, o := range e.Outputs {
		var text string
		if json.Unmarshal(o.Data["image/png"], &text) == nil && s.chart == nil {
			s.chart, _ = base64.StdEncoding.DecodeString(strings.ReplaceAll(text, "\n", ""))
		}
	}
	return s
}

func mcpAnalyst(t *testing.T, call toolCaller) analyst {
	first := call.called(t, "execute_code", map[string]any{"code": "print(6 * 7)"})
	if strings.TrimSpace(first.Structured.Output) != "42" || first.Structured.ExecutionID == "" || first.Structured.Status != "success" {
		t.Fatalf("the first call returned %+v", first)
	}
	return analyst{
		session: first.Structured.SessionID, tools: builtinTools, waits: "terminal",
		upload: func(t *testing.T, path, text string) {
			call.called(t, "write_file", map[string]any{"path": path, "text": text})
		},
		run: func(t *testing.T, code string) finding {
			r, err := call(within(t), "execute_code", map[string]any{"code": code})
			if err != nil {
				t.Error(err)
			}
			s := finding{status: r.Structured.Status, text: r.Structured.Output}
			for _, c := range r.Content {
				if c.Type == "image" && s.chart == nil {
					s.chart = c.Data
				}
			}
			return s
		},
		stop: func(t *testing.T) { call.called(t, "interrupt", map[string]any{}) },
	}
}
