package battery

import (
	"embed"
	"fmt"
	"strings"
)

//go:embed expected
var expected embed.FS

// Promise is what a table says about a check: how it ends, or that it is pending, because the program does not do it
// yet. Without names a need; a machine that lacks it cannot run the check, or watches a limit that others enforce. A
// check promised to be [Bounded] may also pass: whether a watched limit is exceeded at all depends on the moment.
type Promise struct {
	Outcome Outcome
	Without Need
}

// Pending promises nothing: the check fails, and if it passes, the table needs correcting.
const Pending Outcome = "pending"

// Table is what a tier promises, by the names of checks.
type Table map[string]Promise

// Tables are the names that [ReadTable] accepts.
var Tables = []string{"namespace-root", "namespace-user", "landlock-root", "landlock-user"}

// ReadTable reads the table of a tier and an identity. Each line is a name, an outcome and, if the machine may lack
// something, "without NEED". The text after a # is for people.
func ReadTable(name string) (Table, error) {
	text, err := expected.ReadFile("expected/" + name + ".txt")
	if err != nil {
		return nil, fmt.Errorf("there is no table of expected results %q", name)
	}
	table := Table{}
	for line := range strings.Lines(string(text)) {
		line, _, _ = strings.Cut(line, "#")
		fields := strings.Fields(line)
		switch {
		case len(fields) == 0:
			continue
		case len(fields) != 2 && (len(fields) != 4 || fields[2] != "without"):
			return nil, fmt.Errorf("expected results of %s: %q is not a valid line", name, strings.TrimSpace(line))
		}
		p := Promise{Outcome: Outcome(fields[1])}
		switch p.Outcome {
		case Passed, Bounded, NotRun, Pending:
		default:
			return nil, fmt.Errorf("expected results of %s: %s cannot be %q", name, fields[0], fields[1])
		}
		if len(fields) == 4 {
			p.Without = Need(fields[3])
		}
		if _, twice := table[fields[0]]; twice {
			return nil, fmt.Errorf("expected results of %s: %s is there twice", name, fields[0])
		}
		table[fields[0]] = p
	}
	return table, nil
}

// Differs says how a result differs from what the table promises, or returns "".
func (t Table) Differs(r Result) string {
	p, ok := t[r.Check.Name]
	switch {
	case !ok:
		return "is not in the table"
	case r.Outcome == p.Outcome, r.Outcome == Failed && p.Outcome == Pending, r.Outcome == Passed && p.Outcome == Bounded:
		return ""
	case (r.Outcome == NotRun || r.Outcome == Bounded) && r.Lacks != "" && r.Lacks == p.Without:
		return ""
	case p.Outcome == Pending:
		return fmt.Sprintf("is pending, and ended %q", r.Outcome)
	}
	why := ""
	if r.Detail != "" {
		why = ": " + r.Detail
	}
	return fmt.Sprintf("ended %q, not %q%s", r.Outcome, p.Outcome, why)
}

// Broken reports whether a result is worse than what the table promises.
func (t Table) Broken(r Result) bool {
	p := t[r.Check.Name]
	promised := p.Outcome == Passed || p.Outcome == Bounded
	kept := r.Outcome == Passed || r.Outcome == p.Outcome || (r.Outcome == NotRun || r.Outcome == Bounded) && r.Lacks == p.Without && r.Lacks != ""
	return promised && !kept
}
