package seccomp_test

import "golang.org/x/sys/unix"

const arch = unix.AUDIT_ARCH_AARCH64

// callsHere are calls that other architectures do not have.
var callsHere []call
