// Package toolspec checks the descriptions of the tools that cells may call, and describes those that are built in.
package toolspec

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"talaria/api"
	"talaria/session/schema"
)

// Bounds of the tools of a session.
const (
	MaxTools = 500
	// MaxBytes bounds the names, descriptions and schemas of all of them.
	MaxBytes   = 2 << 20
	maxTimeout = 24 * 3600 // seconds
)

// Tool is the checked description of one tool. It is immutable.
type Tool struct {
	api.Tool
	Schema *schema.Schema // nil: any arguments
	Bytes  int            // of its name, description and schema
}

// Timeout returns how long a call may take.
func (t *Tool) Timeout() time.Duration {
	return time.Duration(cmp.Or(t.TimeoutS, api.ToolTimeoutS) * float64(time.Second))
}

// New validates a tool.
func New(t api.Tool) (*Tool, error) {
	if err := checkName(t.Name); err != nil {
		return nil, err
	}
	if !(t.TimeoutS >= 0 && t.TimeoutS <= maxTimeout) {
		return nil, fmt.Errorf("timeout_s must be between 0 (%d s) and %d", api.ToolTimeoutS, maxTimeout)
	}
	checked := &Tool{Tool: t, Bytes: len(t.Name) + len(t.Description) + len(t.Parameters)}
	if t.Parameters == nil || t.Parameters.Kind() == 'n' {
		checked.Parameters = nil
		return checked, nil
	}
	if checked.Bytes > MaxBytes {
		return nil, fmt.Errorf("its description and schema have %d bytes; the limit for all tools of a session is %d", checked.Bytes, MaxBytes)
	}
	var err error
	if checked.Schema, err = schema.Compile(t.Parameters); err != nil {
		return nil, fmt.Errorf("parameters: %w", err)
	}
	checked.Parameters = slices.Clone(t.Parameters)
	return checked, nil
}

// NewForClient validates a tool that a client carries out itself.
func NewForClient(t api.Tool) (*Tool, error) {
	if t.URL != "" {
		return nil, fmt.Errorf("it has a url, and webhooks are given in the body of the request that creates the session")
	}
	return New(t)
}

// moduleNames are the names that hermes_tools itself defines.
var moduleNames = strings.Fields("aio servers search_tools json_parse shell_quote retry " +
	"ToolError ToolUnavailable ToolTimeout ToolLimit ProviderGone ApprovalDenied")

// keywords are Python's.
var keywords = strings.Fields("False None True and as assert async await break class continue def del elif else except finally " +
	"for from global if import in is lambda nonlocal not or pass raise return try while with yield")

func checkName(name string) error {
	letter := func(c byte) bool { return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' }
	switch {
	case name == "":
		return fmt.Errorf("it has no name")
	case len(name) > 64:
		return fmt.Errorf("its name is longer than 64 bytes")
	case !letter(name[0]):
		return fmt.Errorf("its name must begin with a letter")
	case slices.Contains(keywords, name):
		return fmt.Errorf("its name is a Python keyword")
	case slices.Contains(moduleNames, name):
		return fmt.Errorf("hermes_tools itself defines %s", name)
	}
	for i := range len(name) {
		if c := name[i]; !letter(c) && c != '_' && (c < '0' || c > '9') {
			return fmt.Errorf("its name may only have ASCII letters, digits and underscores")
		}
	}
	return nil
}

// CheckList bounds the tools of an execution's request.
func CheckList(list []api.Tool) error {
	size := 0
	for _, t := range list {
		size += len(t.Name) + len(t.Description) + len(t.Parameters)
	}
	if len(list) > MaxTools || size > MaxBytes {
		return api.Errorf(api.CodeInvalidRequest, "tools: an execution may have %d tools, with %d bytes of names, descriptions and schemas", MaxTools, MaxBytes)
	}
	return nil
}

// SameHooks reports whether two lists have the same webhooks in the same order.
func SameHooks(a, b []api.Tool) bool {
	return slices.EqualFunc(a, b, func(x, y api.Tool) bool {
		parameters := string(x.Parameters) == string(y.Parameters)
		x.Parameters, y.Parameters = nil, nil
		one, errOne := api.Marshal(x)
		other, errOther := api.Marshal(y)
		return parameters && errOne == nil && errOther == nil && string(one) == string(other)
	})
}

// Same reports whether the description of a tool is unchanged.
func (t *Tool) Same(other api.Tool) bool {
	return t.Description == other.Description && string(t.Parameters) == string(other.Parameters) &&
		t.ReadOnly == other.ReadOnly && t.Idempotent == other.Idempotent
}
