package seccomp

import "golang.org/x/sys/unix"

const architecture = unix.AUDIT_ARCH_AARCH64

// refusedHere are calls that only this architecture has.
var refusedHere []uint32

// byOwnerHere are further calls that go by the user of a file.
var byOwnerHere []uint32

// watchingHere are further calls that watch files.
var watchingHere []uint32

// modesHere are further calls that change modes.
var modesHere []uint32

// lastHere are the numbers that are none of this architecture's own.
var lastHere []span
