package sandbox_test

import (
	"os"
	"testing"

	"talaria/kernel"
	"talaria/kernel/kerneltest"
)

func TestConformance(t *testing.T) {
	dir := stateDir(t)
	backend := newBackend(t, dir)
	kerneltest.Conformance(t, backend, environment(t), kerneltest.OwnTree, func(t *testing.T) kernel.Spec { return newSpec(t, dir) })
}

func TestConformanceOfForked(t *testing.T) {
	dir := stateDir(t)
	backend, env := warm(t, dir)
	kerneltest.Conformance(t, backend, env, kerneltest.OwnTree, func(t *testing.T) kernel.Spec { return newSpec(t, dir) })
}

// ordinaryTests are the tests that mean something different for an ordinary user.
const ordinaryTests = "^(TestConformance.*|.*Forked.*|.*ForkServer.*|TestKeeper.*|TestModules.*|TestCloseLeaves.*|" +
	"TestSiblings.*|TestServerDeathEndsSandboxes|TestProbe.*|TestPrepare.*|TestSandboxesOfEachLandlock|TestSealingFailsAt.*)$"

func TestAllAgainAsOrdinaryUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("these tests run as an ordinary user already")
	}
	if testing.Short() {
		t.Skip("runs all tests for a second time")
	}
	cmd := again(t, true, stateDir(t), "-test.v", "-test.run="+ordinaryTests)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("as an ordinary user: %v\n%s", err, out)
	}
}
