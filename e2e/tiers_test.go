package e2e

import (
	"os"
	"os/exec"
	"testing"
)

// tierVariable names the variable that puts all servers of a test run in one tier.
const tierVariable = "TALARIA_E2E_TIER"

// journeys are the tests of what people do with sessions, in whichever tier: they run cells, interrupt and reset them,
// move files, hit limits, and lose servers and hosts.
const journeys = "^(TestTheDataJourney|TestAnInterruptEndsWhatItMeans|TestFilesOverREST|TestArtifactsAreFor.*|" +
	"TestResetEndsWhatRuns.*|TestOutputKeepsItsOrder.*|TestLimitsChange.*|TestNothingThatAnybodySawIsLost.*|" +
	"TestACrashOfTheHost.*|TestSIG.*|TestTheHostIsStopped.*|TestAnUpdateLosesNothing|TestAStrictSession.*|" +
	"TestFilesThatAreMany.*|TestAChildThatTakesTooMuch.*|" +
	"TestAPidOfBeforeAReboot.*)$"

func TestTheJourneysInTierLandlock(t *testing.T) {
	t.Parallel()
	if os.Getenv(tierVariable) != "" {
		t.Skip("this is that run")
	}
	if testing.Short() {
		t.Skip("runs tests for a second time")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	again := exec.CommandContext(t.Context(), self, "-test.run="+journeys, "-test.timeout=30m", "-test.parallel=2")
	again.Env = append(os.Environ(), tierVariable+"=landlock", "TALARIA_BIN="+binary)
	again.Stdout, again.Stderr = t.Output(), t.Output()
	if err := again.Run(); err != nil {
		t.Error(err)
	}
}
