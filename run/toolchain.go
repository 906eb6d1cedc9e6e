package run

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// visible are the directories that every sandbox sees; a program elsewhere, such as in somebody's home directory, is of no
// use.
var visible = []string{"/usr/", "/bin/", "/sbin/", "/lib/", "/lib64/"}

// searched are the directories that programs are looked for in, the first before the others.
var searched = []string{"/usr/local/bin", "/usr/bin", "/bin", "/usr/local/go/bin"}

// Toolchain is what runs the programs of one language on this machine.
type Toolchain struct {
	Language string
	Package  string            // of Debian, that has what is missing
	Programs map[string]string // paths by name
	Missing  string            // the first program that is not there; "" if the language can be used
}

// Toolchains looks for the programs of all languages. Python is python, the interpreter of the default environment.
func Toolchains(python string) []Toolchain {
	var all []Toolchain
	for _, l := range languages {
		t := Toolchain{Language: l.name, Package: l.pkg, Programs: map[string]string{}}
		for _, name := range l.programs {
			path := find(name)
			if path == "" {
				t.Missing = name
				break
			}
			t.Programs[name] = path
		}
		if l.name == python3 {
			t.Programs[python3] = python
		}
		all = append(all, t)
	}
	return all
}

// find returns the path of a program that sandboxes see, or "".
func find(name string) string {
	for _, dir := range searched {
		path := filepath.Join(dir, name)
		real, err := filepath.EvalSymlinks(path)
		if err != nil || !slices.ContainsFunc(visible, func(dir string) bool { return strings.HasPrefix(real, dir) }) {
			continue
		}
		if info, err := os.Stat(real); err == nil && info.Mode().IsRegular() && info.Mode().Perm()&0o001 != 0 {
			return path
		}
	}
	return ""
}
