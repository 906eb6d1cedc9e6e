package session

import "talaria/api"

// CheckLimits checks an operator's limits against the least values that the API accepts, and against the ceilings. In
// the limits, 0 for ArtifactBytes means the default; in the ceilings, 0 means none.
func CheckLimits(defaults, ceilings api.Limits) error {
	artifacts := &defaults.ArtifactBytes
	if defaults.ArtifactBytes == 0 {
		artifacts = nil
	}
	if err := checkCeilings(ceilings); err != nil {
		return err
	}
	return boundLimits(api.LimitsRequest{
		MemoryBytes: &defaults.MemoryBytes, CPUs: &defaults.CPUs, PIDs: &defaults.PIDs, DiskBytes: &defaults.DiskBytes,
		ExecutionTimeoutS: &defaults.ExecutionTimeoutS, ExecutionCPUS: &defaults.ExecutionCPUS,
		OutputBytes: &defaults.OutputBytes, DisplayBytes: &defaults.DisplayBytes, LogBytes: &defaults.LogBytes,
		ArtifactBytes: artifacts, ToolCalls: &defaults.ToolCalls,
	}, &api.Limits{}, ceilings)
}

const (
	// maxBytes is a pebibyte, beyond all disks and memories.
	maxBytes = 1 << 50
	// maxCPUs and maxPIDs are the most that Linux knows.
	maxCPUs  = 8192
	maxPIDs  = 1 << 22
	maxCalls = 1_000_000_000
)

func checkCeilings(c api.Limits) error {
	return firstError(
		ceiling("memory_bytes", c.MemoryBytes, maxBytes),
		ceiling("cpus", c.CPUs, maxCPUs),
		ceiling("pids", c.PIDs, maxPIDs),
		ceiling("disk_bytes", c.DiskBytes, maxBytes),
		ceiling("execution_timeout_s", c.ExecutionTimeoutS, maxIdleS),
		ceiling("execution_cpu_s", c.ExecutionCPUS, maxIdleS),
		ceiling("output_bytes", c.OutputBytes, maxBytes),
		ceiling("display_bytes", c.DisplayBytes, maxBytes),
		ceiling("log_bytes", c.LogBytes, maxBytes),
		ceiling("artifact_bytes", c.ArtifactBytes, maxBytes),
		ceiling("tool_calls", c.ToolCalls, maxCalls),
	)
}

func ceiling[T int64 | float64](name string, value, most T) error {
	if !(value >= 0 && value <= most) {
		return invalid("ceilings.%s must be from 0 (no ceiling) to %v, not %v", name, most, value)
	}
	return nil
}
