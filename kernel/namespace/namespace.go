// Package namespace is the tier that isolates with Linux namespaces, as root and as an ordinary user.
//
// Pid 1 of a sandbox is started directly in new namespaces. It makes itself a root out of read-only binds before it waits,
// and binds what belongs to a session when it is sealed.
package namespace

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"talaria/kernel"
	"talaria/kernel/sandbox"
	"talaria/kernel/seccomp"
)

// Tier is the name of this tier.
const Tier = "namespace"

// New makes a backend of this tier, as [sandbox.New] does.
func New(cfg sandbox.Config) (*sandbox.Backend, error) {
	b, err := sandbox.New(cfg, tier{})
	if err != nil {
		return nil, fmt.Errorf("tier %s: %w", Tier, err)
	}
	return b, nil
}

// tier is safe for concurrent use.
type tier struct{}

func (tier) Name() string { return Tier }

func (tier) Attributes() (*syscall.SysProcAttr, error) {
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

func (tier) Contained() bool { return true }

func (tier) Calls() seccomp.Filter { return seccomp.Calls() }

func (tier) Modes() seccomp.Filter { return seccomp.Filter{} }

func (tier) Landlock(int) error { return nil }

// Layers repeats the numbers of talaria_init, from seal.py and limits.py.
func (tier) Layers() []string {
	return []string{
		"namespaces: user (nested), mount, pid, network, ipc, uts, cgroup",
		"files: own root, read-only, from an allow-list",
		"network: none",
		"no new namespaces",
		"inotify: 16 instances and 4096 watches",
		"timers and queued signals: RLIMIT_SIGPENDING, 1024",
	}
}

func (tier) Processes(pids int64) (int64, string) {
	return pids + 1, fmt.Sprintf("RLIMIT_NPROC, %d", pids) // plus pid 1
}

func (tier) Remedy(step string, err error) string {
	switch {
	case step == "landlock", step == "system call filter":
		return ""
	case step == "proc" && errors.Is(err, unix.EPERM):
		return "run the container with --security-opt systempaths=unconfined (podman: unmask=ALL), so that its /proc is not masked"
	case step != "" && errors.Is(err, unix.EPERM):
		return "allow mount, unshare and pivot_root; in a container, do so in its seccomp and AppArmor profiles"
	case step != "" && errors.Is(err, unix.ENOSYS):
		return "use Linux 5.12 or later; this kernel is older"
	case step != "":
		return ""
	case errors.Is(err, unix.EPERM), errors.Is(err, unix.EACCES):
		return "allow user namespaces, which are forbidden here: follow the advice below; in a container, allow clone and " +
			"unshare in its seccomp profile"
	case errors.Is(err, unix.ENOSPC):
		return "raise user.max_user_namespaces with sysctl: no user namespaces are left"
	case errors.Is(err, unix.EINVAL):
		return "use a distribution's kernel: this one is built without some kind of namespace"
	}
	return ""
}

func (tier) Causes() []kernel.Finding { return findCauses() }

func (tier) Fence() string {
	return "writing only in /workspace, /tmp, /dev and the home directory"
}

// findCauses looks at the switches that are known to forbid user namespaces.
func findCauses() []kernel.Finding {
	var findings []kernel.Finding
	for _, known := range []struct{ name, path, bad, remedy string }{
		{"user namespaces (Debian)", "/proc/sys/kernel/unprivileged_userns_clone", "0",
			"sysctl -w kernel.unprivileged_userns_clone=1"},
		{"user namespaces (AppArmor)", "/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1",
			"give the server's binary an AppArmor profile with the rule userns, " +
				"or sysctl -w kernel.apparmor_restrict_unprivileged_userns=0"},
		{"user namespaces (number)", "/proc/sys/user/max_user_namespaces", "0",
			"sysctl -w user.max_user_namespaces=10000"},
	} {
		value, err := os.ReadFile(known.path)
		if err != nil {
			continue // this kernel does not have the switch
		}
		text := strings.TrimSpace(string(value))
		finding := kernel.Finding{Name: known.name, OK: text != known.bad, Detail: known.path + " is " + text}
		if !finding.OK {
			finding.Remedy = known.remedy
		}
		findings = append(findings, finding)
	}
	return findings
}

// idMappings maps the ids of this user namespace, whichever they are, into a sandbox's; an ordinary user can map only
// its own.
func idMappings(kind string) ([]syscall.SysProcIDMap, error) {
	if os.Geteuid() != 0 {
		own := os.Geteuid()
		if kind == "gid" {
			own = os.Getegid()
		}
		return []syscall.SysProcIDMap{{ContainerID: 0, HostID: own, Size: 1}}, nil
	}
	path := "/proc/self/" + kind + "_map"
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var mappings []syscall.SysProcIDMap
	for line := range strings.Lines(string(text)) {
		var inside, outside, size int
		if _, err := fmt.Sscan(line, &inside, &outside, &size); err != nil {
			return nil, fmt.Errorf("read %s: %w", path, err)
		}
		mappings = append(mappings, syscall.SysProcIDMap{ContainerID: inside, HostID: inside, Size: size})
	}
	return mappings, nil
}
