package settings

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"talaria/api"
	"talaria/kernel"
	"talaria/kernel/workspace"
)

// The modes of a mount.
const (
	mountReadOnly = "ro"
	MountWritable = "rw"
)

const maxMounts = 32

// mountTops are the folders inside that mounts may replace or lie in: a sandbox needs nothing in them.
var mountTops = []string{"/mnt", "/data"}

// MountRoot is a directory whose folders sessions may mount.
type MountRoot struct {
	Name string // as operators and clients write it
	Path string // without links
}

// checkMounts validates what a session asks to see of the host. Whether the sources exist is checked only for a new
// session, see FindMounts.
func (o *Operator) checkMounts(mounts []api.Mount) error {
	if len(mounts) > 0 && o.NoMounts != "" {
		return api.Errorf(api.CodeMountNotAllowed, "mounts: %s", o.NoMounts)
	}
	if len(mounts) > maxMounts {
		return api.Invalid("mounts: there are %d; the limit is %d", len(mounts), maxMounts)
	}
	for i, one := range mounts {
		if err := o.checkMount(one, mounts[:i]); err != nil {
			return prefixed(fmt.Sprintf("mounts[%d]", i), err)
		}
	}
	return nil
}

func (o *Operator) checkMount(one api.Mount, before []api.Mount) error {
	switch {
	case !absolute(one.Source):
		return api.Invalid("source %.200q must be an absolute path without . and ..", one.Source)
	case !absolute(one.Target):
		return api.Invalid("target %.200q must be an absolute path without . and ..", one.Target)
	case one.Mode != mountReadOnly && one.Mode != MountWritable:
		return api.Invalid("mode must be %q or %q", mountReadOnly, MountWritable)
	case !slices.ContainsFunc(mountTops, func(top string) bool { return Beneath(one.Target, top) }):
		return api.Invalid("target %.200q must be %s, or a path below one of them", one.Target, strings.Join(mountTops, " or "))
	}
	for _, other := range before {
		if Beneath(one.Target, other.Target) || Beneath(other.Target, one.Target) {
			return api.Invalid("target %.200q overlaps with the target of another mount", one.Target)
		}
	}
	_, _, err := o.mountRoot(one.Source)
	return err
}

// prefixed puts the name of the field in front of the error.
func prefixed(field string, err error) error {
	var e *api.Error
	if errors.As(err, &e) {
		return api.Errorf(e.Code, "%s: %s", field, e.Detail)
	}
	return err
}

func absolute(p string) bool {
	return path.IsAbs(p) && p == path.Clean(p) && p != "/" && !strings.ContainsRune(p, 0) && len(p) < 4096
}

// Beneath reports whether a clean path is top or lies in it.
func Beneath(p, top string) bool { return p == top || strings.HasPrefix(p, top+"/") }

// mountRoot returns the innermost root that contains a source, and the path of the source in it.
func (o *Operator) mountRoot(source string) (root MountRoot, rest string, err error) {
	for _, r := range o.MountRoots {
		if Beneath(source, r.Name) && len(r.Name) > len(root.Name) {
			root = r
		}
	}
	if root.Name == "" {
		return root, "", api.Errorf(api.CodeMountNotAllowed,
			"source %.200q is not in a directory that the operator allows (mount_roots)", source)
	}
	rest, err = filepath.Rel(root.Name, source)
	return root, rest, err
}

// FindMounts returns the mounts of a kernel: each source as it is now. An error is for the client.
func (o *Operator) FindMounts(mounts []api.Mount) ([]kernel.Mount, error) {
	var found []kernel.Mount
	for i, one := range mounts {
		root, rest, err := o.mountRoot(one.Source)
		if err != nil {
			return nil, prefixed(fmt.Sprintf("mounts[%d]", i), err)
		}
		device, inode, err := workspace.Identify(root.Path, rest)
		if err != nil {
			return nil, prefixed(fmt.Sprintf("mounts[%d]", i), sourceError(one.Source, err))
		}
		found = append(found, kernel.Mount{
			Root: root.Path, Path: rest, Target: one.Target, Writable: one.Mode == MountWritable, Device: device, Inode: inode,
		})
	}
	return found, nil
}

func sourceError(source string, err error) error {
	switch {
	case errors.Is(err, workspace.ErrOutside):
		return api.Errorf(api.CodeMountNotAllowed, "source %.200q passes through a link; name the directory itself", source)
	case errors.Is(err, fs.ErrNotExist):
		return api.Invalid("directory %.200q does not exist; create it, or leave the mount out", source)
	case errors.Is(err, workspace.ErrNotAFolder), errors.Is(err, workspace.ErrNotAFile):
		return api.Invalid("source %.200q is not a directory", source)
	case errors.Is(err, fs.ErrPermission):
		return api.Errorf(api.CodeMountNotAllowed, "the server's user has no permission to open %.200q", source)
	}
	return err
}
