package toolspec

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"sync"

	"talaria/api"
)

// builtin are the tools that work in the sandbox: the runner carries them out (talaria_runner/tools). Their
// parameters become the signatures of the functions that cells call, in this order.
var builtin = sync.OnceValue(func() map[string]*Tool {
	tools := map[string]*Tool{}
	for _, t := range []api.Tool{
		{
			Name:        "read_file",
			Description: "Read lines of a text file; the first line is 1. Returns {content, total_lines}.",
			ReadOnly:    true,
			Parameters: api.Raw(`{"type":"object","properties":{"path":{"type":"string"},` +
				`"offset":{"type":"integer","default":1},"limit":{"type":"integer","default":500}},"required":["path"]}`),
		}, {
			Name:        "write_file",
			Description: "Write a whole text file, creating missing folders. Returns {path, bytes}.",
			Parameters: api.Raw(`{"type":"object","properties":{"path":{"type":"string"},"content":{"type":"string"}},` +
				`"required":["path","content"]}`),
		}, {
			Name: "search_files",
			Description: "Search the workspace, or a mount with path, for lines that match a regular expression (target \"content\"), or for files whose name " +
				"matches a pattern (target \"files\"). Returns {matches or files, total}.",
			ReadOnly: true,
			Parameters: api.Raw(`{"type":"object","properties":{"pattern":{"type":"string"},` +
				`"target":{"type":"string","enum":["content","files"],"default":"content"},"path":{"type":"string","default":"."},` +
				`"file_glob":{"type":["string","null"]},"limit":{"type":"integer","default":50},"offset":{"type":"integer","default":0},` +
				`"output_mode":{"type":"string","default":"content"},"context":{"type":"integer","default":0},` +
				`"order":{"type":"string","default":"discovery"}},"required":["pattern"]}`),
		}, {
			Name: "patch",
			Description: "Mode \"replace\" replaces a text that occurs once in a file of the workspace, or every occurrence with replace_all. Mode " +
				"\"patch\" applies a patch in the V4A format to several files, or to none if it does not fit. Returns {diff, files}.",
			Parameters: api.Raw(`{"type":"object","properties":{"path":{"type":["string","null"]},"old_string":{"type":["string","null"]},` +
				`"new_string":{"type":["string","null"]},"replace_all":{"type":"boolean","default":false},` +
				`"mode":{"type":"string","enum":["replace","patch"],"default":"replace"},"patch":{"type":["string","null"]}}}`),
		}, {
			Name: "terminal",
			Description: "Run a command in the session's shell, which keeps its working directory and variables. timeout is in seconds. " +
				"Returns {output, exit_code}.",
			Parameters: api.Raw(`{"type":"object","properties":{"command":{"type":"string"},"timeout":{"type":["number","null"]},` +
				`"workdir":{"type":["string","null"]}},"required":["command"]}`),
		},
	} {
		checked, err := New(t)
		if err != nil {
			panic(err) // the table above is wrong
		}
		tools[t.Name] = checked
	}
	return tools
})

// BuiltinTools lists the built-in tools that a session has by default.
func BuiltinTools() (list []api.ToolInfo) {
	for _, name := range slices.Sorted(maps.Keys(builtin())) {
		list = append(list, api.ToolInfo{Tool: builtin()[name].Tool, Provider: api.ProviderBuiltin, Available: true})
	}
	return list
}

// Builtin returns the built-in tool of that name, or nil.
func Builtin(name string) *Tool { return builtin()[name] }

// SameBuiltin reports whether a validated field names these tools.
func SameBuiltin(field api.Raw, names []string) bool {
	asked, err := CheckBuiltin(field)
	return err == nil && slices.Equal(asked, names)
}

// CheckBuiltin validates the field builtin_tools.
func CheckBuiltin(field api.Raw) (names []string, err error) {
	var all bool
	switch {
	case field == nil || field.Kind() == 'n' || json.Unmarshal(field, &all) == nil && all:
		return slices.Sorted(maps.Keys(builtin())), nil
	case field.Kind() == 'f':
		return []string{}, nil
	case json.Unmarshal(field, &names) != nil:
		return nil, api.Errorf(api.CodeInvalidRequest, "builtin_tools must be true, false, or a list of names")
	}
	slices.Sort(names)
	for _, name := range names {
		if _, ok := builtin()[name]; !ok {
			return nil, api.Errorf(api.CodeInvalidRequest, "builtin_tools: there is no built-in tool %.80q; choose from %s", name,
				strings.Join(slices.Sorted(maps.Keys(builtin())), ", "))
		}
	}
	return slices.Compact(names), nil
}
