package kernel

import (
	"maps"
	"slices"
)

// CommandNames are the names of all commands that can be decoded.
func CommandNames() []string { return slices.Sorted(maps.Keys(commands)) }
