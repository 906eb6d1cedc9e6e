//go:build !amd64

package kerneltest

// callsHere are calls that other architectures do not have.
var callsHere []call

const foreign = "print(True, True)"
