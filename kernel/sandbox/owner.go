package sandbox

import (
	"os"
	"os/exec"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// What the kernel counts for a user, it also counts for the creators of the user namespaces around it, up to the
// machine's own. If root created those of sandboxes, their inotify instances and timers would use up root's; so
// another user creates them, if root can do without the rights that their creator has.

// startOwned starts pid 1 in user namespaces that belong to cfg.OwnUID, or to root if that is not possible.
func (b *Backend) startOwned(cmd *exec.Cmd) error {
	return b.asOwner(func(owner bool) error {
		if owner {
			cmd.SysProcAttr.Credential = &syscall.Credential{NoSetGroups: true} // root again, but of the namespace
		}
		return cmd.Start()
	})
}

// asOwner runs do on a thread that has the rights of the creator of sandboxes' user namespaces.
func (b *Backend) asOwner(do func(owner bool) error) error {
	if !b.owned {
		return do(false)
	}
	done := make(chan error, 1)
	go func() {
		// Never unlocked: from here on the thread has another user than the rest of the process, and ends with this
		// goroutine.
		runtime.LockOSThread()
		done <- do(becomeOwner(b.cfg.OwnUID) == nil)
	}()
	return <-done
}

// ownable reports whether another user than this process's may create the user namespaces of sandboxes: whether this
// process is root and itself has the rights that it needs in them. It may lack the capability for limits, which is
// used in [Backend.asOwner].
func ownable(tier Tier) bool {
	if os.Geteuid() != 0 || !tier.Contained() {
		return false
	}
	const needed = 1<<unix.CAP_CHOWN | 1<<unix.CAP_DAC_OVERRIDE | 1<<unix.CAP_DAC_READ_SEARCH | 1<<unix.CAP_FOWNER |
		1<<unix.CAP_FSETID | 1<<unix.CAP_KILL | 1<<unix.CAP_SETGID | 1<<unix.CAP_SETUID | 1<<unix.CAP_NET_ADMIN |
		1<<unix.CAP_SYS_PTRACE | 1<<unix.CAP_SYS_ADMIN | 1<<unix.CAP_SETFCAP
	_, sets, err := capabilities()
	return err == nil && sets[0].Effective&needed == needed
}

// becomeOwner changes the thread's effective user, and keeps its capabilities.
func becomeOwner(uid int) error {
	header, sets, err := capabilities()
	if err != nil {
		return err
	}
	const same = ^uintptr(0)
	if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, same, uintptr(uid), same); errno != 0 {
		return os.NewSyscallError("setresuid", errno)
	}
	return os.NewSyscallError("capset", unix.Capset(&header, &sets[0]))
}

// capabilities returns the thread's capabilities.
func capabilities() (unix.CapUserHeader, [2]unix.CapUserData, error) {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var sets [2]unix.CapUserData
	err := unix.Capget(&header, &sets[0])
	return header, sets, os.NewSyscallError("capget", err)
}
