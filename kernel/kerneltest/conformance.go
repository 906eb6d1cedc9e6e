package kerneltest

import (
	"context"
	"testing"
	"time"

	"talaria/kernel"
)

// patience bounds things that should happen at once, on a busy machine.
const patience = 60 * time.Second

// View is how much of the machine the processes inside see.
type View int

const (
	// OwnTree means that the sandbox has its own tree of files, its own processes, networks and names.
	OwnTree View = iota
	// OwnFiles means the machine's tree. Files of the system can be read, and nothing else can be opened, although one
	// can see that it exists. There are no sockets, and no names that only this sandbox has.
	OwnFiles
)

// Conformance is the suite that every isolation backend must pass, with real processes. newSpec returns a Spec with
// its own workspace and packages, open for as long as the test runs, and no limits; the suite sets those.
func Conformance(t *testing.T, backend kernel.Backend, env kernel.Environment, view View,
	newSpec func(*testing.T) kernel.Spec) {
	before := takeInventory(t)
	r := &rig{backend: backend, env: env, view: view, newSpec: newSpec}
	for _, c := range []struct {
		name string
		run  func(*testing.T, *rig)
	}{
		{"processes inside see only themselves", seeOnlyThemselves},
		{"the workspace is writable and persists on the host, owned by the session's user", workspacePersists},
		{"the workspace is also where E2B's sandboxes have it", workspaceHasAlias},
		{"packages and the system are read-only", systemIsReadOnly},
		{"there is no network", noNetwork},
		{"no variable of the host is in the environment", noHostVariable},
		{"the session's variables are in the environment", sessionVariables},
		{"there is no capability and no new privilege", noPrivileges},
		{"the runner has no capability either and no way to make namespaces", runnerHasNoPrivileges},
		{"each sandbox has a host name of its own", ownFilesOfEtc},
		{"files of the host are invisible", hostFilesInvisible},
		{"no further namespace can be made", noFurtherNamespaces},
		{"system calls are filtered, for commands and for the runner", callsAreFiltered},
		{"calls of another architecture end the process", foreignCallsKill},
		{"files cannot be written outside of the writable folders, whoever owns them", filesAreFenced},
		{"ordinary programs work", ordinaryProgramsWork},
		{"a command has no descriptors but the standard ones", onlyStandardDescriptors},
		{"the kernel's own interfaces are masked", procIsMasked},
		{"two sandboxes see nothing of each other", sandboxesAreApart},

		{"nothing starts before sealing and nothing is sealed twice", sealOnce},
		{"a workspace elsewhere is refused", foreignWorkspaceRefused},
		{"exit codes and signals are reported", exitsAreReported},
		{"a command that does not exist is an error of Start", missingCommand},
		{"a second command runs beside the first", secondCommand},
		{"a signal reaches only its process", signalReachesOnlyItsProcess},
		{"a process says where it is", processesAreLocated},
		{"a process group ends with its program", groupsEnd},
		{"a process group can be signalled", groupsAreSignalled},
		{"orphans are reaped", orphansAreReaped},
		{"a command reads its standard input", commandsReadStdin},
		{"a script runs like a program of its own", scriptsRun},
		{"a script ends like a program of its own", scriptsEnd},
		{"Close ends daemons that ignore signals, and may be repeated", closeKillsDaemons},
		{"a closed sandbox refuses everything", closedRefuses},
		{"a create that is called off leaves nothing", createCalledOff},
		{"twenty sandboxes live at once", twentyAtOnce},

		{"memory has a limit", memoryLimit},
		{"a fork bomb is held and does not outlive Close", forkBombIsHeld},
		{"a file has a size limit", fileSizeLimit},
		{"temporary files have a size limit", tmpLimit},
		{"limits can change or say that they cannot", limitsChange},
		{"usage covers what runs inside", usageIsReal},
		{"the listed processes are those of now", usageIsCurrent},
		{"writing can be stopped and go on", writingStops},
		{"writing can be stopped while processes are started", writingStopsForForks},
		{"what is deleted and open is counted, and the largest process killed", watchedIsSeen},
		{"interpreters are not among the processes that are killed for memory", watchedSparesInterpreters},
		{"pages that processes share count once", watchedSharesPages},
		{"what is deleted and on its way or mapped is counted, and stays there", namelessIsSeen},

		{"the runner answers on its control stream", runnerAnswers},
		{"a runner beside the first one shares its files and processes, and ends alone", runnerBeside},
		{"a runner beside the first one ends while it waits for a child to run its program", runnerBesideWaits},
		{"processes that are stopped before they run do not hold up others", startsAreStopped},
		{"the runner has no descriptors but the standard ones and control", runnerDescriptors},
		{"the runner is an ordinary interpreter", runnerIsOrdinary},
		{"the runner has room for sixty threads in 512 MiB", runnerThreads},
		{"a runner that dies is reported", runnerDies},
		{"packages of the session are found", packagesAreFound},
		{"programs ask the runner for packages", programsAskForPackages},
		{"packages are installed through the host", installsThroughItsHost},
	} {
		t.Run(c.name, func(t *testing.T) { c.run(t, r) })
	}
	t.Run("nothing is left", func(t *testing.T) {
		before.compare(t)
		r.nothingLeft(t)
	})
}

// rig makes sandboxes and remembers their handles.
type rig struct {
	backend kernel.Backend
	env     kernel.Environment
	view    View
	newSpec func(*testing.T) kernel.Spec
	handles []kernel.Handle
}

// create makes a parked sandbox that is closed at the end of the test.
func (r *rig) create(t *testing.T) kernel.Sandbox {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	s, err := r.backend.Create(ctx, r.env, false)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	r.handles = append(r.handles, s.Handle())
	return s
}

// sealed makes a sealed sandbox that is closed at the end of the test.
func (r *rig) sealed(t *testing.T, changes ...func(*kernel.Spec)) kernel.Sandbox {
	t.Helper()
	s, _ := r.sealedSpec(t, changes...)
	return s
}

func (r *rig) sealedSpec(t *testing.T, changes ...func(*kernel.Spec)) (kernel.Sandbox, kernel.Spec) {
	t.Helper()
	spec := r.newSpec(t)
	for _, change := range changes {
		change(&spec)
	}
	s := r.create(t)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := s.Seal(ctx, spec); err != nil {
		t.Fatal(err)
	}
	return s, spec
}
