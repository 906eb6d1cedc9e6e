// Package battery is a list of named checks that try to abuse a session, each run against a real server. A check
// reports what it saw, and the tables in expected say what each tier promises.
//
// Checks need only the wire contract and this machine: cells try the abuse, and the effect is judged from outside, by
// the execution, the log, the files and the processes.
package battery

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"talaria/api"
)

// Outcome is the result of a check.
type Outcome string

// The outcomes. A check that could not be run is NotRun, never Passed.
const (
	Passed  Outcome = "pass"
	Bounded Outcome = "bounded" // the limit was exceeded, by a bounded amount
	Failed  Outcome = "fail"
	NotRun  Outcome = "not-run"
)

// Check is one abuse and how it has to end. Cell runs after the prelude, in a session with the battery's limits, and
// reports what it saw; Judge looks at that and at whatever else it needs. A check without a Cell consists of Judge
// alone.
type Check struct {
	Name  string // group/what
	Quick bool   // takes well under a second
	Alone bool   // needs a session for itself, since it spoils it
	Needs []Need
	// Holds names what enforces the limit under test. Without it the limit is watched, and may be exceeded a little.
	Holds Need
	Cell  string
	// Request says how the cell is run, and Limits are the limits of a session that is Alone; both are optional.
	Request api.ExecutionRequest
	Limits  api.LimitsRequest
	// Judge returns nil if the check has passed, or what is wrong; [bounded] and [cannotRun] are errors too.
	Judge func(t *Trial) error
}

// Group returns the first part of the name.
func (c Check) Group() string {
	group, _, _ := strings.Cut(c.Name, "/")
	return group
}

// Need is something that a check needs from the machine or the server.
type Need string

// The needs. Those about control groups are read from the layers that a session lists.
const (
	NeedMemoryGroup Need = "memory-cgroup"
	NeedCPUGroup    Need = "cpu-cgroup"
	NeedHeldDisk    Need = "held-disk"   // the operating system enforces the limits of workspaces
	NeedRoot        Need = "root"        // the server runs as root
	NeedOtherOwner  Need = "other-owner" // a second owner's token
)

// groups are the groups of checks, in the order of the table.
var groups = []struct {
	name   string
	checks []Check
}{
	{"syscalls", syscalls},
	{"sockets", slices.Concat(sockets, socketOptions)},
	{"files", slices.Concat(files, fileFigures)},
	{"process", processState},
	{"exhaustion", slices.Concat(exhaustion, exhaustionCounts, exhaustionBudgets, exhaustionMemory)},
	{"lifetime", slices.Concat(lifetime, lifetimeAsking)},
	{"control", control},
	{"paths", paths},
	{"output", slices.Concat(output, outputSecrets)},
	{"network", network},
	{"sessions", slices.Concat(crossSession, sessionShared)},
	{"outside", clients},
}

// Checks returns all checks, group by group. The caller owns the slice.
func Checks() []Check {
	var all []Check
	for _, g := range groups {
		all = append(all, g.checks...)
	}
	return all
}

// quick returns the checks for a quick look at a machine.
func quick(all []Check) []Check {
	return slices.DeleteFunc(all, func(c Check) bool { return !c.Quick })
}

type boundedError struct{ by string }

func (e boundedError) Error() string { return e.by }

// bounded returns the judge's error for a limit that was exceeded by a bounded amount.
func bounded(format string, args ...any) error { return boundedError{fmt.Sprintf(format, args...)} }

type cannotRunError struct{ why string }

func (e cannotRunError) Error() string { return e.why }

// cannotRun returns the judge's error for a check that turned out to be impossible.
func cannotRun(format string, args ...any) error { return cannotRunError{fmt.Sprintf(format, args...)} }

func outcomeOf(err error) Outcome {
	switch {
	case err == nil:
		return Passed
	case errors.As(err, new(boundedError)):
		return Bounded
	case errors.As(err, new(cannotRunError)):
		return NotRun
	}
	return Failed
}

// asks makes a quick check of one Python expression, whose value must be one of the words.
func asks(name, expression string, words ...string) Check {
	return Check{Name: name, Quick: true, Cell: "say(saw=" + expression + ")", Judge: saw("saw", words...)}
}

// orInLandlock returns the check with other words for sessions that see the machine's tree, of which Landlock lets them
// open little.
func orInLandlock(c Check, words ...string) Check {
	own, inLandlock := c.Judge, saw("saw", words...)
	c.Judge = func(t *Trial) error {
		if t.Server.ownFiles {
			return inLandlock(t)
		}
		return own(t)
	}
	return c
}

// alone gives a check a session for itself.
func alone(c Check) Check {
	c.Alone = true
	return c
}

// saw returns a judge of one thing that the cell saw: as text, it must be one of the words.
func saw(what string, words ...string) func(*Trial) error {
	return func(t *Trial) error {
		if t.Saw == nil {
			return fmt.Errorf("the cell saw nothing: it ended %s %s\n%.600s", t.Execution.Status, t.Execution.Reason, t.Execution.Text)
		}
		got := fmt.Sprint(t.Saw[what])
		if !slices.Contains(words, got) {
			return fmt.Errorf("%s is %q, want %s", what, got, strings.Join(words, " or "))
		}
		return nil
	}
}

// all runs the judges in turn, and returns the first complaint.
func all(judges ...func(*Trial) error) func(*Trial) error {
	return func(t *Trial) error {
		for _, judge := range judges {
			if err := judge(t); err != nil {
				return err
			}
		}
		return nil
	}
}
