package toolspec_test

import (
	"regexp"
	"slices"
	"testing"

	"talaria/session/toolspec"
)

// TestTheBuiltinToolsAreThoseOfTheProtocol is rows P02 and P05: the names of the protocol but for those that need the web,
// in order, each with one line that says what it returns.
func TestTheBuiltinToolsAreThoseOfTheProtocol(t *testing.T) {
	shape := regexp.MustCompile(`^[^\n]+ Returns \{[^}\n]+\}\.$`)
	var names []string
	for _, tool := range toolspec.BuiltinTools() {
		names = append(names, tool.Name)
		if !shape.MatchString(tool.Description) {
			t.Errorf("%s is described as %q", tool.Name, tool.Description)
		}
	}
	if want := []string{"patch", "read_file", "search_files", "terminal", "write_file"}; !slices.Equal(names, want) {
		t.Errorf("the built-in tools are %q, want %q", names, want)
	}
}
