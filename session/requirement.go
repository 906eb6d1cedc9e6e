package session

import (
	"regexp"
	"strings"

	"talaria/api"
	"talaria/kernel/record"
)

// requirementPattern matches the packages that can be asked for: a name with extras, versions and a marker, as in PEP
// 508, without its direct references. It excludes anything that pip and shells take for something else.
var requirementPattern = regexp.MustCompile(
	`^[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?\s*(?:\[[A-Za-z0-9._, -]*\])?\s*(?:\(?[<>=!~][<>=!~A-Za-z0-9.*+_, -]*\)?)?\s*(?:;[A-Za-z0-9_.<>=!~'"() ,+*-]*)?$`)

// checkRequirements reports what is wrong with requirements; field names them.
func checkRequirements(field string, requirements []string) error {
	if len(requirements) > record.MaxRequirements {
		return invalid("%s has %d requirements; the limit is %d at a time", field, len(requirements), record.MaxRequirements)
	}
	for _, r := range requirements {
		if len(r) > record.MaxRequirementLen || !requirementPattern.MatchString(r) {
			return invalid("%s: %.140q is not a requirement such as %q: give the name of a package, with versions if they matter; "+
				"options, paths and URLs are not supported", field, r, "pandas>=2,<3")
		}
	}
	return nil
}

// installCode returns the cell that installs requirements, all of which are checked.
func installCode(requirements []string) string {
	var b strings.Builder
	b.WriteString("%pip install")
	for _, r := range requirements {
		b.WriteByte(' ')
		if strings.ContainsAny(r, " \t<>=!~;'\"()[]*,") {
			r = "'" + strings.ReplaceAll(r, "'", `'"'"'`) + "'"
		}
		b.WriteString(r)
	}
	return b.String()
}

// InstallRequest returns the execution that installs packages.
func (m *Manager) InstallRequest(r api.PackagesRequest) (api.ExecutionRequest, error) {
	if err := m.installs(); err != nil {
		return api.ExecutionRequest{}, err
	}
	if len(r.Requirements) == 0 {
		return api.ExecutionRequest{}, invalid(`requirements is missing or empty; give names such as ["pandas>=2"]`)
	}
	if err := checkRequirements("requirements", r.Requirements); err != nil {
		return api.ExecutionRequest{}, err
	}
	code := installCode(r.Requirements)
	return api.ExecutionRequest{ID: r.ID, Code: &code, TimeoutS: r.TimeoutS}, nil
}

// installs returns nil if sessions can install packages.
func (m *Manager) installs() error {
	if why := m.cfg.Packages.Off; why != "" {
		return api.Errorf(api.CodeForbidden, "packages cannot be installed in sessions of this server: %s", why)
	}
	return nil
}
