//go:build amd64 || arm64

package seccomp

import "golang.org/x/sys/unix"

// outward are calls that reach what a namespace would separate: memory and queues with System V and POSIX names. They
// do not exist for the processes inside.
var outward = []uint32{
	unix.SYS_SHMGET, unix.SYS_SHMAT, unix.SYS_SHMCTL, unix.SYS_SHMDT,
	unix.SYS_SEMGET, unix.SYS_SEMOP, unix.SYS_SEMCTL, unix.SYS_SEMTIMEDOP,
	unix.SYS_MSGGET, unix.SYS_MSGSND, unix.SYS_MSGRCV, unix.SYS_MSGCTL,
	unix.SYS_MQ_OPEN, unix.SYS_MQ_UNLINK, unix.SYS_MQ_TIMEDSEND, unix.SYS_MQ_TIMEDRECEIVE, unix.SYS_MQ_NOTIFY,
	unix.SYS_MQ_GETSETATTR,
}

// addressed are calls of sockets that have an address, which no socket inside has.
var addressed = []uint32{unix.SYS_CONNECT, unix.SYS_BIND, unix.SYS_LISTEN, unix.SYS_ACCEPT, unix.SYS_ACCEPT4}

// byOwner are calls that check the owner of a process or file, whatever Landlock says: with a common user they reach
// the processes and files of others.
var byOwner = []uint32{
	unix.SYS_PROCESS_MADVISE, unix.SYS_PROCESS_MRELEASE,
	unix.SYS_FCHOWN, unix.SYS_FCHOWNAT,
}

// modes are calls that change the modes of files. They check the owner as well, and programs cannot do without them.
var modes = []uint32{unix.SYS_FCHMOD, unix.SYS_FCHMODAT, unix.SYS_FCHMODAT2}

// attributes are calls for extended attributes, which check the owner too. Programs do without them.
var attributes = []uint32{
	unix.SYS_SETXATTR, unix.SYS_LSETXATTR, unix.SYS_FSETXATTR, unix.SYS_SETXATTRAT,
	unix.SYS_REMOVEXATTR, unix.SYS_LREMOVEXATTR, unix.SYS_FREMOVEXATTR, unix.SYS_REMOVEXATTRAT,
}

// watching are calls that report what others do with files. Landlock does not check them. fanotify_init is refused in every
// sandbox.
var watching = []uint32{unix.SYS_INOTIFY_INIT1}

// LandlockTierCalls returns the filter for all processes of a sandbox without namespaces. Besides what [Calls] refuses, it
// refuses all sockets except connected pairs, everything that has System V or POSIX names, and watches on files. If
// sandboxes share their user with others, it also refuses calls that check the owner of a process or file.
func LandlockTierCalls(shared bool) Filter {
	rules := callRules()
	eperm, none := fail(unix.EPERM), fail(unix.EAFNOSUPPORT)
	add := func(numbers []uint32, v verdict) {
		for _, number := range numbers {
			rules[number] = v
		}
	}
	add(outward, just(fail(unix.ENOSYS)))
	add(addressed, just(eperm))
	add(watching, just(eperm))
	add(watchingHere, just(eperm))
	rules[unix.SYS_FCNTL] = oneOf(1, []uint32{unix.F_NOTIFY}, eperm, allow)
	rules[unix.SYS_SOCKET] = just(none)
	rules[unix.SYS_SOCKETPAIR] = connectedPair(none)
	if shared {
		add(byOwner, just(eperm))
		add(byOwnerHere, just(eperm))
		add(attributes, just(fail(unix.EOPNOTSUPP)))
		const ofProcess = 1 // the same number means one process for ioprio_set, and so does 0 for setpriority
		rules[unix.SYS_SETPRIORITY] = pairOf(0, 1, map[uint32][]uint32{unix.PRIO_PROCESS: {0}}, allow, eperm)
		rules[unix.SYS_IOPRIO_SET] = pairOf(0, 1, map[uint32][]uint32{ofProcess: {0}}, allow, eperm)
		add([]uint32{
			unix.SYS_SCHED_SETAFFINITY, unix.SYS_SCHED_SETSCHEDULER, unix.SYS_SCHED_SETPARAM, unix.SYS_SCHED_SETATTR,
		}, oneOf(0, []uint32{0}, allow, eperm))
	}
	return newFilter(rules, lastSpans()...)
}

// ModeCalls returns a filter, in addition to that of [LandlockTierCalls], that hands changes of modes to the listener.
func ModeCalls() Filter {
	rules := map[uint32]verdict{}
	for _, number := range append(modes, modesHere...) {
		rules[number] = just(unix.SECCOMP_RET_USER_NOTIF)
	}
	return newFilter(rules)
}

// connectedPair allows only those pairs whose ends can talk to nobody else: a datagram socket could, by address.
func connectedPair(otherwise uint32) verdict {
	var kinds []uint32
	for _, kind := range []uint32{unix.SOCK_STREAM, unix.SOCK_SEQPACKET} {
		for _, flags := range []uint32{0, unix.SOCK_CLOEXEC, unix.SOCK_NONBLOCK, unix.SOCK_CLOEXEC | unix.SOCK_NONBLOCK} {
			kinds = append(kinds, kind|flags)
		}
	}
	rest := oneOf(1, kinds, allow, fail(unix.ESOCKTNOSUPPORT))
	return append(verdict{low(0), jump(ifEqual, unix.AF_UNIX, 1, 0), do(give, otherwise)}, rest...)
}
