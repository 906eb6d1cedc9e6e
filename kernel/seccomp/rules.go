//go:build amd64 || arm64

package seccomp

import "golang.org/x/sys/unix"

// newest is the last system call that was reviewed. Later ones do not exist for the processes inside, as on an older
// kernel.
const newest = unix.SYS_RSEQ_SLICE_YIELD

// newNamespaces are the bits of clone, unshare and setns that mean a namespace. For clone the bit of the time
// namespace is part of the signal; clone cannot make that namespace.
const (
	newNamespaces = unix.CLONE_NEWNS | unix.CLONE_NEWCGROUP | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC |
		unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNET
	newNamespacesAndTime = newNamespaces | unix.CLONE_NEWTIME
)

// refused are calls that nothing in a sandbox has a use for: those that need privileges anyhow, and those that have
// been a way out of a sandbox, or into another process, before.
var refused = []uint32{
	// Other processes and their memory.
	unix.SYS_PTRACE, unix.SYS_PROCESS_VM_READV, unix.SYS_PROCESS_VM_WRITEV, unix.SYS_KCMP, unix.SYS_PIDFD_GETFD,
	unix.SYS_MOVE_PAGES, unix.SYS_MIGRATE_PAGES,
	// Namespaces.
	unix.SYS_SETNS,
	// Keys, which no namespace separates.
	unix.SYS_ADD_KEY, unix.SYS_REQUEST_KEY, unix.SYS_KEYCTL,
	// Programs in the kernel, its events, and faults handled by the process that causes them.
	unix.SYS_BPF, unix.SYS_PERF_EVENT_OPEN, unix.SYS_USERFAULTFD, unix.SYS_MEMFD_SECRET, unix.SYS_VMSPLICE,
	unix.SYS_FANOTIFY_INIT, unix.SYS_LOOKUP_DCOOKIE, unix.SYS_SYSLOG,
	// Mounts.
	unix.SYS_MOUNT, unix.SYS_UMOUNT2, unix.SYS_PIVOT_ROOT, unix.SYS_CHROOT, unix.SYS_OPEN_TREE, unix.SYS_OPEN_TREE_ATTR,
	unix.SYS_MOVE_MOUNT, unix.SYS_FSOPEN, unix.SYS_FSCONFIG, unix.SYS_FSMOUNT, unix.SYS_FSPICK, unix.SYS_MOUNT_SETATTR,
	unix.SYS_QUOTACTL, unix.SYS_QUOTACTL_FD, unix.SYS_SWAPON, unix.SYS_SWAPOFF,
	// Files reached by other means than their paths.
	unix.SYS_NAME_TO_HANDLE_AT, unix.SYS_OPEN_BY_HANDLE_AT, unix.SYS_NFSSERVCTL,
	// The machine.
	unix.SYS_CLOCK_SETTIME, unix.SYS_CLOCK_ADJTIME, unix.SYS_SETTIMEOFDAY, unix.SYS_ADJTIMEX, unix.SYS_SETHOSTNAME,
	unix.SYS_SETDOMAINNAME, unix.SYS_INIT_MODULE, unix.SYS_FINIT_MODULE, unix.SYS_DELETE_MODULE, unix.SYS_KEXEC_LOAD,
	unix.SYS_KEXEC_FILE_LOAD, unix.SYS_REBOOT, unix.SYS_ACCT, unix.SYS_VHANGUP, unix.SYS_LSM_SET_SELF_ATTR,
}

// absent are calls that programs do without if they do not exist.
var absent = []uint32{
	unix.SYS_CLONE3, // its flags are in memory, where a filter cannot see them; C libraries fall back to clone
	// A second way to make most other calls, which no filter sees.
	unix.SYS_IO_URING_SETUP, unix.SYS_IO_URING_ENTER, unix.SYS_IO_URING_REGISTER,
	unix.SYS_STATMOUNT, unix.SYS_LISTMOUNT, unix.SYS_LISTNS,
	// Asynchronous I/O of the kernel. Its requests count against a limit of the whole machine, fs.aio-max-nr.
	unix.SYS_IO_SETUP, unix.SYS_IO_DESTROY, unix.SYS_IO_SUBMIT, unix.SYS_IO_CANCEL, unix.SYS_IO_GETEVENTS,
	unix.SYS_IO_PGETEVENTS,
}

// ioctls are the requests that are refused on any descriptor.
var ioctls = []uint32{
	unix.TIOCSTI, unix.TIOCLINUX, // input for other processes' terminals, or for the console
	// The kernel loads a module for these before it checks privileges: for line disciplines, bridges and VLANs.
	unix.TIOCSETD,
	unix.SIOCGIFBR, unix.SIOCSIFBR, unix.SIOCBRADDBR, unix.SIOCBRDELBR, unix.SIOCBRADDIF, unix.SIOCBRDELIF,
	unix.SIOCGIFVLAN, unix.SIOCSIFVLAN,
	// The UUID and the device of the machine's file systems: FS_IOC_GETFSUUID, FS_IOC_GETFSSYSFSPATH, EXT4_IOC_GETFSUUID.
	0x80111500, 0x80811501, 0x8008662c,
}

// optionsRead are socket options, by level, that cannot be read: a pidfd of the peer, which may be outside the
// sandbox.
var optionsRead = map[uint32][]uint32{unix.SOL_SOCKET: {unix.SO_PEERPIDFD}}

// optionsSet are socket options, by level, that cannot be set: pidfds of senders, and rarely used code of the kernel
// that has been broken before: zero-copy sending, and IPsec and L2TP in UDP.
var optionsSet = map[uint32][]uint32{
	unix.SOL_SOCKET:  {unix.SO_PASSPIDFD, unix.SO_ZEROCOPY},
	unix.IPPROTO_UDP: {unix.UDP_ENCAP},
}

// Calls is the filter for all processes of a sandbox.
func Calls() Filter { return newFilter(callRules(), lastSpans()...) }

// callRules returns the rules of every sandbox.
func callRules() map[uint32]verdict {
	rules := byArguments()
	for _, number := range append(refused, refusedHere...) {
		rules[number] = just(fail(unix.EPERM))
	}
	for _, number := range absent {
		rules[number] = just(fail(unix.ENOSYS))
	}
	return rules
}

// lastSpans returns the ranges of numbers that belong to no known call.
func lastSpans() []span {
	return append([]span{{newest + 1, just(fail(unix.ENOSYS))}}, lastHere...)
}

// byArguments returns the rules that let some uses of a call pass.
func byArguments() map[uint32]verdict {
	eperm := fail(unix.EPERM)
	return map[uint32]verdict{
		unix.SYS_CLONE:   anyOf(0, newNamespaces, eperm, allow),
		unix.SYS_UNSHARE: anyOf(0, newNamespacesAndTime, eperm, allow),
		unix.SYS_IOCTL:   oneOf(1, ioctls, eperm, allow),
		// Linux, also with the bits for 32-bit or an old version, and the query of the present value.
		unix.SYS_PERSONALITY: oneOf(0, []uint32{0, 0x8, 0x20000, 0x20008, 0xffffffff}, allow, eperm),
		unix.SYS_SOCKET:      socket(),
		unix.SYS_SOCKETPAIR:  oneOf(0, []uint32{unix.AF_UNIX}, allow, fail(unix.EAFNOSUPPORT)),
		unix.SYS_GETSOCKOPT:  pairOf(1, 2, optionsRead, fail(unix.ENOPROTOOPT), allow),
		unix.SYS_SETSOCKOPT:  pairOf(1, 2, optionsSet, fail(unix.ENOPROTOOPT), allow),
		// Out-of-band data between Unix sockets, which programs hardly use and which has been used to break kernels.
		unix.SYS_SENDTO:   anyOf(3, unix.MSG_OOB, fail(unix.EOPNOTSUPP), allow),
		unix.SYS_SENDMSG:  anyOf(2, unix.MSG_OOB, fail(unix.EOPNOTSUPP), allow),
		unix.SYS_SENDMMSG: anyOf(3, unix.MSG_OOB, fail(unix.EOPNOTSUPP), allow),
	}
}

// socket allows the families that programs talk with and, for the internet families, the usual types and protocols,
// since the kernel loads modules for the others. Without a network, internet sockets serve the loopback.
func socket() verdict {
	const unusual = 0xc // bits that SOCK_STREAM, SOCK_DGRAM and SOCK_RAW do not have: the other types, such as DCCP's
	protocols := append(
		verdict{low(1), jump(ifAnySet, unusual, 0, 1), do(give, fail(unix.ESOCKTNOSUPPORT))},
		oneOf(2, []uint32{0, unix.IPPROTO_ICMP, unix.IPPROTO_TCP, unix.IPPROTO_UDP, unix.IPPROTO_ICMPV6},
			allow, fail(unix.EPROTONOSUPPORT))...)
	return append(verdict{
		low(0),
		jump(ifEqual, unix.AF_INET, 4, 0),
		jump(ifEqual, unix.AF_INET6, 3, 0),
		jump(ifEqual, unix.AF_UNIX, 1, 0),
		do(give, fail(unix.EAFNOSUPPORT)),
		do(give, allow),
	}, protocols...)
}
