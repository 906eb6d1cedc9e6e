package main

import (
	"crypto/sha256"
	"encoding/hex"
	"path/filepath"
	"strings"

	"talaria/session/settings"
)

// mountRoots are the directories whose folders sessions may mount, as configured and without links. One that holds
// sessions' files, or lies among them, is refused: a session would see another's.
func (c config) mountRoots() ([]settings.MountRoot, error) {
	var roots []settings.MountRoot
	for _, name := range c.MountRoots {
		if !filepath.IsAbs(name) || strings.Contains(name, ",") {
			return nil, c.wrong("mount_roots", "has %q, which must be an absolute path without commas", name)
		}
		name = filepath.Clean(name)
		path, err := filepath.EvalSymlinks(name)
		if err != nil {
			return nil, c.wrong("mount_roots", "has a directory that cannot be used: %w", err)
		}
		state := c.StateDir
		if real, err := filepath.EvalSymlinks(state); err == nil {
			state = real
		}
		if path == "/" || overlap(path, state) || overlap(path, "/proc") || overlap(path, "/sys") || overlap(path, "/dev") {
			return nil, c.wrong("mount_roots", "has %s, which contains or is inside the state directory or a system directory; "+
				"name a directory created for the purpose", name)
		}
		roots = append(roots, settings.MountRoot{Name: name, Path: path})
	}
	return roots, nil
}

// overlap reports whether one of two clean paths is or holds the other.
func overlap(a, b string) bool {
	return a == b || strings.HasPrefix(a, b+"/") || strings.HasPrefix(b, a+"/")
}

// hostBuild tells hosts that can take each other's place from others: those of this very program with the same tiers of
// isolation and directories to mount from, which a host sees as they were when it started.
func hostBuild(c config) string {
	if len(c.MountRoots) == 0 && c.Tier == "" && c.MinTier == tiers[0] {
		return buildID()
	}
	sum := sha256.Sum256([]byte(strings.Join(append([]string{c.Tier, c.MinTier}, c.MountRoots...), "\x00")))
	return buildID() + "-" + hex.EncodeToString(sum[:6])
}
