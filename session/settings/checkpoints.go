package settings

import (
	"cmp"
	"slices"

	"talaria/api"
)

// maxKeptCheckpoints bounds the checkpoints without a name.
const maxKeptCheckpoints = 64

func (o *Operator) checkpointDefaults() api.Checkpoints {
	return api.Checkpoints{Mode: cmp.Or(o.Checkpoints, api.CheckpointsAuto), Keep: 8}
}

// CheckpointsOf completes the settings of a row.
func (o *Operator) CheckpointsOf(set api.Checkpoints) api.Checkpoints {
	if set.Mode == "" {
		return o.checkpointDefaults()
	}
	return set
}

func checkCheckpoints(asked *api.CheckpointsRequest, into *api.Checkpoints) error {
	if asked == nil {
		return nil
	}
	set(&into.Mode, asked.Mode)
	set(&into.Keep, asked.Keep)
	set(&into.MemoryBytes, asked.MemoryBytes)
	switch {
	case !slices.Contains(api.CheckpointModes, into.Mode):
		return invalid("checkpoints.mode must be %q, %q or %q", api.CheckpointsAuto, api.CheckpointsManual, api.CheckpointsOff)
	case into.Keep < 1 || into.Keep > maxKeptCheckpoints:
		return invalid("checkpoints.keep must be between 1 and %d", maxKeptCheckpoints)
	case into.MemoryBytes < 0:
		return invalid("checkpoints.memory_bytes must not be negative; 0 is a quarter of limits.memory_bytes")
	}
	return nil
}
