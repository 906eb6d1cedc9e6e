package main

import (
	"fmt"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// The tests here hold docs/configuration.md and docs/cli.md to the code.

func page(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile("../../docs/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestTheConfigurationPageHasExactlyTheKeysAndTheirDefaults(t *testing.T) {
	text := page(t, "configuration.md")
	documented := map[string]string{} // the default by key
	for _, row := range regexp.MustCompile("(?m)^\\| `([a-z0-9_.]+)` \\| ([^|]*) \\|").FindAllStringSubmatch(text, -1) {
		documented[row[1]] = row[2]
	}
	for _, s := range defaults().settings() {
		section, name, nested := strings.Cut(s.Key, ".")
		if nested && (section == "limits" || section == "ceilings") {
			row := regexp.MustCompile("(?m)^\\| `" + name + "` \\| [^|]* \\| ([^|]*) \\| ([^|]*) \\|").FindStringSubmatch(text)
			want := fmt.Sprint(s.Value)
			if f, ok := s.Value.(float64); ok {
				want = fmt.Sprintf("%g", f)
			}
			column := map[string]int{"limits": 1, "ceilings": 2}[section]
			if row == nil || row[column] != "`"+want+"`" {
				t.Errorf("docs/configuration.md has %q for %s, which is %s", row, s.Key, want)
			}
			delete(documented, name)
			continue
		}
		given, ok := documented[s.Key]
		delete(documented, s.Key)
		if value := reflect.ValueOf(s.Value); !ok {
			t.Errorf("docs/configuration.md lacks %s", s.Key)
		} else if s.Key != "state_dir" && value.Kind() != reflect.Slice && s.text() != `""` && given != "`"+strings.Trim(s.text(), `"`)+"`" {
			t.Errorf("docs/configuration.md has the default %s of %s, which is %s", given, s.Key, s.text())
		}
	}
	for key := range documented {
		t.Errorf("docs/configuration.md has %s, which is not a key", key)
	}
}

// everyCommand calls visit with each command that help shows.
func everyCommand(root *cobra.Command, visit func(*cobra.Command)) {
	for _, cmd := range root.Commands() {
		if cmd.IsAvailableCommand() && cmd.Name() != "help" && cmd.Name() != "completion" {
			visit(cmd)
			everyCommand(cmd, visit)
		}
	}
}

func TestTheCommandPageHasEveryCommandAndFlag(t *testing.T) {
	text := page(t, "cli.md")
	known := map[string]bool{}
	everyCommand(command(), func(cmd *cobra.Command) {
		known[cmd.CommandPath()] = true
		if !strings.Contains(text, "`"+cmd.CommandPath()) {
			t.Errorf("docs/cli.md lacks %q", cmd.CommandPath())
		}
		if cmd.Name() == "serve" || cmd.Name() == "config" || cmd.Name() == "host" {
			return // their flags are keys of the configuration
		}
		cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if !f.Hidden && f.Name != "help" && !strings.Contains(text, "`--"+f.Name) {
				t.Errorf("docs/cli.md lacks --%s of %q", f.Name, cmd.CommandPath())
			}
		})
	})
	for _, named := range regexp.MustCompile("(?m)^\\| `(talaria [a-z ]*[a-z])").FindAllStringSubmatch(text, -1) {
		if !known[named[1]] {
			t.Errorf("docs/cli.md has %q, which is not a command", named[1])
		}
	}
}

// withoutJSON are the commands that show nothing of their own: they talk to a person or to a program, or run until they are stopped.
var withoutJSON = []string{
	"talaria repl", "talaria attach", "talaria mcp", "talaria jupyter", "talaria jupyter kernel", "talaria host", "talaria gateway", "talaria gateway telegram", "talaria gateway slack",
}

func TestEveryCommandThatShowsSomethingPrintsJSON(t *testing.T) {
	everyCommand(command(), func(cmd *cobra.Command) {
		has, excused := cmd.Flag("json") != nil, slices.Contains(withoutJSON, cmd.CommandPath())
		if has == excused {
			t.Errorf("%s has --json: %v", cmd.CommandPath(), has)
		}
	})
}

func TestTheCommandPageHasTheExitCodes(t *testing.T) {
	text := page(t, "cli.md")
	for _, code := range []int{0, exitFailed, exitUsage, exitUnreachable, exitTimeout, exitInterrupted, exitDied} {
		if !strings.Contains(text, fmt.Sprintf("\n| %d | ", code)) {
			t.Errorf("docs/cli.md lacks the exit code %d", code)
		}
	}
}

func TestEveryCommandHasAGroupAndASentenceAndHelp(t *testing.T) {
	root := command()
	for _, cmd := range root.Commands() {
		if cmd.IsAvailableCommand() && cmd.Name() != "help" && cmd.Name() != "completion" && cmd.GroupID == "" {
			t.Errorf("%s is in no group", cmd.Name())
		}
	}
	everyCommand(root, func(cmd *cobra.Command) {
		if cmd.Short == "" || strings.HasSuffix(cmd.Short, ".") {
			t.Errorf("%s: %q", cmd.CommandPath(), cmd.Short)
		}
	})
}
