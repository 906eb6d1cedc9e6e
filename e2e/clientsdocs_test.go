package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestTheTableOfClientsListsWhatTestsRun holds docs/clients.md to the tests: each row names tests that exist, and each package that
// a test installs has a row with its version.
func TestTheTableOfClientsListsWhatTestsRun(t *testing.T) {
	text, err := os.ReadFile("../docs/clients.md")
	if err != nil {
		t.Fatal(err)
	}
	tests := testFunctions(t)
	var rows []string
	table, _, _ := strings.Cut(string(text), "\n## ")
	for line := range strings.Lines(table) {
		if line = strings.TrimSpace(line); !strings.HasPrefix(line, "|") || strings.HasPrefix(line, "| client |") || strings.HasPrefix(line, "|---") {
			continue
		}
		rows = append(rows, line)
		cells := strings.Split(strings.Trim(line, "|"), "|")
		if len(cells) != 6 {
			t.Errorf("a row has %d columns, not 6: %s", len(cells), line)
			continue
		}
		named := regexp.MustCompile("`(Test[A-Za-z0-9]+)`").FindAllStringSubmatch(cells[5], -1)
		if len(named) == 0 {
			t.Errorf("a row names no test: %s", line)
		}
		for _, name := range named {
			if !tests[name[1]] {
				t.Errorf("there is no test %s, which runs %s", name[1], strings.TrimSpace(cells[0]))
			}
		}
	}
	for name, version := range installedPackages(t) {
		found := false
		for _, row := range rows {
			found = found || strings.Contains(row, "`"+name+"`") && strings.Contains(row, version)
		}
		if !found {
			t.Errorf("docs/clients.md has no row for %s %s, which a test installs", name, version)
		}
	}
}

// testFunctions are the names of the tests of this package.
func testFunctions(t *testing.T) map[string]bool {
	t.Helper()
	files, err := filepath.Glob("*_test.go")
	if err != nil || len(files) == 0 {
		t.Fatalf("no tests (%v)", err)
	}
	names := map[string]bool{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`(?m)^func (Test\w+)\(t \*testing\.T\)`).FindAllStringSubmatch(string(text), -1) {
			names[m[1]] = true
		}
	}
	return names
}

// installedPackages are the clients that tests install from npm, and the module that they are built with, with their versions. Of two
// versions of a package, one counts.
func installedPackages(t *testing.T) map[string]string {
	t.Helper()
	versions := map[string]string{}
	files, err := filepath.Glob("testdata/*/package.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("no packages (%v)", err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var p struct {
			Dependencies map[string]string `json:"dependencies"`
		}
		if err := json.Unmarshal(text, &p); err != nil {
			t.Fatal(err)
		}
		for name, version := range p.Dependencies {
			if alias, ok := strings.CutPrefix(version, "npm:"); ok {
				at := strings.LastIndex(alias, "@")
				name, version = alias[:at], alias[at+1:]
			}
			if name != "ws" { // the WebSocket of the other packages
				versions[name] = version
			}
		}
	}
	text, err := os.ReadFile("../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	sdk := regexp.MustCompile(`github\.com/(modelcontextprotocol/go-sdk) v(\S+)`).FindStringSubmatch(string(text))
	if sdk == nil {
		t.Fatal("go.mod has no SDK of the Model Context Protocol")
	}
	versions[sdk[1]] = sdk[2]
	return versions
}
