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

// Memory returns the machine's memory and how much of it is available, in bytes.
func Memory(ctx context.Context) (total, available int64, err error) {
	memory, err := mem.VirtualMemoryWithContext(ctx)
	if err != nil {
		return 0, 0, fmt.Errorf("read the machine's memory: %w", err)
	}
	return int64(memory.Total), int64(memory.Available), nil
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
