package sandbox_test

import (
	"bufio"
	"context"
	"errors"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"talaria/kernel"
	"talaria/kernel/kerneltest"
	"talaria/kernel/sandbox"
)

func landlockVersion(t *testing.T) int {
	t.Helper()
	version, err := kerneltest.LandlockVersion()
	if err != nil || version < 2 {
		t.Skipf("this kernel has no Landlock of use: ABI %d, %v", version, err)
	}
	return version
}

func TestProbeTellsOfTheFilterAndOfLandlock(t *testing.T) {
	version := landlockVersion(t)
	probe := newBackend(t, stateDir(t)).Probe(t.Context(), environment(t))
	for name, detail := range map[string]string{
		"sandbox":            "landlock: ABI " + strconv.Itoa(min(version, 7)),
		"system call filter": "calls refused",
		"landlock":           "ABI " + strconv.Itoa(min(version, 7)),
	} {
		i := slices.IndexFunc(probe.Findings, func(f kernel.Finding) bool { return f.Name == name })
		if i < 0 || !probe.Findings[i].OK || !strings.Contains(probe.Findings[i].Detail, detail) {
			t.Errorf("no finding %q with %q in %+v", name, detail, probe.Findings)
		}
	}
}

func TestAMissingLandlockHasARemedy(t *testing.T) {
	for err, remedy := range map[error]string{
		unix.EOPNOTSUPP:          "lsm=",
		unix.ENOSYS:              "Linux 5.19",
		unix.EPERM:               "seccomp profile",
		errors.New("an old one"): "Linux 5.19",
	} {
		layers, findings := sandbox.WithoutLandlock(err)
		for _, layer := range layers {
			if strings.HasPrefix(layer, "landlock") {
				t.Errorf("%v: it is named: %q", err, layer)
			}
		}
		last := findings[len(findings)-1]
		if last.Name != "landlock" || last.OK || !strings.Contains(last.Remedy, remedy) {
			t.Errorf("%v: %+v", err, last)
		}
	}
}

// On this kernel, acting as kernels with older versions too.
func TestSandboxesOfEachLandlock(t *testing.T) {
	version := landlockVersion(t)
	const moves = `
import errno, os, stat
os.makedirs("a"); os.makedirs("b"); open("a/x", "w").close(); os.rename("a/x", "b/x"); os.truncate("b/x", 1)
try:
    os.mknod("/tmp/w", stat.S_IFCHR, os.makedev(1, 3))
except OSError as e:
    print({errno.EACCES: "fenced", errno.EPERM: "free"}[e.errno])  # EPERM is due to the capability that it lacks
`
	for _, tried := range []int{0, 2, 3, 4, 5, 6, 7} {
		if tried > version {
			continue
		}
		dir := stateDir(t)
		b := newBackend(t, dir)
		sandbox.UseLandlock(b, tried)
		want, named := "fenced", "landlock: ABI "+strconv.Itoa(tried)
		if tried == 0 {
			want = "free"
		}
		k := interpret(t, create(t, b, environment(t), false), newSpec(t, dir))
		if got := k.run(moves); got != want {
			t.Errorf("ABI %d: %q", tried, got)
		}
		if slices.Contains(k.sandbox.Layers(), named) != (tried > 0) {
			t.Errorf("ABI %d: %q", tried, k.sandbox.Layers())
		}
	}
}

func TestSealingFailsAtALandlockThatIsNotThere(t *testing.T) {
	dir := stateDir(t)
	b := newBackend(t, dir)
	sandbox.UseLandlock(b, 1)
	err := create(t, b, environment(t), false).Seal(t.Context(), newSpec(t, dir))
	if err == nil || !strings.Contains(err.Error(), " landlock: ") {
		t.Errorf("%v", err)
	}
}

func TestSealingFailsAtAFilterThatTheKernelRefuses(t *testing.T) {
	dir := stateDir(t)
	b := newBackend(t, dir)
	sandbox.UseFilter(b, make([]byte, 8))
	err := create(t, b, environment(t), false).Seal(t.Context(), newSpec(t, dir))
	if !errors.Is(err, unix.EINVAL) || !strings.Contains(err.Error(), " system call filter: ") {
		t.Errorf("%v", err)
	}
}

func TestAProcessWithoutFilterIsFoundOut(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can start a process that has given up everything else")
	}
	ctx, cancel := context.WithCancel(t.Context())
	id := strconv.Itoa(sessionUID)
	cmd := exec.CommandContext(ctx, "setpriv", "--reuid", id, "--regid", id, "--clear-groups", "--no-new-privs",
		"--bounding-set=-all", "--inh-caps=-all", "sh", "-c", "echo ready; exec sleep 1000")
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	defer cancel()
	if !bufio.NewScanner(out).Scan() {
		t.Fatal("setpriv failed")
	}
	err = newBackend(t, stateDir(t)).VerifyProcess(cmd.Process.Pid, sessionUID)
	if err == nil || !strings.Contains(err.Error(), "has no system call filter") {
		t.Errorf("%v", err)
	}
}
