// Package machine reads the machine's total and free resources.
package machine

import (
	"context"
	"errors"
	"fmt"
	"runtime"

	"github.com/shirou/gopsutil/v3/disk"
	"github.com/shirou/gopsutil/v3/load"
	"github.com/shirou/gopsutil/v3/mem"

	"talaria/kernel/cgroup"
)

// Figures are the machine's totals and how much of them is free. Sizes are in bytes.
type Figures struct {
	CPUs            int
	Load1           float64 // processes that ran or wanted to, over the last minute
	MemoryBytes     int64
	MemoryAvailable int64
	DiskBytes       int64 // of the file system that holds dir
	DiskAvailable   int64
}

// Memory is how much memory this process and all that it starts may use. It is safe for concurrent use.
type Memory struct {
	bounds cgroup.MemoryBounds
}

// OpenMemory finds out what bounds the memory of this process besides the machine.
func OpenMemory() (m Memory, err error) {
	m.bounds, err = cgroup.FindMemoryBounds()
	return m, err
}

// Read returns the memory of the machine and what is left of it, or the limit of a control group above this process and what that
// leaves, whichever is less. Both are in bytes.
func (m Memory) Read(ctx context.Context) (total, left int64, err error) {
	memory, err := mem.VirtualMemoryWithContext(ctx)
	if err != nil {
		return 0, 0, fmt.Errorf("read the machine's memory: %w", err)
	}
	total, left = int64(memory.Total), int64(memory.Available)
	limit, rest, ok, err := m.bounds.Read()
	if ok {
		total, left = min(total, limit), min(left, rest)
	}
	return total, left, err
}

// Read asks the operating system for the current figures. A figure that it does not report is 0, and the error says
// why.
func Read(ctx context.Context, dir string) (Figures, error) {
	m := Figures{CPUs: runtime.NumCPU()}
	memory, memoryErr := mem.VirtualMemoryWithContext(ctx)
	if memoryErr == nil {
		m.MemoryBytes, m.MemoryAvailable = int64(memory.Total), int64(memory.Available)
	}
	average, loadErr := load.AvgWithContext(ctx)
	if loadErr == nil {
		m.Load1 = average.Load1
	}
	space, diskErr := disk.UsageWithContext(ctx, dir)
	if diskErr == nil {
		m.DiskBytes, m.DiskAvailable = int64(space.Total), int64(space.Free)
	}
	if err := errors.Join(memoryErr, loadErr, diskErr); err != nil {
		return m, fmt.Errorf("read the machine's figures: %w", err)
	}
	return m, nil
}
