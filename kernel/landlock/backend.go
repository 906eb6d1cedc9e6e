// Package landlock isolates without namespaces, for stock containers, which forbid them: tier "landlock".
//
// A sandbox is held by Landlock (what files it reaches, no connections, no signals for others), by a filter of system
// calls (no sockets but pairs), by resource limits and, where the host is root, by a user id of its own. All else, from
// the pid 1 in Python to control groups and fork servers, is as in package namespace, which this tier is a variant of.
package landlock

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"talaria/kernel"
	"talaria/kernel/namespace"
	"talaria/kernel/seccomp"
)

// Tier is the backend's name.
const Tier = "landlock"

// The versions of Landlock that a sandbox takes at least. With the first, signals have bounds; before the second, no file
// could move to another folder.
const (
	boundedSignals = 6
	movingFiles    = 2
)

// sharedProcesses is the room for processes of others that a limit which they count for as well leaves.
const sharedProcesses = 1024

// New makes a backend as [namespace.New] does, of this tier. cfg.Isolation is of no account.
func New(cfg namespace.Config) (*namespace.Backend, error) {
	cfg.Isolation = &isolation{root: os.Geteuid() == 0}
	b, err := namespace.New(cfg)
	if err != nil {
		return nil, fmt.Errorf("tier %s: %w", Tier, err)
	}
	return b, nil
}

// isolation is this tier. It is safe for concurrent use.
type isolation struct {
	root bool // each session has a user id of its own
}

func (*isolation) Tier() string { return Tier }

func (*isolation) Attributes() (*syscall.SysProcAttr, error) {
	return &syscall.SysProcAttr{Setsid: true}, nil
}

func (*isolation) Contained() bool { return false }

func (i *isolation) Calls() seccomp.Filter { return seccomp.FencedCalls(!i.root) }

func (i *isolation) Modes() seccomp.Filter {
	if i.root {
		return seccomp.Filter{}
	}
	return seccomp.ModeCalls()
}

func (i *isolation) Landlock(version int) error {
	switch {
	case !i.root && version < boundedSignals:
		return fmt.Errorf("Landlock ABI %d has no bounds for signals, which sessions of one user need", version)
	case version < movingFiles:
		return fmt.Errorf("Landlock ABI %d would let no file move to another folder", version)
	}
	return nil
}

func (i *isolation) Layers() []string {
	layers := []string{
		"no namespaces: the machine's system files can be read, its processes and network interfaces are in part visible",
		"files: by Landlock from an allow-list",
		"network: none, no sockets but connected pairs",
		"inotify: none",
	}
	if i.root {
		return append(layers, "timers and queued signals: RLIMIT_SIGPENDING, 1024")
	}
	return append(layers, "modes of the session's own files only can be changed, and no owners",
		"timers and queued signals: RLIMIT_SIGPENDING, 1024 for all sessions together")
}

// Processes counts what the user runs where it is everybody's: the limit is for all of that.
func (i *isolation) Processes(pids int64) (int64, string) {
	if i.root {
		return pids, fmt.Sprintf("RLIMIT_NPROC, %d", pids)
	}
	return userTasks() + pids + sharedProcesses, fmt.Sprintf("RLIMIT_NPROC, shared by all that the server's user runs: "+
		"%d more than when the session's kernel started", pids+sharedProcesses)
}

func (*isolation) Fence() string {
	return "reading the system, writing in the session's own directories, no signals for others"
}

func (*isolation) Causes() []kernel.Finding { return nil }

// Remedy knows the steps of talaria_init by their names.
func (*isolation) Remedy(step string, err error) string {
	switch {
	case step == "outer fence" || step == "bound signals":
		return "use Linux 5.19 or later with Landlock; in a container, allow landlock_create_ruleset, landlock_add_rule and " +
			"landlock_restrict_self in its seccomp profile, as Docker's own does"
	case step == "user id" || step == "bounding set":
		return "root in this container has not the capabilities SETUID, SETGID and SETPCAP: add them, or run as an " +
			"ordinary user (Linux 6.12 or later)"
	case step == "check signals":
		return "an ordinary user needs Landlock ABI 6 (Linux 6.12): use a newer kernel, or run as root"
	case errors.Is(err, unix.EINVAL) && os.Geteuid() == 0:
		return "this container has few user ids: set uid-base to where it has as many as there will be sessions " +
			"(/proc/self/uid_map tells)"
	case errors.Is(err, unix.EACCES) && os.Geteuid() == 0:
		return "the users of sessions have to pass to the state directory and to the interpreter: choose another " +
			"--state-dir or python, or let others pass (chmod o+x) each directory on the way"
	}
	return ""
}
