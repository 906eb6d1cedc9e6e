package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"

	"talaria/kernel"
	"talaria/kernel/landlock"
	"talaria/kernel/namespace"
	"talaria/kernel/sandbox"
)

// tiers are the tiers of isolation, the best first.
var tiers = []string{namespace.Tier, landlock.Tier}

// errNoIsolation means that no tier that the operator allows works on this machine.
var errNoIsolation = errors.New("this machine cannot isolate sessions; the reasons are above")

// allows reports whether a tier is at least the configured minimum.
func (c config) allows(tier string) bool {
	if c.Tier != "" {
		return tier == c.Tier
	}
	return slices.Index(tiers, tier) <= slices.Index(tiers, c.MinTier)
}

func (c config) checkTiers() error {
	if c.Tier != "" && !slices.Contains(tiers, c.Tier) {
		return c.wrong("tier", "must be %s, or empty for the best that works, not %q", oneOf(tiers), c.Tier)
	}
	if !slices.Contains(tiers, c.MinTier) {
		return c.wrong("min_tier", "must be %s, not %q", oneOf(tiers), c.MinTier)
	}
	return nil
}

// isolate makes the backend of the best tier that works with an environment and is allowed. It asks for the environment once the rest
// is ready. What it has found out is for people, also beside an error. The backend is the caller's to close.
func isolate(
	ctx context.Context, c config, environment func() (kernel.Environment, error), instance string, log *slog.Logger,
) (*sandbox.Backend, []kernel.Finding, error) {
	var found []kernel.Finding
	better := "" // what to do for a better tier
	for _, tier := range tiers {
		if c.Tier != "" && !c.allows(tier) {
			continue
		}
		backend, err := newBackend(c, tier, instance, log)
		if err != nil {
			return nil, found, err
		}
		env, err := environment()
		if err != nil {
			return nil, found, errors.Join(err, backend.Close())
		}
		probe := backend.Probe(ctx, env)
		probe.Findings[0].Name += " of tier " + tier
		switch {
		case probe.OK && c.allows(tier):
			return backend, append(append([]kernel.Finding{tierFinding(c, tier, better)}, found...), probe.Findings...), nil
		case probe.OK:
			found = append(found, kernel.Finding{
				Name: "tier", Detail: tier + " works here, but is less than the minimum, " + c.MinTier,
				Remedy: "make the better tier work, as advised below, or accept this one with --min-tier " + tier +
					" (docs/security.md says what it lacks)",
			}, probe.Findings[0])
		default:
			if len(found) == 0 {
				better = probe.Findings[0].Remedy
			}
			found = withFailed(found, probe.Findings)
		}
		if err := backend.Close(); err != nil {
			return nil, found, err
		}
	}
	return nil, found, fmt.Errorf("%w, and %s doctor explains them", errNoIsolation, program)
}

// withFailed adds what was found out about a tier that does not work: everything for the best one, and only the cause for others.
func withFailed(found, failed []kernel.Finding) []kernel.Finding {
	if len(found) == 0 {
		return failed
	}
	return append(found, failed[0])
}

// tierFinding says which tier sessions have, and why it is not a better one.
func tierFinding(c config, tier, better string) kernel.Finding {
	f := kernel.Finding{Name: "tier", OK: true, Detail: tier}
	switch {
	case tier == tiers[0]:
	case c.Tier != "":
		f.Detail += ", as configured"
	default:
		f.Detail += fmt.Sprintf(", since %s does not work here (see below) and min_tier allows it", tiers[0])
		f.Remedy = "to get tier " + tiers[0] + ", " + first(better, "follow the advice below")
	}
	return f
}

func newBackend(c config, tier, instance string, log *slog.Logger) (*sandbox.Backend, error) {
	for _, dir := range []string{"sessions", "lib", "cache"} {
		if err := os.MkdirAll(filepath.Join(c.StateDir, dir), 0o755); err != nil {
			return nil, fmt.Errorf("create the state directory: %w", err)
		}
	}
	roots, err := c.mountRoots()
	if err != nil {
		return nil, err
	}
	var paths []string
	for _, r := range roots {
		paths = append(paths, r.Path)
	}
	cfg := sandbox.Config{
		Root: sessionsDir(c), MountRoots: paths,
		LibDir: filepath.Join(c.StateDir, "lib"), CacheDir: filepath.Join(c.StateDir, "cache"),
		Instance: instance, OwnUID: c.UIDBase - 1, Log: log,
	}
	if tier != landlock.Tier {
		return namespace.New(cfg)
	}
	// The users of sessions pass through to what is theirs. What is here and not theirs they cannot open.
	if os.Geteuid() == 0 {
		if err := os.Chmod(c.StateDir, 0o711); err != nil {
			return nil, fmt.Errorf("let session users reach their directories: %w", err)
		}
	}
	return landlock.New(cfg)
}
