//go:build !amd64 && !arm64

package seccomp

const architecture = 0

// Calls returns an empty filter.
func Calls() Filter { return Filter{} }

// LandlockTierCalls returns an empty filter.
func LandlockTierCalls(bool) Filter { return Filter{} }

// ModeCalls returns an empty filter.
func ModeCalls() Filter { return Filter{} }

// FinalLimits returns an empty filter.
func FinalLimits() Filter { return Filter{} }

// UnheldMemory returns an empty filter.
func UnheldMemory() Filter { return Filter{} }
