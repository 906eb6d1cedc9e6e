package e2e

import (
	"os/exec"
	"testing"
)

func TestTheThirdPartyNoticesAreCurrent(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), "go", "run", "./e2e/notices", "-check")
	cmd.Dir = ".."
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}
