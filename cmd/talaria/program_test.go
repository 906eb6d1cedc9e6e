package main

import (
	"errors"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// startAs has the program believe that it was started by that name.
func startAs(t *testing.T, name string) {
	before := program
	program = name
	t.Cleanup(func() { program = before })
}

func TestHelpNamesTheProgramAsItWasStarted(t *testing.T) {
	startAs(t, "bin/other")
	seen := 0
	check := func(cmd *cobra.Command) {
		for _, text := range []string{cmd.Example, cmd.Long} {
			if strings.Contains(text, "talaria ") {
				t.Errorf("%s: %s", cmd.CommandPath(), text)
			}
			seen += strings.Count(text, "bin/other ")
		}
	}
	root := command()
	check(root)
	everyCommand(root, check)
	if seen == 0 {
		t.Error("no help names the program")
	}
}

func TestAMachineWithoutIsolationPointsToTheDoctorByTheProgramsName(t *testing.T) {
	startAs(t, "bin/other")
	c := defaults()
	c.Tier = "none of the tiers"
	_, _, err := isolate(t.Context(), c, nil, "test", nil)
	if !errors.Is(err, errNoIsolation) || !strings.Contains(err.Error(), "bin/other doctor") {
		t.Error(err)
	}
}
