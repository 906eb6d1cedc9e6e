//go:build amd64 || arm64

package seccomp

import "golang.org/x/sys/unix"

// EveryOther returns a filter that refuses so many calls, the odd ones, each with an error of its own.
func EveryOther(count uint32) Filter {
	rules := make(map[uint32]verdict)
	for i := range count {
		number := 2*i + 1
		rules[number] = just(fail(unix.Errno(1 + number%100)))
	}
	return newFilter(rules)
}
