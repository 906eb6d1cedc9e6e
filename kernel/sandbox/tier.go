package sandbox

import (
	"syscall"

	"talaria/kernel"
	"talaria/kernel/seccomp"
)

// Tier is what one way to isolate does differently from the others. Its methods are safe for concurrent use and change
// nothing.
type Tier interface {
	// Name names the tier for operators, and for talaria_init, which takes the tier's own steps inside.
	Name() string
	// Attributes returns the attributes that pid 1 is started with.
	Attributes() (*syscall.SysProcAttr, error)
	// Contained reports whether a sandbox has a file tree and process ids of its own, so that the operating system
	// ends everything inside together with pid 1. Otherwise pid 1 stays outside and ends what it has started before it
	// ends itself, and temporary files are in a directory of the machine.
	Contained() bool
	// Calls returns the filter of system calls.
	Calls() seccomp.Filter
	// Modes returns a filter that hands changes of file modes to pid 1; it is empty if every process may make them.
	Modes() seccomp.Filter
	// Landlock returns an error if a version of Landlock is too old. Version 0 means that there is none.
	Landlock(version int) error
	// Layers describes what isolates a sandbox, except for limits, filters and users, which the engine describes.
	Layers() []string
	// Processes returns the RLIMIT_NPROC that stands in for a control group, 0 for none, and its description.
	Processes(pids int64) (limit int64, words string)
	// Remedy says what an operator can do about a failed step of talaria_init. It returns "" if only the engine knows.
	Remedy(step string, err error) string
	// Causes looks for what forbids sandboxes, if none can be made.
	Causes() []kernel.Finding
	// Fence describes what Landlock is used for.
	Fence() string
}
