// Package landlock is the tier that isolates without namespaces, for stock containers, which forbid them.
//
// A sandbox is confined by Landlock (which files it reaches, no connections, no signals to others), by a filter of
// system calls (no sockets except pairs), by resource limits and, if the host is root, by a user id of its own.
package landlock

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"talaria/kernel"
	"talaria/kernel/sandbox"
	"talaria/kernel/seccomp"
)

// Tier is the backend's name.
const Tier = "landlock"

// The versions of Landlock that a sandbox needs at least. The first one bounds signals; before the second, no file
// could move to another folder.
const (
	boundedSignals = 6
	movingFiles    = 2
)

// sharedProcesses is the room left for the processes of others under a limit that counts them too.
const sharedProcesses = 1024

// New makes a backend of this tier, as [sandbox.New] does.
func New(cfg sandbox.Config) (*sandbox.Backend, error) {
	b, err := sandbox.New(cfg, &tier{root: os.Geteuid() == 0})
	if err != nil {
		return nil, fmt.Errorf("tier %s: %w", Tier, err)
	}
	return b, nil
}

// tier is safe for concurrent use.
type tier struct {
	root bool // each session has a user id of its own
}

func (*tier) Name() string { return Tier }

func (*tier) Attributes() (*syscall.SysProcAttr, error) {
	return &syscall.SysProcAttr{Setsid: true}, nil
}

func (*tier) Contained() bool { return false }

func (t *tier) Calls() seccomp.Filter { return seccomp.LandlockTierCalls(!t.root) }

func (t *tier) Modes() seccomp.Filter {
	if t.root {
		return seccomp.Filter{}
	}
	return seccomp.ModeCalls()
}

func (t *tier) Landlock(version int) error {
	switch {
	case !t.root && version < boundedSignals:
		return fmt.Errorf("Landlock ABI %d cannot restrict signals, which sessions of one user require", version)
	case version < movingFiles:
		return fmt.Errorf("Landlock ABI %d would not let any file be moved to another folder", version)
	}
	return nil
}

func (t *tier) Layers() []string {
	layers := []string{
		"no namespaces: the machine's system files can be read, and its processes and network interfaces are partly visible",
		"files: an allow-list enforced by Landlock",
		"network: none, no sockets except connected pairs",
		"inotify: none",
	}
	if t.root {
		return append(layers, "timers and queued signals: RLIMIT_SIGPENDING, 1024")
	}
	return append(layers, "only modes of the session's own files can be changed, and no owners",
		"timers and queued signals: RLIMIT_SIGPENDING, 1024 for all sessions together")
}

// Processes counts what the user already runs if sessions share that user: the limit covers all of it.
func (t *tier) Processes(pids int64) (int64, string) {
	if t.root {
		return pids, fmt.Sprintf("RLIMIT_NPROC, %d", pids)
	}
	return userTasks() + pids + sharedProcesses, fmt.Sprintf("RLIMIT_NPROC, shared by everything that the server's user runs: "+
		"%d more than when the session's kernel started", pids+sharedProcesses)
}

func (*tier) Fence() string {
	return "reading the system, writing in the session's own directories, no signals to other sessions"
}

func (*tier) Causes() []kernel.Finding { return nil }

// Remedy knows the steps of talaria_init by name.
func (*tier) Remedy(step string, err error) string {
	switch {
	case step == "outer fence" || step == "bound signals":
		return "use Linux 5.19 or later with Landlock; in a container, allow landlock_create_ruleset, landlock_add_rule and " +
			"landlock_restrict_self in its seccomp profile, as Docker's own does"
	case step == "user id" || step == "bounding set":
		return "give root in this container the capabilities SETUID, SETGID and SETPCAP, or run as an ordinary user " +
			"(Linux 6.12 or later)"
	case step == "check signals":
		return "use Linux 6.12 or later, since an ordinary user needs Landlock ABI 6, or run as root"
	case errors.Is(err, unix.EINVAL) && os.Geteuid() == 0:
		return "set uid_base to a user id from which this container has as many as there will be sessions " +
			"(see /proc/self/uid_map)"
	case errors.Is(err, unix.EACCES) && os.Geteuid() == 0:
		return "let session users reach the state directory and the interpreter: let others traverse each directory on " +
			"the way (chmod o+x), or choose another --state-dir or python"
	}
	return ""
}
