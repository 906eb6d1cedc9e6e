package index

import (
	"fmt"
	"regexp"
	"strings"
)

// lists are the projects that an operator lets sessions have.
type lists struct {
	allow, deny []string // normalised; a * at the end stands for any end
}

var (
	validName  = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?$`)
	separators = regexp.MustCompile(`[-_.]+`)
)

const maxName = 200

// Normalise is a project's name as indexes compare it, or "" where it is none. Source: PEP 503 and 508.
func Normalise(name string) string {
	if len(name) > maxName || !validName.MatchString(name) {
		return ""
	}
	return strings.ToLower(separators.ReplaceAllString(name, "-"))
}

func newLists(allow, deny []string) (l lists, err error) {
	for _, list := range []struct {
		name string
		from []string
		into *[]string
	}{{"packages.allow", allow, &l.allow}, {"packages.deny", deny, &l.deny}} {
		for _, entry := range list.from {
			pattern, any := strings.CutSuffix(entry, "*")
			trimmed := strings.TrimRight(pattern, "-_.")
			normal := Normalise(trimmed)
			if normal == "" && !(any && pattern == "") || trimmed != pattern && !any {
				return l, fmt.Errorf("%s: %.100q is not the name of a project; give a name, or its beginning and a *", list.name, entry)
			}
			if any {
				if trimmed != pattern {
					normal += "-"
				}
				normal += "*"
			}
			*list.into = append(*list.into, normal)
		}
	}
	return l, nil
}

// refuses says why a normalised name is not to be had, or "".
func (l lists) refuses(name string) (why string) {
	switch {
	case matches(l.deny, name):
		return fmt.Sprintf("%s is refused: the operator's packages.deny lists it", name)
	case len(l.allow) > 0 && !matches(l.allow, name):
		return fmt.Sprintf("%s is refused: the operator's packages.allow does not list it", name)
	}
	return ""
}

func matches(patterns []string, name string) bool {
	for _, p := range patterns {
		if begin, any := strings.CutSuffix(p, "*"); name == p || any && strings.HasPrefix(name, begin) {
			return true
		}
	}
	return false
}
