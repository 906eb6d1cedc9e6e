package main

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime/pprof"

	"talaria/kernel/trace"
)

// profile writes a CPU profile of the command into the directory that TALARIA_PROFILE names, until stop is called; see
// docs/performance.md. Without the variable it does nothing.
func profile() (stop func(), err error) {
	dir := os.Getenv("TALARIA_PROFILE")
	if dir == "" || len(os.Args) < 2 {
		return func() {}, nil
	}
	f, err := os.Create(filepath.Join(dir, fmt.Sprintf("%s-%d.pprof", filepath.Base(os.Args[1]), os.Getpid())))
	if err != nil {
		return nil, fmt.Errorf("profile: %w", err)
	}
	if err := pprof.StartCPUProfile(f); err != nil {
		return nil, fmt.Errorf("profile: %w", err)
	}
	return func() {
		pprof.StopCPUProfile()
		_ = f.Close()
	}, nil
}

// traceSteps makes the command write when the steps of its work ended into the directory that TALARIA_TRACE names; see
// docs/performance.md.
func traceSteps() error {
	dir := os.Getenv(trace.Variable)
	if dir == "" || len(os.Args) < 2 {
		return nil
	}
	return trace.Open(dir, filepath.Base(os.Args[1]))
}
