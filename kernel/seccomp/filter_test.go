//go:build amd64 || arm64

package seccomp_test

import (
	"encoding/binary"
	"fmt"
	"testing"

	"golang.org/x/sys/unix"

	"talaria/kernel/seccomp"
)

// ip is the address that a call comes from, which no rule looks at.
const ip = 0x7fff00001000

const (
	allow = unix.SECCOMP_RET_ALLOW
	kill  = unix.SECCOMP_RET_KILL_PROCESS
)

func fails(errno unix.Errno) uint32 { return unix.SECCOMP_RET_ERRNO | uint32(errno) }

// run does what the kernel does with a filter at a call, and counts the steps.
func run(t *testing.T, program []byte, arch, number uint32, args ...uint64) (action uint32, steps int) {
	t.Helper()
	data := binary.NativeEndian.AppendUint32(nil, number)
	data = binary.NativeEndian.AppendUint32(data, arch)
	data = binary.NativeEndian.AppendUint64(data, ip)
	for i := range 6 {
		value := uint64(0)
		if i < len(args) {
			value = args[i]
		}
		data = binary.NativeEndian.AppendUint64(data, value)
	}
	accumulator := uint32(0)
	for at := 0; at >= 0 && at*8 < len(program); at++ {
		steps++
		code := binary.NativeEndian.Uint16(program[at*8:])
		yes, no := int(program[at*8+2]), int(program[at*8+3])
		k := binary.NativeEndian.Uint32(program[at*8+4:])
		step := func(taken bool) {
			if taken {
				at += yes
			} else {
				at += no
			}
		}
		switch code {
		case unix.BPF_LD | unix.BPF_W | unix.BPF_ABS:
			if k%4 != 0 || int(k) >= len(data) {
				t.Fatalf("instruction %d loads from offset %d", at, k)
			}
			accumulator = binary.NativeEndian.Uint32(data[k:])
		case unix.BPF_JMP | unix.BPF_JA:
			at += int(k)
		case unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K:
			step(accumulator == k)
		case unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K:
			step(accumulator >= k)
		case unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K:
			step(accumulator&k != 0)
		case unix.BPF_RET | unix.BPF_K:
			return k, steps
		default:
			t.Fatalf("instruction %d has the code %#x", at, code)
		}
	}
	t.Fatal("the program does not end in a return")
	return 0, 0
}

type call struct {
	name   string
	number uint32
	args   []uint64
	want   uint32
}

func (c call) check(t *testing.T, f seccomp.Filter) {
	t.Helper()
	if got, _ := run(t, f.Bytes(), arch, c.number, c.args...); got != c.want {
		t.Errorf("%s(%#x): %#x, not %#x", c.name, c.args, got, c.want)
	}
}

func TestCallsAreAllowedRefusedAndAbsent(t *testing.T) {
	eperm, enosys := fails(unix.EPERM), fails(unix.ENOSYS)
	noFamily, noProtocol, noKind := fails(unix.EAFNOSUPPORT), fails(unix.EPROTONOSUPPORT), fails(unix.ESOCKTNOSUPPORT)
	noOption, noOperation := fails(unix.ENOPROTOOPT), fails(unix.EOPNOTSUPP)
	for _, c := range append([]call{
		{"read", unix.SYS_READ, nil, allow},
		{"write", unix.SYS_WRITE, nil, allow},
		{"mmap", unix.SYS_MMAP, nil, allow},
		{"futex", unix.SYS_FUTEX, nil, allow},
		{"openat", unix.SYS_OPENAT, nil, allow},
		{"execve", unix.SYS_EXECVE, nil, allow},
		{"execveat", unix.SYS_EXECVEAT, nil, allow},
		{"wait4", unix.SYS_WAIT4, nil, allow},
		{"kill", unix.SYS_KILL, nil, allow},
		{"memfd_create", unix.SYS_MEMFD_CREATE, nil, allow},
		{"prctl", unix.SYS_PRCTL, nil, allow},
		{"seccomp", unix.SYS_SECCOMP, nil, allow},
		{"landlock_restrict_self", unix.SYS_LANDLOCK_RESTRICT_SELF, nil, allow},
		{"pidfd_open", unix.SYS_PIDFD_OPEN, nil, allow},
		{"setrlimit", unix.SYS_SETRLIMIT, []uint64{0, 1}, allow},
		{"prlimit64", unix.SYS_PRLIMIT64, []uint64{0, 1, 1, 0}, allow},
		{"the newest", unix.SYS_RSEQ_SLICE_YIELD, nil, allow},

		{"ptrace", unix.SYS_PTRACE, nil, eperm},
		{"process_vm_readv", unix.SYS_PROCESS_VM_READV, nil, eperm},
		{"setns", unix.SYS_SETNS, []uint64{3, 0}, eperm},
		{"keyctl", unix.SYS_KEYCTL, nil, eperm},
		{"bpf", unix.SYS_BPF, nil, eperm},
		{"userfaultfd", unix.SYS_USERFAULTFD, nil, eperm},
		{"perf_event_open", unix.SYS_PERF_EVENT_OPEN, nil, eperm},
		{"memfd_secret", unix.SYS_MEMFD_SECRET, nil, eperm},
		{"mount", unix.SYS_MOUNT, nil, eperm},
		{"umount2", unix.SYS_UMOUNT2, nil, eperm},
		{"open_tree_attr", unix.SYS_OPEN_TREE_ATTR, nil, eperm},
		{"mount_setattr", unix.SYS_MOUNT_SETATTR, nil, eperm},
		{"chroot", unix.SYS_CHROOT, nil, eperm},
		{"open_by_handle_at", unix.SYS_OPEN_BY_HANDLE_AT, nil, eperm},
		{"reboot", unix.SYS_REBOOT, nil, eperm},

		{"clone3", unix.SYS_CLONE3, nil, enosys},
		{"io_uring_setup", unix.SYS_IO_URING_SETUP, nil, enosys},
		{"io_uring_register", unix.SYS_IO_URING_REGISTER, nil, enosys},
		{"listmount", unix.SYS_LISTMOUNT, nil, enosys},
		{"io_setup", unix.SYS_IO_SETUP, nil, enosys},
		{"io_destroy", unix.SYS_IO_DESTROY, nil, enosys},
		{"io_submit", unix.SYS_IO_SUBMIT, nil, enosys},
		{"io_cancel", unix.SYS_IO_CANCEL, nil, enosys},
		{"io_getevents", unix.SYS_IO_GETEVENTS, nil, enosys},
		{"io_pgetevents", unix.SYS_IO_PGETEVENTS, nil, enosys},
		{"inotify_init1", unix.SYS_INOTIFY_INIT1, nil, allow},
		{"fcntl", unix.SYS_FCNTL, []uint64{3, unix.F_GETFL}, allow},
		{"one that is not known", unix.SYS_RSEQ_SLICE_YIELD + 1, nil, enosys},
		{"one of some day", 10_000, nil, enosys},
		{"no call", 0xffffffff, nil, enosys},

		{"clone", unix.SYS_CLONE, []uint64{unix.CLONE_VM | unix.CLONE_THREAD | unix.CLONE_SIGHAND}, allow},
		{"clone", unix.SYS_CLONE, []uint64{uint64(unix.SIGCHLD)}, allow},
		{"clone", unix.SYS_CLONE, []uint64{1<<32 | uint64(unix.SIGCHLD)}, allow},
		{"clone", unix.SYS_CLONE, []uint64{unix.CLONE_NEWUSER | uint64(unix.SIGCHLD)}, eperm},
		{"clone", unix.SYS_CLONE, []uint64{unix.CLONE_NEWNS}, eperm},
		{"clone", unix.SYS_CLONE, []uint64{unix.CLONE_NEWCGROUP}, eperm},
		{"clone", unix.SYS_CLONE, []uint64{1<<32 | unix.CLONE_NEWPID}, eperm},
		{"unshare", unix.SYS_UNSHARE, []uint64{unix.CLONE_FILES | unix.CLONE_FS}, allow},
		{"unshare", unix.SYS_UNSHARE, []uint64{unix.CLONE_NEWNET}, eperm},
		{"unshare", unix.SYS_UNSHARE, []uint64{unix.CLONE_NEWTIME}, eperm},
		{"unshare", unix.SYS_UNSHARE, []uint64{1<<32 | unix.CLONE_NEWUTS}, eperm},

		{"ioctl", unix.SYS_IOCTL, []uint64{0, unix.TCGETS}, allow},
		{"ioctl", unix.SYS_IOCTL, []uint64{0, unix.TIOCSTI}, eperm},
		{"ioctl", unix.SYS_IOCTL, []uint64{0, 1<<32 | unix.TIOCSTI}, eperm},
		{"ioctl", unix.SYS_IOCTL, []uint64{0, 0xffffffff<<32 | unix.TIOCLINUX}, eperm},
		{"ioctl", unix.SYS_IOCTL, []uint64{unix.TIOCSTI, unix.TIOCGWINSZ, unix.TIOCSTI}, allow},
		{"ioctl", unix.SYS_IOCTL, []uint64{3, unix.TIOCSETD}, eperm},
		{"ioctl", unix.SYS_IOCTL, []uint64{3, unix.SIOCGIFBR}, eperm},
		{"ioctl", unix.SYS_IOCTL, []uint64{3, unix.SIOCBRADDBR}, eperm},
		{"ioctl", unix.SYS_IOCTL, []uint64{3, unix.SIOCBRDELIF}, eperm},
		{"ioctl", unix.SYS_IOCTL, []uint64{3, unix.SIOCGIFVLAN}, eperm},
		{"ioctl", unix.SYS_IOCTL, []uint64{3, unix.SIOCSIFVLAN}, eperm},
		{"ioctl", unix.SYS_IOCTL, []uint64{3, unix.SIOCGIFCONF}, allow},
		{"ioctl", unix.SYS_IOCTL, []uint64{3, unix.TIOCINQ}, allow},
		{"ioctl of a file system's UUID", unix.SYS_IOCTL, []uint64{3, 0x80111500}, eperm},
		{"ioctl of a file system's device", unix.SYS_IOCTL, []uint64{3, 0x80811501}, eperm},
		{"ioctl of ext4's UUID", unix.SYS_IOCTL, []uint64{3, 0x8008662c}, eperm},
		{"ioctl", unix.SYS_IOCTL, []uint64{3, 0xffffffff}, allow},

		{"getsockopt", unix.SYS_GETSOCKOPT, []uint64{3, unix.SOL_SOCKET, unix.SO_PEERPIDFD}, noOption},
		{"getsockopt", unix.SYS_GETSOCKOPT, []uint64{3, 7<<32 | unix.SOL_SOCKET, 7<<32 | unix.SO_PEERPIDFD}, noOption},
		{"getsockopt", unix.SYS_GETSOCKOPT, []uint64{3, unix.SOL_SOCKET, unix.SO_PEERCRED}, allow},
		{"getsockopt", unix.SYS_GETSOCKOPT, []uint64{3, unix.IPPROTO_TCP, unix.SO_PEERPIDFD}, allow},
		{"setsockopt", unix.SYS_SETSOCKOPT, []uint64{3, unix.SOL_SOCKET, unix.SO_PASSPIDFD}, noOption},
		{"setsockopt", unix.SYS_SETSOCKOPT, []uint64{3, unix.SOL_SOCKET, unix.SO_ZEROCOPY}, noOption},
		{"setsockopt", unix.SYS_SETSOCKOPT, []uint64{3, unix.IPPROTO_UDP, unix.UDP_ENCAP}, noOption},
		{"setsockopt", unix.SYS_SETSOCKOPT, []uint64{3, unix.SOL_SOCKET, unix.SO_REUSEADDR}, allow},
		{"setsockopt", unix.SYS_SETSOCKOPT, []uint64{3, unix.IPPROTO_TCP, unix.TCP_NODELAY}, allow},
		{"setsockopt", unix.SYS_SETSOCKOPT, []uint64{3, unix.IPPROTO_UDP, unix.UDP_SEGMENT}, allow},
		{"sendto", unix.SYS_SENDTO, []uint64{3, 0, 1, unix.MSG_OOB | unix.MSG_NOSIGNAL}, noOperation},
		{"sendto", unix.SYS_SENDTO, []uint64{3, 1, 1, unix.MSG_NOSIGNAL}, allow},
		{"sendmsg", unix.SYS_SENDMSG, []uint64{3, 0, unix.MSG_OOB}, noOperation},
		{"sendmsg", unix.SYS_SENDMSG, []uint64{3, 1, unix.MSG_DONTWAIT}, allow},
		{"sendmmsg", unix.SYS_SENDMMSG, []uint64{3, 0, 1, unix.MSG_OOB}, noOperation},
		{"sendmmsg", unix.SYS_SENDMMSG, []uint64{3, 0, 1, 0}, allow},

		{"personality", unix.SYS_PERSONALITY, []uint64{0}, allow},
		{"personality", unix.SYS_PERSONALITY, []uint64{0xffffffff}, allow},
		{"personality", unix.SYS_PERSONALITY, []uint64{0x20008}, allow},
		{"personality", unix.SYS_PERSONALITY, []uint64{0x0040000}, eperm}, // no address randomization
		{"personality", unix.SYS_PERSONALITY, []uint64{0x0400000}, eperm}, // everything readable is executable

		{"socket", unix.SYS_SOCKET, []uint64{unix.AF_UNIX, unix.SOCK_STREAM, 0}, allow},
		{"socket", unix.SYS_SOCKET, []uint64{unix.AF_INET, unix.SOCK_STREAM, 0}, allow},
		{"socket", unix.SYS_SOCKET, []uint64{unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_TCP}, allow},
		{"socket", unix.SYS_SOCKET, []uint64{unix.AF_INET6, unix.SOCK_DGRAM, unix.IPPROTO_UDP}, allow},
		{"socket", unix.SYS_SOCKET, []uint64{unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_SCTP}, noProtocol},
		{"socket", unix.SYS_SOCKET, []uint64{unix.AF_INET6, unix.SOCK_STREAM, unix.IPPROTO_MPTCP}, noProtocol},
		{"socket", unix.SYS_SOCKET, []uint64{unix.AF_INET, unix.SOCK_DGRAM | unix.SOCK_CLOEXEC | unix.SOCK_NONBLOCK, 0}, allow},
		{"socket", unix.SYS_SOCKET, []uint64{unix.AF_INET, unix.SOCK_DCCP, 0}, noKind},
		{"socket", unix.SYS_SOCKET, []uint64{unix.AF_INET6, unix.SOCK_SEQPACKET | unix.SOCK_CLOEXEC, 0}, noKind},
		{"socket", unix.SYS_SOCKET, []uint64{unix.AF_UNIX, unix.SOCK_SEQPACKET, 0}, allow},
		{"socket", unix.SYS_SOCKET, []uint64{unix.AF_NETLINK, unix.SOCK_RAW, 0}, noFamily},
		{"socket", unix.SYS_SOCKET, []uint64{1<<32 | unix.AF_NETLINK, unix.SOCK_RAW, 0}, noFamily},
		{"socket", unix.SYS_SOCKET, []uint64{unix.AF_PACKET}, noFamily},
		{"socket", unix.SYS_SOCKET, []uint64{unix.AF_ALG}, noFamily},
		{"socket", unix.SYS_SOCKET, []uint64{unix.AF_VSOCK}, noFamily},
		{"socket", unix.SYS_SOCKET, []uint64{0}, noFamily},
		{"socketpair", unix.SYS_SOCKETPAIR, []uint64{unix.AF_UNIX}, allow},
		{"socketpair", unix.SYS_SOCKETPAIR, []uint64{unix.AF_TIPC}, noFamily},
	}, callsHere...) {
		c.check(t, seccomp.Calls())
	}
}

func TestCallsOfOtherArchitecturesKill(t *testing.T) {
	for _, other := range []uint32{unix.AUDIT_ARCH_I386, unix.AUDIT_ARCH_ARM, unix.AUDIT_ARCH_RISCV64, 0} {
		for _, f := range []seccomp.Filter{seccomp.Calls(), seccomp.FinalLimits()} {
			if got, _ := run(t, f.Bytes(), other, unix.SYS_GETPID); got != kill {
				t.Errorf("%#x: %#x", other, got)
			}
		}
	}
}

func TestFinalLimitsCanBeRead(t *testing.T) {
	for _, c := range []call{
		{"read", unix.SYS_READ, nil, allow},
		{"getrlimit", unix.SYS_GETRLIMIT, []uint64{0, 1}, allow},
		{"one of some day", 10_000, nil, allow}, // left to the other filter
		{"setrlimit", unix.SYS_SETRLIMIT, []uint64{0, 1}, fails(unix.EPERM)},
		{"prlimit64", unix.SYS_PRLIMIT64, []uint64{0, 7, 0, 0x7fff00002000}, allow},
		{"prlimit64", unix.SYS_PRLIMIT64, []uint64{0, 7, 0x7fff00002000, 0}, fails(unix.EPERM)},
		{"prlimit64", unix.SYS_PRLIMIT64, []uint64{0, 7, 1 << 32, 0}, fails(unix.EPERM)},
	} {
		c.check(t, seccomp.FinalLimits())
	}
}

func TestEachNumberHasAVerdictWithinAFewSteps(t *testing.T) {
	f := seccomp.Calls()
	if n := f.Instructions(); n != len(f.Bytes())/8 || n < f.Rules() || n > 450 {
		t.Errorf("%d rules in %d instructions, %d bytes", f.Rules(), n, len(f.Bytes()))
	}
	refused := 0
	for number := range uint32(unix.SYS_RSEQ_SLICE_YIELD + 1) {
		action, steps := run(t, f.Bytes(), arch, number)
		if steps > 24 {
			t.Errorf("call %d takes %d steps", number, steps)
		}
		if action != allow {
			refused++
		}
	}
	// Eleven rules look at arguments and let some calls pass.
	if refused < f.Rules()-11 || refused > f.Rules() {
		t.Errorf("%d calls are refused, %d have rules", refused, f.Rules())
	}
}

// The code to jump over may be longer than the reach of a conditional jump.
func TestLongProgramsAreRight(t *testing.T) {
	for _, count := range []uint32{1, 2, 100, 300, 1000} {
		f := seccomp.EveryOther(count)
		for number := range 2*count + 2 {
			want := uint32(allow)
			if number%2 == 1 && number < 2*count {
				want = fails(unix.Errno(1 + number%100))
			}
			if got, _ := run(t, f.Bytes(), arch, number); got != want {
				t.Fatalf("%s: call %d: %#x, not %#x", fmt.Sprint(count), number, got, want)
			}
		}
	}
}

func TestUnheldMemoryIsMappedOrNotThere(t *testing.T) {
	for _, c := range []call{
		{"mmap", unix.SYS_MMAP, nil, allow},
		{"memfd_create", unix.SYS_MEMFD_CREATE, nil, fails(unix.ENOSYS)},
		{"shmget", unix.SYS_SHMGET, nil, fails(unix.ENOSYS)},
		{"semget", unix.SYS_SEMGET, nil, fails(unix.ENOSYS)},
		{"msgget", unix.SYS_MSGGET, nil, fails(unix.ENOSYS)},
		{"setrlimit", unix.SYS_SETRLIMIT, []uint64{0, 1}, fails(unix.EPERM)},
	} {
		c.check(t, seccomp.UnheldMemory())
	}
	call{"memfd_create", unix.SYS_MEMFD_CREATE, nil, allow}.check(t, seccomp.FinalLimits())
}
