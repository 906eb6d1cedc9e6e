//go:build amd64 || arm64

package seccomp

import "golang.org/x/sys/unix"

// unmapped are calls that make memory that belongs to no process: files and System V objects that stay when nothing
// maps them. Only a control group sees all of it, so programs get the answer of a kernel that lacks the call, and fall
// back to files in /dev/shm or /tmp, whose size is bounded.
var unmapped = []uint32{unix.SYS_MEMFD_CREATE, unix.SYS_SHMGET, unix.SYS_SEMGET, unix.SYS_MSGGET}

// FinalLimits returns the filter, in addition to that of Calls, for processes whose resource limits may be changed
// only from outside. They can be read.
func FinalLimits() Filter { return newFilter(finalLimits()) }

// UnheldMemory is [FinalLimits] for processes whose memory no control group bounds: it also refuses memory that no
// process maps.
func UnheldMemory() Filter {
	rules := finalLimits()
	for _, number := range unmapped {
		rules[number] = just(fail(unix.ENOSYS))
	}
	return newFilter(rules)
}

func finalLimits() map[uint32]verdict {
	return map[uint32]verdict{
		unix.SYS_SETRLIMIT: just(fail(unix.EPERM)),
		unix.SYS_PRLIMIT64: null(2, allow, fail(unix.EPERM)),
	}
}
