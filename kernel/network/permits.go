package network

import (
	"fmt"
	"slices"
)

// Bounds are what an operator permits sessions to reach.
type Bounds struct {
	MaxMode   Mode
	Allowed   []string // entries as in [ParseRules]; if MaxMode is [Full], they are in addition to the public network
	HostPorts []int    // ports of the server's own machine, which sessions list as host:PORT
}

// Check returns what is wrong with the bounds.
func (b Bounds) Check() error {
	rules, err := ParseRules(b.Allowed)
	if err != nil {
		return fmt.Errorf("network.allowed: %w", err)
	}
	for _, r := range rules {
		if r.isHost() {
			return fmt.Errorf("network.allowed: ports of the server's own machine belong in network.host_ports: %d", r.Port)
		}
	}
	for _, port := range b.HostPorts {
		if port < 1 || port > 65535 {
			return fmt.Errorf("network.host_ports: %d is not between 1 and 65535", port)
		}
	}
	return nil
}

// Refuses returns the part of a session's network that the bounds do not permit, or "". allow are the session's
// entries.
func (b Bounds) Refuses(mode Mode, allow []string) (refused string, err error) {
	rank := map[Mode]int{"": 0, None: 0, Allow: 1, Full: 2}
	if rank[mode] > rank[b.MaxMode] {
		return "network.mode " + string(mode), nil
	}
	listed, err := ParseRules(b.Allowed)
	if err != nil {
		return "", err
	}
	for _, entry := range allow {
		rule, err := ParseRule(entry)
		if err != nil {
			return "", err
		}
		covered := b.MaxMode == Full && rule.IsPublic() || rule.isHost() && slices.Contains(b.HostPorts, int(rule.Port))
		for _, l := range listed {
			covered = covered || l.Covers(rule)
		}
		if !covered {
			return "network.allow " + entry, nil
		}
	}
	return "", nil
}
