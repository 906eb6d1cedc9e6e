package hermes

import (
	"context"
	"errors"
	"regexp"
	"slices"
	"strconv"

	"talaria/session/processes"
)

// ending is the command with which hermes-agent ends a program that continues in the background. It has the number that [launched] named.
// In a sandbox that is the number of no process or of another one, so the shell must not run it; and some sandboxes keep their programs from
// signalling each other.
var ending = regexp.MustCompile(`kill -(TERM|KILL) -- -(\d+) 2>/dev/null \|\| kill -(TERM|KILL) (\d+) 2>/dev/null`)

// endBackground sends the signals of such commands itself, and returns the arguments without them.
func (p *program) endBackground(ctx context.Context, args []string) ([]string, error) {
	if !slices.ContainsFunc(args, ending.MatchString) {
		return args, nil
	}
	all, err := p.Programs().List(ctx)
	if err != nil {
		return nil, err
	}
	args = withoutEndings(args, all, func(id string, signal int) {
		err = errors.Join(err, gone(p.Programs().Signal(ctx, id, signal)))
	})
	return args, err
}

// withoutEndings calls end for each command that ends one of our programs, and puts one in its place that succeeds. It is one that fails
// if no program has the number any more, as on a machine.
func withoutEndings(args []string, programs []processes.Program, end func(id string, signal int)) []string {
	args = slices.Clone(args)
	for i := range args {
		args[i] = ending.ReplaceAllStringFunc(args[i], func(text string) string {
			part := ending.FindStringSubmatch(text)
			at := slices.IndexFunc(programs, func(one processes.Program) bool {
				return one.Tag == tag && one.Place.HostPID > 0 && strconv.Itoa(one.Place.HostPID) == part[2]
			})
			if part[1] != part[3] || part[2] != part[4] {
				return text // not hermes-agent's
			}
			if at < 0 {
				return "false"
			}
			end(programs[at].ID, map[string]int{"TERM": sigterm, "KILL": sigkill}[part[1]])
			return "true"
		})
	}
	return args
}
