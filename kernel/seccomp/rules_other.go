//go:build !amd64 && !arm64

package seccomp

const architecture = 0

// Calls is no filter.
func Calls() Filter { return Filter{} }

// FencedCalls is no filter.
func FencedCalls(bool) Filter { return Filter{} }

// ModeCalls is no filter.
func ModeCalls() Filter { return Filter{} }

// FinalLimits is no filter.
func FinalLimits() Filter { return Filter{} }

// UnheldMemory is no filter.
func UnheldMemory() Filter { return Filter{} }
