package namespace

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"

	"talaria/kernel"
	"talaria/kernel/seccomp"
)

// Isolation is what a tier does in its own way where all else is that of this package: a pid 1 in Python that is
// reached over a socket, control groups, fork servers, limits and their watching. Its methods are safe for concurrent
// use and have no effects.
type Isolation interface {
	// Tier is the name, also for talaria_init, which does the tier's own steps inside.
	Tier() string
	// Attributes are what pid 1 is started with.
	Attributes() (*syscall.SysProcAttr, error)
	// Contained reports whether a sandbox is a world of its own: with a tree of its own, where the kernel ends
	// everything with pid 1, which can be privileged in no other. Else pid 1 stays outside, ends what it has started
	// before it ends itself, and temporary files are in a directory of the machine.
	Contained() bool
	// Calls is the filter of system calls.
	Calls() seccomp.Filter
	// Modes is a filter that hands changes of modes to pid 1, or none where all may make them.
	Modes() seccomp.Filter
	// Landlock says why a version of it is not enough, or nil. Version is 0 where there is none.
	Landlock(version int) error
	// Layers are the words for what isolates a sandbox, but for limits, filters and users.
	Layers() []string
	// Processes is the limit of processes of a user id where no control group holds it, 0 for none, and what is said
	// of it.
	Processes(pids int64) (limit int64, words string)
	// Remedy says what an operator can do about a step of talaria_init that failed, or is "".
	Remedy(step string, err error) string
	// Causes are further findings where no sandbox can be made.
	Causes() []kernel.Finding
	// Fence says what Landlock is for.
	Fence() string
}

// namespaces is this package's own tier.
type namespaces struct{}

func (namespaces) Tier() string { return Tier }

func (namespaces) Attributes() (*syscall.SysProcAttr, error) {
	uids, err := idMappings("uid")
	if err != nil {
		return nil, err
	}
	gids, err := idMappings("gid")
	if err != nil {
		return nil, err
	}
	return &syscall.SysProcAttr{
		Cloneflags: unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWNET |
			unix.CLONE_NEWIPC | unix.CLONE_NEWUTS,
		UidMappings:                uids,
		GidMappings:                gids,
		GidMappingsEnableSetgroups: os.Geteuid() == 0,
		Setsid:                     true,
	}, nil
}

func (namespaces) Contained() bool { return true }

func (namespaces) Calls() seccomp.Filter { return seccomp.Calls() }

func (namespaces) Modes() seccomp.Filter { return seccomp.Filter{} }

func (namespaces) Landlock(int) error { return nil }

// Layers has the numbers of talaria_init, from seal.py and limits.py.
func (namespaces) Layers() []string {
	return []string{
		"namespaces: user (nested), mount, pid, network, ipc, uts, cgroup",
		"files: own root, read-only, from an allow-list",
		"network: none",
		"no further namespaces",
		"inotify: 16 instances and 4096 watches",
		"timers and queued signals: RLIMIT_SIGPENDING, 1024",
	}
}

func (namespaces) Processes(pids int64) (int64, string) {
	return pids + 1, fmt.Sprintf("RLIMIT_NPROC, %d", pids) // and pid 1
}

func (namespaces) Remedy(step string, err error) string {
	switch {
	case step == "landlock", step == "system call filter":
		return ""
	case step == "proc" && errors.Is(err, unix.EPERM):
		return "in a container, /proc is masked: run it with systempaths=unconfined (podman: --security-opt unmask=ALL)"
	case step != "" && errors.Is(err, unix.EPERM):
		return "the kernel or a container forbids it: allow mount, unshare and pivot_root in the seccomp and AppArmor " +
			"profiles of the container"
	case step != "" && errors.Is(err, unix.ENOSYS):
		return "the kernel is older than Linux 5.12: use a newer one"
	case step != "":
		return ""
	case errors.Is(err, unix.EPERM), errors.Is(err, unix.EACCES):
		return "user namespaces are forbidden: see the findings below; in a container, allow clone and unshare in its " +
			"seccomp profile"
	case errors.Is(err, unix.ENOSPC):
		return "no user namespaces are left: raise user.max_user_namespaces with sysctl"
	case errors.Is(err, unix.EINVAL):
		return "the kernel is built without some kind of namespace: use a distribution's kernel"
	}
	return ""
}

func (namespaces) Causes() []kernel.Finding { return probeCauses() }

func (namespaces) Fence() string {
	return "writing only in /workspace, /tmp, /dev and the home directory"
}

// endLeftovers kills what the user of a sandbox still runs whose pid 1 has ended without doing so. Only root can, whose
// sessions have users of their own; what an ordinary user runs is not to be told apart.
func (s *Sandbox) endLeftovers() error {
	s.mu.Lock()
	uid, done := s.uid, s.nothingLeft
	s.mu.Unlock()
	if done || s.backend.isolation.Contained() || os.Geteuid() != 0 || uid <= 0 {
		return nil
	}
	kill := exec.Command(s.env.Python, "-I", "-S", "-c", "import os\ntry: os.kill(-1, 9)\nexcept OSError: pass")
	kill.Dir = "/"
	kill.Env = pythonEnv
	kill.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid)}}
	if err := kill.Run(); err != nil {
		return fmt.Errorf("kill what user %d runs: %w", uid, err)
	}
	return nil
}
