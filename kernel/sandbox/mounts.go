package sandbox

import (
	"fmt"
	"os"
	"path"
	"slices"

	"talaria/kernel"
)

// mount is a directory of the host as pid 1 binds it: a path beneath the root with that number.
type mount struct {
	Root     int    `json:"root"`
	Path     string `json:"path"`
	Target   string `json:"target"`
	Writable bool   `json:"writable"`
	Device   uint64 `json:"device"`
	Inode    uint64 `json:"inode"`
}

// existing returns the configured mount roots that exist. Their paths have no links.
func existing(roots []string, missing func(root string, err error)) []string {
	var found []string
	for _, root := range roots {
		info, err := os.Stat(root)
		if err == nil && !info.IsDir() {
			err = fmt.Errorf("%s is not a directory", root)
		}
		if err != nil {
			missing(root, err)
			continue
		}
		found = append(found, root)
	}
	return found
}

func (s *Sandbox) mounts(wanted []kernel.Mount) ([]mount, error) {
	mounts := []mount{}
	if len(wanted) > 0 && !s.backend.tier.Contained() {
		return nil, fmt.Errorf("tier %s cannot mount %s", s.backend.tier.Name(), wanted[0].Target)
	}
	for _, m := range wanted {
		root := slices.Index(s.backend.cfg.MountRoots, m.Root)
		if root < 0 {
			return nil, fmt.Errorf("mount %s: this host was started without the mount root that has its source; restart the host", m.Target)
		}
		for _, prefix := range s.env.Prefix {
			top := topOf(m.Target)
			if within(prefix, top) || within(top, prefix) {
				return nil, fmt.Errorf("mount %s: it would hide the interpreter in %s", m.Target, prefix)
			}
		}
		mounts = append(mounts, mount{
			Root: root, Path: m.Path, Target: m.Target, Writable: m.Writable, Device: m.Device, Inode: m.Inode,
		})
	}
	return mounts, nil
}

// writable lists the writable targets, never nil.
func writable(mounts []mount) []string {
	targets := []string{}
	for _, m := range mounts {
		if m.Writable {
			targets = append(targets, m.Target)
		}
	}
	return targets
}

// topOf returns the top-level folder of a target.
func topOf(target string) string {
	for path.Dir(target) != "/" {
		target = path.Dir(target)
	}
	return target
}
