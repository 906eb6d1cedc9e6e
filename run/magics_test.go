package run

import (
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"testing"
)

// TestTheMagicsCompileAsWeDo holds %%c and %%cpp, which run inside of kernels, to the options of this package.
func TestTheMagicsCompileAsWeDo(t *testing.T) {
	text, err := os.ReadFile("../kernel/runner/talaria_runner/ipython/magics/programs.py")
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`(?m)^cell_\w+ = _compiled\("(\w+)", (\[.*?\]), (\[.*?\])\)$`).FindAllSubmatch(text, -1)
	if len(found) != 2 {
		t.Fatalf("programs.py has %d magics that compile, not 2", len(found))
	}
	for _, m := range found {
		var before, after []string
		if json.Unmarshal(m[2], &before) != nil || json.Unmarshal(m[3], &after) != nil {
			t.Fatalf("the options of %s are not understood", m[0])
		}
		l := languageOf(string(m[1]))
		if l == nil {
			t.Fatalf("there is no language %s", m[1])
		}
		compiler := l.programs[0]
		ours := l.compile(Toolchain{Programs: map[string]string{compiler: compiler}}, source{entry: l.main})
		ours = slices.DeleteFunc(ours, func(option string) bool { return option == "-o" || option == program || option == "./"+l.main })
		at := slices.Index(before, "-x") // the source comes from standard input there, which needs a language
		if at < 0 {
			t.Fatalf("%s names no language", m[0])
		}
		if theirs := slices.Concat(before[:at], after); !slices.Equal(ours, theirs) {
			t.Errorf("%%%%%s compiles with %v, POST /v1/run with %v", m[1], theirs, ours)
		}
	}
}
