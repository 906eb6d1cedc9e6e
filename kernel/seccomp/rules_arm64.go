package seccomp

import "golang.org/x/sys/unix"

const architecture = unix.AUDIT_ARCH_AARCH64

// refusedHere are calls that only this architecture has.
var refusedHere []uint32

// byOwnerHere are more calls that check the owner of a file.
var byOwnerHere []uint32

// watchingHere are more calls that watch files.
var watchingHere []uint32

// modesHere are more calls that change modes.
var modesHere []uint32

// lastHere are the numbers that do not belong to this architecture.
var lastHere []span
