package e2b

import (
	"path"
	"strings"

	"talaria/api"
)

// roots are how a path may name the workspace.
var roots = []string{home, "/workspace"}

// relative returns the path of a file in the workspace; "" is the workspace. A path that is not absolute counts from there.
// Other places of the sandbox are not served: they are neither kept nor counted.
func relative(name string) (string, error) {
	if strings.ContainsRune(name, 0) || len(name) > 4096 {
		return "", api.Errorf(api.CodeInvalidRequest, "path %.200q is not valid", name)
	}
	clean := path.Clean(name)
	if name == "" || clean == "." || clean == "~" {
		return "", nil
	}
	if !path.IsAbs(clean) {
		if clean == ".." || strings.HasPrefix(clean, "../") {
			return "", errOutside(name)
		}
		return strings.TrimPrefix(clean, "~/"), nil
	}
	for _, root := range roots {
		if clean == root {
			return "", nil
		}
		if rest, ok := strings.CutPrefix(clean, root+"/"); ok {
			return rest, nil
		}
	}
	return "", errOutside(name)
}

func errOutside(name string) error {
	return api.Errorf(api.CodePathOutside, "path %.200q is outside of %s, the only place whose files clients can reach; use a process for other files", name, home)
}

// absolute returns a path of the workspace as clients see it.
func absolute(name string) string { return path.Join(home, name) }

// workspaceInside is where programs find the workspace.
const workspaceInside = "/workspace"
