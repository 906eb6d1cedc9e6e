package main

import (
	"os"
	"runtime"
)

// shareProcessors makes the server run Go code on half of the processors at a time, rounded up, unless GOMAXPROCS says on how many.
// The interpreters and the host, which a cell waits for anyway, have work for the others. More is not free: a cell takes a dozen
// hand-overs between goroutines, and at each of them Go wakes a thread for a processor that has no work. On a machine with two, a
// cell costs the server a sixth less CPU time without that. System calls and SQLite are not Go code.
func shareProcessors() {
	if os.Getenv("GOMAXPROCS") == "" {
		runtime.GOMAXPROCS((runtime.GOMAXPROCS(0) + 1) / 2)
	}
}
