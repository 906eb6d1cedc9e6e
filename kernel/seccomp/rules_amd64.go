package seccomp

import "golang.org/x/sys/unix"

const architecture = unix.AUDIT_ARCH_X86_64

// refusedHere are calls that only this architecture has.
var refusedHere = []uint32{
	unix.SYS_IOPL, unix.SYS_IOPERM, unix.SYS_MODIFY_LDT,
	unix.SYS_USELIB, unix.SYS_USTAT, unix.SYS_SYSFS, unix.SYS__SYSCTL,
	unix.SYS_CREATE_MODULE, unix.SYS_GET_KERNEL_SYMS, unix.SYS_QUERY_MODULE,
}

// byOwnerHere are more calls that check the owner of a file.
var byOwnerHere = []uint32{unix.SYS_CHOWN, unix.SYS_LCHOWN}

// watchingHere are more calls that watch files.
var watchingHere = []uint32{unix.SYS_INOTIFY_INIT}

// modesHere are more calls that change modes.
var modesHere = []uint32{unix.SYS_CHMOD}

// x32 is the bit of calls with 32-bit pointers, for which no rules exist.
const x32 = 0x40000000

// lastHere are the numbers that do not belong to this architecture. The highest one is no call at all.
var lastHere = []span{{x32, just(kill)}, {0xffffffff, just(fail(unix.ENOSYS))}}
