//go:build amd64 || arm64

package seccomp_test

import (
	"testing"

	"golang.org/x/sys/unix"

	"talaria/kernel/seccomp"
)

func TestLandlockTierCallsReachNobodyElse(t *testing.T) {
	eperm, enosys, noFamily := fails(unix.EPERM), fails(unix.ENOSYS), fails(unix.EAFNOSUPPORT)
	noKind := fails(unix.ESOCKTNOSUPPORT)
	everywhere := []call{
		{"read", unix.SYS_READ, nil, allow},
		{"sendmsg", unix.SYS_SENDMSG, nil, allow},
		{"ptrace", unix.SYS_PTRACE, nil, eperm},
		{"one of some day", 10_000, nil, enosys},
		{"socket of the internet", unix.SYS_SOCKET, []uint64{unix.AF_INET, unix.SOCK_STREAM, 0}, noFamily},
		{"socket of the internet's sixth version", unix.SYS_SOCKET, []uint64{unix.AF_INET6, unix.SOCK_DGRAM, 0}, noFamily},
		{"socket of this machine", unix.SYS_SOCKET, []uint64{unix.AF_UNIX, unix.SOCK_STREAM, 0}, noFamily},
		{"pair", unix.SYS_SOCKETPAIR, []uint64{unix.AF_UNIX, unix.SOCK_STREAM, 0}, allow},
		{"pair, closed on exec", unix.SYS_SOCKETPAIR, []uint64{unix.AF_UNIX, unix.SOCK_SEQPACKET | unix.SOCK_CLOEXEC, 0}, allow},
		{"pair that does not block", unix.SYS_SOCKETPAIR, []uint64{unix.AF_UNIX, unix.SOCK_STREAM | unix.SOCK_NONBLOCK, 0}, allow},
		{"pair of datagrams", unix.SYS_SOCKETPAIR, []uint64{unix.AF_UNIX, unix.SOCK_DGRAM, 0}, noKind},
		{"raw pair", unix.SYS_SOCKETPAIR, []uint64{unix.AF_UNIX, unix.SOCK_RAW | unix.SOCK_CLOEXEC, 0}, noKind},
		{"pair of TIPC", unix.SYS_SOCKETPAIR, []uint64{unix.AF_TIPC, unix.SOCK_STREAM, 0}, noFamily},
		{"connect", unix.SYS_CONNECT, nil, eperm},
		{"bind", unix.SYS_BIND, nil, eperm},
		{"inotify_init1", unix.SYS_INOTIFY_INIT1, nil, eperm},
		{"fanotify_init", unix.SYS_FANOTIFY_INIT, nil, eperm},
		{"fcntl, watching a directory", unix.SYS_FCNTL, []uint64{3, unix.F_NOTIFY, 1 << 31}, eperm},
		{"fcntl", unix.SYS_FCNTL, []uint64{3, unix.F_DUPFD_CLOEXEC, unix.F_NOTIFY}, allow},
		{"shmget", unix.SYS_SHMGET, nil, enosys},
		{"mq_open", unix.SYS_MQ_OPEN, nil, enosys},
	}
	ofOthers := []struct {
		call
		own []uint64 // arguments that make the call affect only the calling process
	}{
		{call{"fchownat", unix.SYS_FCHOWNAT, nil, eperm}, nil},
		{call{"setxattr", unix.SYS_SETXATTR, nil, fails(unix.EOPNOTSUPP)}, nil},
		{call{"setpriority of a user", unix.SYS_SETPRIORITY, []uint64{unix.PRIO_USER, 0, 19}, eperm}, []uint64{unix.PRIO_PROCESS, 0, 19}},
		{call{"setpriority of another", unix.SYS_SETPRIORITY, []uint64{unix.PRIO_PROCESS, 7, 19}, eperm}, []uint64{unix.PRIO_PROCESS, 0, 1}},
		{call{"ioprio_set of a user", unix.SYS_IOPRIO_SET, []uint64{3, 0, 0}, eperm}, []uint64{1, 0, 0}},
		{call{"sched_setaffinity of another", unix.SYS_SCHED_SETAFFINITY, []uint64{7}, eperm}, []uint64{0}},
		{call{"sched_setscheduler of another", unix.SYS_SCHED_SETSCHEDULER, []uint64{7}, eperm}, []uint64{0}},
	}
	for _, shared := range []bool{false, true} {
		f := seccomp.LandlockTierCalls(shared)
		for _, c := range everywhere {
			c.check(t, f)
		}
		for _, c := range ofOthers {
			if !shared {
				c.want = allow
			}
			c.check(t, f)
			if c.own != nil {
				call{c.name, c.number, c.own, allow}.check(t, f)
			}
		}
	}
}

func TestModesAreHandedOn(t *testing.T) {
	const handed = unix.SECCOMP_RET_USER_NOTIF
	for _, c := range []call{
		{"fchmod", unix.SYS_FCHMOD, nil, handed},
		{"fchmodat", unix.SYS_FCHMODAT, nil, handed},
		{"fchmodat2", unix.SYS_FCHMODAT2, nil, handed},
		{"read", unix.SYS_READ, nil, allow},
		{"one of some day", 10_000, nil, allow}, // left to the other filter
	} {
		c.check(t, seccomp.ModeCalls())
	}
	for _, shared := range []bool{false, true} {
		call{"fchmodat", unix.SYS_FCHMODAT, nil, allow}.check(t, seccomp.LandlockTierCalls(shared))
	}
}
