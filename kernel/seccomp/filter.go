// Package seccomp makes filters of system calls: programs that the kernel runs at each call of a process that has
// installed them, and of all that it starts, and that nobody can take away again. It makes them and installs none.
package seccomp

import (
	"encoding/binary"

	"golang.org/x/sys/unix"
)

// Filter is a program for seccomp(2). The zero Filter is none: this architecture has no list of calls here.
type Filter struct {
	rules   int
	program []unix.SockFilter
}

// Rules is the number of system calls that are refused, always or by their arguments.
func (f Filter) Rules() int { return f.rules }

// Instructions is the length of the program.
func (f Filter) Instructions() int { return len(f.program) }

// Bytes is the program as the kernel takes it, an array of struct sock_filter; nil where there is none.
func (f Filter) Bytes() []byte {
	var bytes []byte
	for _, i := range f.program {
		bytes = binary.NativeEndian.AppendUint16(bytes, i.Code)
		bytes = append(bytes, i.Jt, i.Jf)
		bytes = binary.NativeEndian.AppendUint32(bytes, i.K)
	}
	return bytes
}

// verdict is a piece of a program that says what becomes of a call, and ends in a return on each way through it.
type verdict []unix.SockFilter

// span is a range of numbers of system calls with one verdict, up to the beginning of the next span.
type span struct {
	from    uint32
	verdict verdict
}

// newFilter makes a filter of what is said about single calls and, last of all, about the numbers from some on.
// Whatever nothing is said about is allowed.
func newFilter(rules map[uint32]verdict, last ...span) Filter {
	return Filter{rules: len(rules), program: program(spans(rules, just(allow), last...))}
}
