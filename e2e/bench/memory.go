package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

const mib = 1 << 20

// kilobytes reads a line such as "Pss:  123 kB" of a file in /proc, in bytes.
func kilobytes(path, key string) (int64, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(b)) {
		if rest, ok := strings.CutPrefix(line, key+":"); ok {
			n, err := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
			return n << 10, err
		}
	}
	return 0, fmt.Errorf("%s has no %s", path, key)
}

// pss is the memory of processes in bytes, pages that several share counted in parts. Kernels may be unreadable for an
// ordinary user. A process that ended meanwhile counts as nothing.
func pss(all []process) (sum int64, err error) {
	for _, p := range all {
		n, err := kilobytes(fmt.Sprintf("/proc/%d/smaps_rollup", p.pid), "Pss")
		if err != nil && p.alive() {
			return 0, fmt.Errorf("read the memory of process %v, which may take root: %w", p, err)
		}
		sum += n
	}
	return sum, nil
}

// resident remembers what processes had, to tell how far they grew.
type resident struct {
	all    []process
	before map[int]int64
}

// watchPeak starts anew what the system remembers as the peak of each process.
func watchPeak(all []process) (*resident, error) {
	r := &resident{all: all, before: map[int]int64{}}
	for _, p := range all {
		if err := os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", p.pid), []byte("5"), 0); err != nil {
			return nil, fmt.Errorf("reset the peak memory of process %v: %w", p, err)
		}
		n, err := kilobytes(fmt.Sprintf("/proc/%d/status", p.pid), "VmRSS")
		if err != nil {
			return nil, fmt.Errorf("read the memory of process %v: %w", p, err)
		}
		r.before[p.pid] = n
	}
	return r, nil
}

// growth is by how many bytes the processes grew at their peaks, all together.
func (r *resident) growth() (sum int64, err error) {
	for _, p := range r.all {
		peak, err := kilobytes(fmt.Sprintf("/proc/%d/status", p.pid), "VmHWM")
		if err != nil {
			return 0, fmt.Errorf("read the peak of process %v: %w", p, err)
		}
		sum += max(peak-r.before[p.pid], 0)
	}
	return sum, nil
}

// available is how much memory the machine can still give, and how much it has.
func available() (free, total int64, err error) {
	if free, err = kilobytes("/proc/meminfo", "MemAvailable"); err != nil {
		return 0, 0, err
	}
	total, err = kilobytes("/proc/meminfo", "MemTotal")
	return free, total, err
}

// swapped is how much of the machine's swap is in use.
func swapped() (int64, error) {
	total, err := kilobytes("/proc/meminfo", "SwapTotal")
	if err != nil {
		return 0, err
	}
	free, err := kilobytes("/proc/meminfo", "SwapFree")
	return total - free, err
}
