package seccomp_test

import "golang.org/x/sys/unix"

const arch = unix.AUDIT_ARCH_X86_64

// callsHere are calls that other architectures do not have.
var callsHere = []call{
	{"fork", unix.SYS_FORK, nil, allow},
	{"vfork", unix.SYS_VFORK, nil, allow},
	{"arch_prctl", unix.SYS_ARCH_PRCTL, nil, allow},
	{"iopl", unix.SYS_IOPL, nil, fails(unix.EPERM)},
	{"modify_ldt", unix.SYS_MODIFY_LDT, nil, fails(unix.EPERM)},
	{"x32 read", 0x40000000, nil, kill},
	{"x32 ptrace", 0x40000000 + 521, nil, kill},
	{"x32 execve", 0x40000000 + 520, nil, kill},
	{"a high x32 number", 0xfffffffe, nil, kill},
}
