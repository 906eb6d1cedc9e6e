package network

// Permits reports what of a session's network an operator does not permit, or "". allow are the session's entries, allowed
// the operator's; where the operator's mode is [Full] they add to the public network.
func Permits(mode Mode, allow []string, maxMode Mode, allowed []string) (refused string, err error) {
	rank := map[Mode]int{"": 0, None: 0, Allow: 1, Full: 2}
	if rank[mode] > rank[maxMode] {
		return "network.mode " + string(mode), nil
	}
	listed, err := ParseRules(allowed)
	if err != nil {
		return "", err
	}
	for _, entry := range allow {
		rule, err := ParseRule(entry)
		if err != nil {
			return "", err
		}
		covered := maxMode == Full && rule.IsPublic()
		for _, l := range listed {
			covered = covered || l.Covers(rule)
		}
		if !covered {
			return "network.allow " + entry, nil
		}
	}
	return "", nil
}
