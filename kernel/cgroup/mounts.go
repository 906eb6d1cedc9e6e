package cgroup

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// cgroupMount is a place where a hierarchy of control groups is mounted.
type cgroupMount struct {
	v2      bool
	root    string // the group that is mounted, as in /proc/self/cgroup
	point   string
	options []string
}

// has reports whether it is the mount of the version 1 hierarchy with these controllers.
func (m cgroupMount) has(controllers []string) bool {
	return !slices.ContainsFunc(controllers, func(c string) bool { return !slices.Contains(m.options, c) })
}

// hierarchy returns the hierarchy with these controllers, as in /proc/self/cgroup, if it is mounted here and has some for sandboxes.
// dir is the directory of a group in it.
func (m cgroupMount) hierarchy(dir, names string) Hierarchy {
	switch {
	case m.v2 && names == "":
		return newUnified(dir)
	case !m.v2 && names != "" && m.has(strings.Split(names, ",")):
		if controllers := wanted(strings.Split(names, ",")); len(controllers) > 0 {
			return legacy{dir: dir, names: controllers}
		}
	}
	return nil
}

// dir returns the directory of a group.
func (m cgroupMount) dir(group string) (string, bool) {
	// A group outside this cgroup namespace is shown with "..".
	if !below(group, m.root) || strings.Contains(group, "/..") {
		return "", false
	}
	relative, err := filepath.Rel(m.root, group)
	return filepath.Join(m.point, relative), err == nil
}

func cgroupMounts() ([]cgroupMount, error) {
	text, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	var mounts []cgroupMount
	for line := range strings.Lines(string(text)) {
		// "36 31 0:35 ROOT POINT rw,relatime [shared:1 …] - TYPE SOURCE OPTIONS"
		before, after, _ := strings.Cut(strings.TrimSpace(line), " - ")
		left, right := strings.Fields(before), strings.Fields(after)
		if len(left) < 5 || len(right) < 3 || right[0] != "cgroup" && right[0] != "cgroup2" {
			continue
		}
		mounts = append(mounts, cgroupMount{
			v2:      right[0] == "cgroup2",
			root:    left[3],
			point:   left[4],
			options: strings.Split(right[2], ","),
		})
	}
	return mounts, nil
}

// below reports whether path is dir or lies below it. Both are absolute and clean.
func below(path, dir string) bool {
	return path == dir || strings.HasPrefix(path, strings.TrimSuffix(dir, "/")+"/")
}
