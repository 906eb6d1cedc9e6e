package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"time"

	"talaria/kernel"
	"talaria/kernel/cgroup"
	"talaria/kernel/procfs"
)

var (
	_ kernel.Meter        = (*Sandbox)(nil)
	_ kernel.PeakResetter = (*Sandbox)(nil)
	_ kernel.LimitChanger = (*Sandbox)(nil)
)

// Usage returns what the sandbox uses, including pid 1; Processes lists all processes except pid 1, and PIDs counts
// their threads, as the limit does. Without a control group, the memory is the sum over the processes of what no file
// on a disk backs, plus files in memory and the data in sockets and pipes, and the peak is the peak of the largest
// process; the memory that pid 1 and the interpreters share with a fork server is left out.
func (s *Sandbox) Usage(ctx context.Context) (kernel.Usage, error) {
	usage, err := s.usage()
	if err != nil {
		return kernel.Usage{}, fmt.Errorf("usage of sandbox: %w", err)
	}
	return usage, nil
}

func (s *Sandbox) usage() (kernel.Usage, error) {
	select {
	case <-s.reaped:
		return kernel.Usage{}, s.lost()
	default:
	}
	unheld := s.MemoryUnheld()
	if !unheld {
		if usage, err := s.accounted(); !errors.Is(err, cgroup.ErrNotHeld) {
			return usage, err
		}
	}
	pids, err := s.pids()
	if err != nil {
		return kernel.Usage{}, err
	}
	interpreters := s.interpreters()
	var usage kernel.Usage
	var t tally
	for _, pid := range pids {
		p, err := procfs.Read(pid)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return kernel.Usage{}, err
		}
		usage.CPU += p.CPU + p.Reaped
		inherited := int64(0)
		if pid == s.handle.PID || interpreters[p.InsidePID] {
			inherited = s.shared
		}
		if unheld {
			t.add(pid, p, inherited)
		}
		usage.PeakMemoryBytes = max(usage.PeakMemoryBytes, p.PeakMemory-inherited)
		if pid != s.handle.PID {
			usage.PIDs += p.Threads
			usage.Processes = append(usage.Processes, kernel.ProcessInfo{PID: p.InsidePID, Name: p.Name})
		}
	}
	slices.SortFunc(usage.Processes, func(a, b kernel.ProcessInfo) int { return a.PID - b.PID })
	if unheld {
		usage.MemoryBytes = s.total(t, pids)
	} else if usage.MemoryBytes, usage.PeakMemoryBytes, err = s.group.Memory(); err != nil {
		return kernel.Usage{}, err
	}
	cpu, err := s.group.CPU()
	if err == nil {
		usage.CPU = cpu
	} else if !errors.Is(err, cgroup.ErrNotHeld) {
		return kernel.Usage{}, err
	}
	return usage, nil
}

// accounted is usage if control groups account for memory and CPU time: then a process is only asked who it is, and nothing is asked
// again that cannot have changed.
func (s *Sandbox) accounted() (usage kernel.Usage, err error) {
	if usage.CPU, err = s.group.CPU(); err != nil {
		return kernel.Usage{}, err
	}
	if usage.PeakMemoryBytes, err = s.group.Peak(); err != nil {
		return kernel.Usage{}, err
	}
	charged, err := s.group.Charged()
	if err != nil {
		return kernel.Usage{}, err
	}
	s.mu.Lock()
	last := s.reading
	s.mu.Unlock()
	if last == nil || last.cpu != usage.CPU || last.charged != charged {
		if last, err = s.read(usage.CPU, charged); err != nil {
			return kernel.Usage{}, err
		}
	}
	usage.MemoryBytes, usage.PIDs, usage.Processes = last.memory, last.threads, slices.Clone(last.processes)
	return usage, nil
}

// reading is what a sandbox had when its control group had used that much CPU time and was charged with that much memory: the memory
// in use, and the processes without pid 1. A process that takes memory, starts another one, takes another name or ends uses CPU time
// for it, so a reading holds for as long as these two stay the same. CPU time is accounted for when a process leaves its CPU, and at
// every tick of the clock, so a reading may be that much older.
type reading struct {
	cpu       time.Duration
	charged   int64
	memory    int64
	threads   int64
	processes []kernel.ProcessInfo
}

// read takes a reading. cpu and charged were read before.
func (s *Sandbox) read(cpu time.Duration, charged int64) (*reading, error) {
	found := &reading{cpu: cpu, charged: charged}
	var err error
	if found.memory, _, err = s.group.Memory(); err != nil {
		return nil, err
	}
	pids, err := s.pids()
	if err != nil {
		return nil, err
	}
	for _, pid := range pids {
		if pid == s.handle.PID {
			continue
		}
		id, err := procfs.ReadIdentity(pid)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		found.threads += id.Threads
		found.processes = append(found.processes, kernel.ProcessInfo{PID: id.InsidePID, Name: id.Name})
	}
	slices.SortFunc(found.processes, func(a, b kernel.ProcessInfo) int { return a.PID - b.PID })
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reading = found
	return found, nil
}

// Meter implements [kernel.Meter]: it reads two files of the control group, or all of Usage if there is none.
func (s *Sandbox) Meter(ctx context.Context) (kernel.Usage, error) {
	peak, memoryErr := s.group.Peak()
	cpu, cpuErr := s.group.CPU()
	if memoryErr != nil || cpuErr != nil {
		return s.Usage(ctx)
	}
	return kernel.Usage{PeakMemoryBytes: peak, CPU: cpu}, nil
}

// pids returns the pids on the host of everything inside, including pid 1.
func (s *Sandbox) pids() ([]int, error) {
	pids, err := s.group.PIDs()
	if errors.Is(err, cgroup.ErrNotHeld) {
		return procfs.Descendants(s.handle.PID), nil
	}
	return pids, err
}

// ResetPeak restarts the measurement of peak memory; errors.ErrUnsupported if the system cannot. Kills for memory
// before it that the interpreter has outlived do not explain its end.
func (s *Sandbox) ResetPeak() error {
	s.noteOOMs()
	err := s.group.ResetPeak()
	if !errors.Is(err, cgroup.ErrNotHeld) {
		return err
	}
	pids, err := s.pids()
	if err != nil {
		return err
	}
	for _, pid := range pids {
		const peakRSS = "5"
		err := os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", pid), []byte(peakRSS), 0)
		if err = procfs.Gone(err); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("reset peak memory: %w", err)
		}
	}
	return nil
}
