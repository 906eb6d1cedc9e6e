// Package seccomp makes filters of system calls: programs that the kernel runs at each call of a process that has
// installed them, and of all its descendants, and that nobody can remove. It makes them and installs none.
package seccomp

import (
	"encoding/binary"

	"golang.org/x/sys/unix"
)

// Filter is a program for seccomp(2). The zero Filter is empty: this package has no list of calls for the
// architecture.
type Filter struct {
	rules   int
	program []unix.SockFilter
}

// Rules returns the number of system calls that are refused, always or depending on their arguments.
func (f Filter) Rules() int { return f.rules }

// Instructions returns the length of the program.
func (f Filter) Instructions() int { return len(f.program) }

// Bytes returns the program in the form that the kernel takes, an array of struct sock_filter; nil if there is none.
func (f Filter) Bytes() []byte {
	var bytes []byte
	for _, i := range f.program {
		bytes = binary.NativeEndian.AppendUint16(bytes, i.Code)
		bytes = append(bytes, i.Jt, i.Jf)
		bytes = binary.NativeEndian.AppendUint32(bytes, i.K)
	}
	return bytes
}

// verdict is a piece of a program that decides about a call; each path through it ends in a return.
type verdict []unix.SockFilter

// span is a range of numbers of system calls with one verdict, up to the beginning of the next span.
type span struct {
	from    uint32
	verdict verdict
}

// newFilter makes a filter from the rules for single calls and, last of all, for the numbers from a given one up.
// Calls without a rule are allowed.
func newFilter(rules map[uint32]verdict, last ...span) Filter {
	return Filter{rules: len(rules), program: program(spans(rules, just(allow), last...))}
}
