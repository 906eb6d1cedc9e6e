package run

import (
	"fmt"
	"math"
	"time"

	"talaria/api"
	"talaria/kernel"
	"talaria/kernel/oneshot"
)

// The limits of a run whose request asks for none.
const (
	DefaultTime        = 10 * time.Second
	DefaultMemoryBytes = 512 << 20
	DefaultPIDs        = 64
	DefaultOutputBytes = 1 << 20
)

// The limits of a compiler. Its CPU time is what it costs; a compiler that waits for a busy machine costs nothing, so it may take
// several times as long.
const (
	compileCPU    = 30 * time.Second
	compileWaits  = 4 // times its CPU time
	compileMemory = 2 << 30
	compilePIDs   = 256
	compileOutput = 256 << 10
)

// Bounds of what a request may ask for, besides the operator's.
const (
	maxOutputBytes = 4 << 20
	minMemoryBytes = 16 << 20
	minTime        = 10 * time.Millisecond
	minPIDs        = 1
)

// diskBytes bounds the directory of a run, and tmpBytes its temporary files.
const (
	diskBytes = 256 << 20
	tmpBytes  = 512 << 20
)

// bound is what a step may use.
type bound struct {
	time, cpu time.Duration // cpu 0: any
	memory    int64
	pids      int64
	output    int64
}

// apply puts what a request asks for in place of the defaults. field names the limits in errors.
func (b *bound) apply(l api.RunLimits, field string, most bound) error {
	for _, d := range []struct {
		name   string
		wanted *float64
		into   *time.Duration
	}{{"time_s", l.TimeS, &b.time}, {"cpu_s", l.CPUS, &b.cpu}} {
		if d.wanted == nil {
			continue
		}
		if s := *d.wanted; math.IsNaN(s) || s < minTime.Seconds() {
			return api.Errorf(api.CodeInvalidRequest, "\"%s.%s\" must be at least %g", field, d.name, minTime.Seconds())
		} else if s > most.time.Seconds() {
			return tooMuch(field, d.name, fmt.Sprintf("%g", s), fmt.Sprintf("%g", most.time.Seconds()))
		}
		*d.into = time.Duration(*d.wanted * float64(time.Second))
	}
	for _, n := range []struct {
		name         string
		wanted       *int64
		into         *int64
		least, limit int64
	}{
		{"memory_bytes", l.MemoryBytes, &b.memory, minMemoryBytes, most.memory}, {"pids", l.PIDs, &b.pids, minPIDs, most.pids},
		{"output_bytes", l.OutputBytes, &b.output, 0, most.output},
	} {
		if n.wanted == nil {
			continue
		}
		if *n.wanted < n.least {
			return api.Errorf(api.CodeInvalidRequest, "\"%s.%s\" must be at least %d", field, n.name, n.least)
		}
		if *n.wanted > n.limit {
			return tooMuch(field, n.name, fmt.Sprint(*n.wanted), fmt.Sprint(n.limit))
		}
		*n.into = *n.wanted
	}
	return nil
}

func tooMuch(field, name, wanted, most string) error {
	return api.Errorf(api.CodeLimitExceeded, "%s.%s: %s is above the operator's ceiling of %s", field, name, wanted, most)
}

// step returns a step with these bounds.
func (b bound) step(cpus float64) oneshot.Step {
	return oneshot.Step{
		Time: b.time, CPUTime: b.cpu, OutputBytes: b.output,
		Limits: kernel.Limits{MemoryBytes: b.memory, CPUs: cpus, PIDs: b.pids + overhead, DiskBytes: diskBytes, TmpBytes: tmpBytes},
	}
}

// overhead is what a sandbox itself needs of its limit of processes: pid 1, and the interpreter that it keeps ready.
const overhead = 2
