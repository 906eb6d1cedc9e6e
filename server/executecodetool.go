package server

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"talaria/api"
	"talaria/session/toolspec"
)

// A dialect is the form in which an endpoint of a language model wants a tool described.
const (
	dialectOpenAI    = "openai"
	dialectAnthropic = "anthropic"
	dialectMCP       = "mcp"
)

var dialects = []string{dialectOpenAI, dialectAnthropic, dialectMCP}

// getExecuteCode describes the tool execute_code in the form that a client gives to its model: with the tools that a
// cell of the session may call, or of a new session if none is named.
func (s *Server) getExecuteCode(c *call) error {
	dialect, given, err := c.value("dialect")
	switch {
	case err != nil:
		return err
	case !given:
		dialect = dialectOpenAI
	case !slices.Contains(dialects, dialect):
		return badQuery("dialect", "none of "+strings.Join(dialects, ", "))
	}
	id, given, err := c.value("session")
	if err != nil {
		return err
	}
	tools, limits, network := toolspec.BuiltinTools(), s.sessions.DefaultLimits(), api.NetworkNone
	if given {
		sess, err := s.sessions.Get(c.owner, id)
		if err != nil {
			return err
		}
		defer sess.Release()
		info := sess.Info(c.ctx())
		tools, limits, network = sess.Tools().List(c.ctx()), info.Limits, info.Network.Mode
	}
	return c.answer(http.StatusOK, executeCodeTool(dialect, s.describeExecuteCode(tools, limits, network)))
}

// executeCodeParameters are the tool's arguments, as JSON Schema.
var executeCodeParameters = map[string]any{
	"type": "object",
	"properties": map[string]any{
		"code": map[string]any{"type": "string", "description": "Python source. Lines may begin with ! (a shell command) or % (a magic)."},
	},
	"required":             []string{"code"},
	"additionalProperties": false,
}

func executeCodeTool(dialect, description string) any {
	switch dialect {
	case dialectAnthropic:
		return map[string]any{"name": executeCode, "description": description, "input_schema": executeCodeParameters}
	case dialectMCP:
		return map[string]any{"name": executeCode, "description": description, "inputSchema": executeCodeParameters}
	}
	return map[string]any{"type": "function", "function": map[string]any{
		"name": executeCode, "description": description, "parameters": executeCodeParameters,
	}}
}

// describeExecuteCode writes the description for a model.
func (s *Server) describeExecuteCode(tools []api.ToolInfo, limits api.Limits, network api.NetworkMode) string {
	var b strings.Builder
	b.WriteString("Run Python in a persistent session: variables, imports and files in the working directory are kept from call to call. " +
		"The result contains the printed text, the value of the last expression, and the traceback of an error. " +
		"Print only what you need to read.\n")
	tools = slices.DeleteFunc(slices.Clone(tools), func(t api.ToolInfo) bool { return !t.Available })
	if len(tools) > 0 {
		b.WriteString("\nUse it when you would make three or more tool calls with logic between them: loops, filters, joining results. " +
			"For a single call without logic, call the tool itself. ")
		fmt.Fprintf(&b, "Inside, tools are functions: from hermes_tools import %s\n", strings.Join(exampleTools(tools), ", "))
		for _, t := range tools {
			fmt.Fprintf(&b, "- %s: %s\n", signature(t.Tool), firstLine(t.Description))
		}
		b.WriteString("Also available: json_parse(text), shell_quote(text), retry(function, max_attempts=3, delay=2), search_tools(query). " +
			"hermes_tools.aio has awaitable versions.\n")
		fmt.Fprintf(&b, "A run may make %d tool calls.\n", limits.ToolCalls)
	}
	b.WriteString("\nLimits: ")
	if limits.ExecutionTimeoutS > 0 {
		fmt.Fprintf(&b, "%v s for each run, ", limits.ExecutionTimeoutS)
	}
	fmt.Fprintf(&b, "%d MiB of memory, %d MiB of files.", limits.MemoryBytes>>20, limits.DiskBytes>>20)
	if network == api.NetworkNone {
		b.WriteString(" There is no network.")
	}
	if s.sessions.InstallsPackages() {
		b.WriteString(" Install packages with %pip install NAME.")
	}
	return b.String()
}

// exampleTools returns the two tools of the import that the description shows: those that models need most, else the
// first.
func exampleTools(tools []api.ToolInfo) []string {
	var names, preferred []string
	for _, t := range tools {
		names = append(names, t.Name)
		if t.Name == "web_search" || t.Name == "terminal" {
			preferred = append(preferred, t.Name)
		}
	}
	if len(preferred) > 0 {
		slices.Sort(preferred)
		slices.Reverse(preferred) // web_search, terminal
		return preferred
	}
	return names[:min(2, len(names))]
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	return line
}

// signature writes a tool as the function that it is inside: required arguments first, in the order of its schema.
func signature(t api.Tool) string {
	var schema struct {
		Properties json.RawMessage `json:"properties"`
		Required   []string        `json:"required"`
	}
	_ = json.Unmarshal(t.Parameters, &schema) // it was compiled when the tool was registered
	var required, optional []string
	for _, p := range properties(schema.Properties) {
		if slices.Contains(schema.Required, p.name) {
			required = append(required, p.name)
		} else {
			optional = append(optional, p.name+"="+p.fallback)
		}
	}
	return t.Name + "(" + strings.Join(append(required, optional...), ", ") + ")"
}

// property is an argument, with its default as a Python literal.
type property struct{ name, fallback string }

// properties lists the properties of a schema in order.
func properties(object json.RawMessage) (list []property) {
	d := json.NewDecoder(bytes.NewReader(object))
	if open, err := d.Token(); err != nil || open != json.Delim('{') {
		return nil
	}
	for d.More() {
		name, err := d.Token()
		var of struct {
			Default json.RawMessage `json:"default"`
		}
		var raw json.RawMessage
		if err != nil || d.Decode(&raw) != nil {
			return list
		}
		_ = json.Unmarshal(raw, &of) // true and false are schemas too
		list = append(list, property{fmt.Sprint(name), pythonLiteral(of.Default)})
	}
	return list
}

// pythonLiteral converts JSON to a Python literal, for the values that defaults have.
func pythonLiteral(value json.RawMessage) string {
	switch string(value) {
	case "", "null":
		return "None"
	case "true":
		return "True"
	case "false":
		return "False"
	}
	return string(value)
}
