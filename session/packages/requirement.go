package packages

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

// CheckRequirements reports what is wrong with requirements; field names them.
func CheckRequirements(field string, requirements []string) error {
	if len(requirements) > record.MaxRequirements {
		return api.Errorf(api.CodeInvalidRequest, "%s has %d requirements; the limit is %d at a time", field, len(requirements), record.MaxRequirements)
	}
	for _, r := range requirements {
		if len(r) > record.MaxRequirementLen || !requirementPattern.MatchString(r) {
			return api.Errorf(api.CodeInvalidRequest, "%s: %.140q is not a requirement such as %q: give the name of a package, with versions if they matter; "+
				"options, paths and URLs are not supported", field, r, "pandas>=2,<3")
		}
	}
	return nil
}

// InstallCode returns the cell that installs requirements, all of which are checked.
func InstallCode(requirements []string) string {
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

// Request returns the execution that installs packages.
func (c Config) Request(r api.PackagesRequest) (api.ExecutionRequest, error) {
	if err := c.Allowed(); err != nil {
		return api.ExecutionRequest{}, err
	}
	if len(r.Requirements) == 0 {
		return api.ExecutionRequest{}, api.Errorf(api.CodeInvalidRequest, `requirements is missing or empty; give names such as ["pandas>=2"]`)
	}
	if err := CheckRequirements("requirements", r.Requirements); err != nil {
		return api.ExecutionRequest{}, err
	}
	code := InstallCode(r.Requirements)
	return api.ExecutionRequest{ID: r.ID, Code: &code, TimeoutS: r.TimeoutS}, nil
}
