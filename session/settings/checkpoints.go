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
	api.Set(&into.Mode, asked.Mode)
	api.Set(&into.Keep, asked.Keep)
	api.Set(&into.MemoryBytes, asked.MemoryBytes)
	switch {
	case !slices.Contains(api.CheckpointModes, into.Mode):
		return api.Invalid("checkpoints.mode must be %q, %q or %q", api.CheckpointsAuto, api.CheckpointsManual, api.CheckpointsOff)
	case into.Keep < 1 || into.Keep > maxKeptCheckpoints:
		return api.Invalid("checkpoints.keep must be between 1 and %d", maxKeptCheckpoints)
	case into.MemoryBytes < 0:
		return api.Invalid("checkpoints.memory_bytes must not be negative; 0 is a quarter of limits.memory_bytes")
	}
	return nil
}
