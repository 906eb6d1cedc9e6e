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

func checkCeilings(c api.Limits) error {
	for _, one := range []struct {
		name  string
		value float64
	}{
		{"memory_bytes", float64(c.MemoryBytes)}, {"cpus", c.CPUs}, {"pids", float64(c.PIDs)}, {"disk_bytes", float64(c.DiskBytes)},
		{"execution_timeout_s", c.ExecutionTimeoutS}, {"execution_cpu_s", float64(c.ExecutionCPUS)},
		{"output_bytes", float64(c.OutputBytes)}, {"display_bytes", float64(c.DisplayBytes)}, {"log_bytes", float64(c.LogBytes)},
		{"artifact_bytes", float64(c.ArtifactBytes)}, {"tool_calls", float64(c.ToolCalls)},
	} {
		if !(one.value >= 0) {
			return invalid("ceilings.%s must be at least 0 (no ceiling)", one.name)
		}
	}
	return nil
}
