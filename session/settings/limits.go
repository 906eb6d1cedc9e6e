package settings

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
		ceiling("execution_timeout_s", c.ExecutionTimeoutS, MaxSeconds),
		ceiling("execution_cpu_s", c.ExecutionCPUS, MaxSeconds),
		ceiling("output_bytes", c.OutputBytes, maxBytes),
		ceiling("display_bytes", c.DisplayBytes, maxBytes),
		ceiling("log_bytes", c.LogBytes, maxBytes),
		ceiling("artifact_bytes", c.ArtifactBytes, maxBytes),
		ceiling("tool_calls", c.ToolCalls, maxCalls),
	)
}

func ceiling[T int64 | float64](name string, value, most T) error {
	if !(value >= 0 && value <= most) {
		return api.Invalid("ceilings.%s must be from 0 (no ceiling) to %v, not %v", name, most, value)
	}
	return nil
}

// artifactDefault returns limits.artifact_bytes for sessions that ask for no other value.
func (o *Operator) artifactDefault(l api.Limits) int64 {
	if d := o.Defaults.ArtifactBytes; d > 0 {
		return d
	}
	n := 2 * l.DiskBytes
	if most := o.Ceilings.ArtifactBytes; most > 0 {
		n = min(n, most)
	}
	return n
}

// DefaultLimits returns the limits of a session that asks for none.
func (o *Operator) DefaultLimits() api.Limits { return o.Complete(o.Defaults) }

// Complete fills in limits that an earlier version did not store.
func (o *Operator) Complete(l api.Limits) api.Limits {
	if l.DisplayBytes == 0 {
		l.DisplayBytes = o.Defaults.DisplayBytes
	}
	if l.LogBytes == 0 {
		l.LogBytes = o.Defaults.LogBytes
	}
	if l.ArtifactBytes == 0 {
		l.ArtifactBytes = o.artifactDefault(l)
	}
	return l
}

func (o *Operator) checkLimits(r api.LimitsRequest, l *api.Limits) error {
	if r.ArtifactBytes == nil && l.ArtifactBytes == o.artifactDefault(*l) { // it follows disk_bytes
		defer func() { l.ArtifactBytes = o.artifactDefault(*l) }()
	}
	return boundLimits(r, l, o.Ceilings)
}

// boundLimits puts the requested limits into l, unless one is below the least value or above its ceiling.
func boundLimits(r api.LimitsRequest, l *api.Limits, c api.Limits) error {
	return firstError(
		limit("memory_bytes", r.MemoryBytes, &l.MemoryBytes, minMemory, c.MemoryBytes),
		limit("cpus", r.CPUs, &l.CPUs, 0.01, c.CPUs),
		limit("pids", r.PIDs, &l.PIDs, 8, c.PIDs),
		limit("disk_bytes", r.DiskBytes, &l.DiskBytes, 4096, c.DiskBytes),
		limit("output_bytes", r.OutputBytes, &l.OutputBytes, 1, c.OutputBytes),
		limit("display_bytes", r.DisplayBytes, &l.DisplayBytes, 1, c.DisplayBytes),
		limit("log_bytes", r.LogBytes, &l.LogBytes, 1, c.LogBytes),
		limit("artifact_bytes", r.ArtifactBytes, &l.ArtifactBytes, 1, c.ArtifactBytes),
		limit("tool_calls", r.ToolCalls, &l.ToolCalls, 0, c.ToolCalls),
		CheckTime("limits.execution_timeout_s", r.ExecutionTimeoutS, &l.ExecutionTimeoutS, c.ExecutionTimeoutS),
		CheckTime("limits.execution_cpu_s", r.ExecutionCPUS, &l.ExecutionCPUS, c.ExecutionCPUS),
	)
}

func firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func limit[T int64 | float64](name string, asked *T, into *T, least, most T) error {
	if asked == nil {
		return nil
	}
	if !(*asked >= least) {
		return api.Invalid("limits.%s must be at least %v", name, least)
	}
	if most > 0 && *asked > most {
		return api.Errorf(api.CodeLimitExceeded, "limits.%s: %v is above the operator's ceiling of %v", name, *asked, most)
	}
	*into = *asked
	return nil
}

// CheckTime puts a requested time into into, unless it is above the ceiling. It treats 0 as no limit, which is above any ceiling.
func CheckTime[T int64 | float64](field string, asked, into *T, most T) error {
	if asked == nil {
		return nil
	}
	if !(*asked >= 0 && *asked <= MaxSeconds) {
		return api.Invalid("%s must be between 0 (no limit) and %d", field, MaxSeconds)
	}
	if most > 0 && (*asked == 0 || *asked > most) {
		return api.Errorf(api.CodeLimitExceeded, "%s: %v is above the operator's ceiling of %v", field, *asked, most)
	}
	*into = *asked
	return nil
}
