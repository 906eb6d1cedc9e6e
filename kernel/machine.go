package kernel

import (
	"context"
	"errors"
	"fmt"
	"runtime"

	"github.com/shirou/gopsutil/v3/disk"
	"github.com/shirou/gopsutil/v3/load"
	"github.com/shirou/gopsutil/v3/mem"
)

// Machine is what the machine has for everybody, and what of that is left. Sizes are in bytes.
type Machine struct {
	CPUs            int
	Load1           float64 // processes that ran or wanted to, over the last minute
	MemoryBytes     int64
	MemoryAvailable int64
	DiskBytes       int64 // of the file system of the directory asked for
	DiskAvailable   int64
}

// ReadMachine reads what the operating system says at this moment. What it does not say is 0, and told in the error.
func ReadMachine(ctx context.Context, dir string) (Machine, error) {
	m := Machine{CPUs: runtime.NumCPU()}
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
