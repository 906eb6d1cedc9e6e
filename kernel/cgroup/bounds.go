package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
)

// MemoryBounds are the limits of memory that hold for this process's own group or for one above it. Sandboxes have groups below this
// process's own, or below that of a host of kernels, which usually shares the groups above. The zero value bounds nothing. It is
// safe for concurrent use.
type MemoryBounds struct {
	groups []memoryGroup
}

// memoryGroup is a directory of a hierarchy that accounts for memory.
type memoryGroup struct {
	hierarchy Hierarchy
	dir       string
}

// FindMemoryBounds looks for this process's own group and those above it, as far as they can be seen from inside a container.
func FindMemoryBounds() (b MemoryBounds, err error) {
	all, err := hierarchies("")
	if err != nil {
		return b, fmt.Errorf("find control groups: %w", err)
	}
	for _, one := range all {
		if _, v2 := one.Hierarchy.(unified); v2 || slices.Contains(one.Controllers(), Memory) {
			b.add(one.Hierarchy, one.point)
		}
	}
	return b, nil
}

// add adds a group and those above it, up to the one that is mounted at point.
func (b *MemoryBounds) add(h Hierarchy, point string) {
	for dir := h.Base(); below(dir, point); dir = filepath.Dir(dir) {
		b.groups = append(b.groups, memoryGroup{h, dir})
		if dir == point {
			return
		}
	}
}

// Read returns the lowest of the limits, and the least that a limit leaves, in bytes. ok is false where there is no limit.
func (b MemoryBounds) Read() (limit, left int64, ok bool, err error) {
	for _, g := range b.groups {
		most, used, err := g.hierarchy.bound(g.dir)
		switch {
		case errors.Is(err, fs.ErrNotExist): // the root of version 2, a group without the controller, or one that is gone
		case err != nil:
			return 0, 0, false, fmt.Errorf("read the memory of a control group: %w", err)
		case most > 0:
			rest := max(0, most-used)
			if !ok {
				limit, left, ok = most, rest, true
			}
			limit, left = min(limit, most), min(left, rest)
		}
	}
	return limit, left, ok, nil
}
