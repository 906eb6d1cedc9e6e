package seccomp

import (
	"maps"
	"math"
	"slices"

	"golang.org/x/sys/unix"
)

// Offsets in struct seccomp_data, which a program reads in words of 32 bits. Both architectures are little-endian.
const (
	offsetNumber       = 0
	offsetArchitecture = 4
	offsetArguments    = 16
)

const (
	load      = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS
	always    = unix.BPF_JMP | unix.BPF_JA
	ifEqual   = unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K
	ifAtLeast = unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K
	ifAnySet  = unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K
	give      = unix.BPF_RET | unix.BPF_K
)

const (
	allow    = unix.SECCOMP_RET_ALLOW
	kill     = unix.SECCOMP_RET_KILL_PROCESS
	maxShort = 255 // instructions that a conditional jump can pass over
)

func fail(errno unix.Errno) uint32 { return unix.SECCOMP_RET_ERRNO | uint32(errno) }

func do(code uint16, k uint32) unix.SockFilter { return unix.SockFilter{Code: code, K: k} }

func jump(code uint16, k uint32, yes, no int) unix.SockFilter {
	return unix.SockFilter{Code: code, K: k, Jt: uint8(yes), Jf: uint8(no)}
}

func low(argument int) unix.SockFilter  { return do(load, uint32(offsetArguments+8*argument)) }
func high(argument int) unix.SockFilter { return do(load, uint32(offsetArguments+8*argument+4)) }

func just(action uint32) verdict { return verdict{do(give, action)} }

// oneOf decides by the low word of an argument; the kernel looks at nothing else if the argument is an int.
func oneOf(argument int, values []uint32, then, otherwise uint32) verdict {
	rules := make(map[uint32]verdict, len(values))
	for _, value := range values {
		rules[value] = just(then)
	}
	return append(verdict{low(argument)}, search(spans(rules, just(otherwise)))...)
}

// anyOf decides by bits of the low word of an argument.
func anyOf(argument int, bits, then, otherwise uint32) verdict {
	return verdict{low(argument), jump(ifAnySet, bits, 0, 1), do(give, then), do(give, otherwise)}
}

// pairOf decides by the low words of two arguments; the allowed values of the second depend on the first.
func pairOf(first, second int, pairs map[uint32][]uint32, then, otherwise uint32) verdict {
	rules := make(map[uint32]verdict, len(pairs))
	for value, values := range pairs {
		rules[value] = oneOf(second, values, then, otherwise)
	}
	return append(verdict{low(first)}, search(spans(rules, just(otherwise)))...)
}

// null decides by a pointer.
func null(argument int, then, otherwise uint32) verdict {
	return verdict{
		low(argument), jump(ifEqual, 0, 0, 3),
		high(argument), jump(ifEqual, 0, 0, 1),
		do(give, then),
		do(give, otherwise),
	}
}

// spans returns the verdicts for all values: the rules' own, otherwise between them, and last at the end. Neighbours
// with the same verdict are joined.
func spans(rules map[uint32]verdict, otherwise verdict, last ...span) []span {
	all := []span{{0, otherwise}}
	add := func(s span) {
		if end := &all[len(all)-1]; end.from == s.from {
			end.verdict = s.verdict
		} else if !slices.Equal(end.verdict, s.verdict) {
			all = append(all, s)
		}
	}
	for _, number := range slices.Sorted(maps.Keys(rules)) {
		add(span{number, rules[number]})
		if number < math.MaxUint32 {
			add(span{number + 1, otherwise})
		}
	}
	for _, s := range last {
		add(s)
	}
	return all
}

// program kills callers that use another architecture's convention, whose numbers mean other calls, and finds the span
// of a number by bisection: nine steps for any call. That also leaves the kernel few steps when it installs a filter,
// since it then tries all numbers to remember which are allowed whatever their arguments.
func program(spans []span) []unix.SockFilter {
	return append([]unix.SockFilter{
		do(load, offsetArchitecture),
		jump(ifEqual, architecture, 1, 0),
		do(give, kill),
		do(load, offsetNumber),
	}, search(spans)...)
}

func search(spans []span) []unix.SockFilter {
	if len(spans) == 1 {
		return spans[0].verdict
	}
	half := len(spans) / 2
	below, above := search(spans[:half]), search(spans[half:])
	code := []unix.SockFilter{jump(ifAtLeast, spans[half].from, len(below), 0)}
	if len(below) > maxShort {
		code = []unix.SockFilter{jump(ifAtLeast, spans[half].from, 0, 1), do(always, uint32(len(below)))}
	}
	return slices.Concat(code, below, above)
}
