package main

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"talaria/api"
	"talaria/kernel/disk"
	"talaria/kernel/python"
	"talaria/server/mcp"
	"talaria/session"
)

// wrong is the error of a key, with where its value comes from.
func (c config) wrong(key, format string, args ...any) error {
	source := c.sources[key]
	if section, _, nested := strings.Cut(key, "."); nested {
		source = cmp.Or(source, c.sources[section])
	}
	if source == "" {
		source = "configuration"
	}
	return fmt.Errorf("%s: %s "+format, append([]any{source, key}, args...)...)
}

// check refuses values that are out of bounds, wherever the server runs.
func (c config) check() error {
	return errors.Join(c.checkNumbers(), c.checkWords(), c.checkAddress("addr", c.Addr), c.checkFronts(), c.checkEnvironments(), c.checkSections(), c.checkTiers(), c.checkPatterns(), c.checkGateways())
}

func (c config) checkNumbers() error {
	var found []error
	for key, least := range map[string]struct{ value, least int64 }{
		"pool":                     {int64(c.Pool), 0},
		"owner_requests":           {int64(c.OwnerRequests), 1},
		"uid_base":                 {int64(c.UIDBase), leastUIDBase},
		"run.concurrency":          {c.Run.Concurrency, 0},
		"batch.concurrency":        {int64(c.Batch.Concurrency), 0},
		"run.owner_runs":           {int64(c.Run.OwnerRuns), 1},
		"run.total_runs":           {int64(c.Run.TotalRuns), 1},
		"inline_bytes":             {c.InlineBytes, 0},
		"max_sessions":             {c.MaxSessions, 0},
		"checkpoints_memory_bytes": {c.CopiesBytes, 0},
		"owner_sessions":           {c.OwnerSessions, 0},
		"owner_kernels":            {c.OwnerKernels, 0},
		"disk_reserve":             {c.DiskReserve, 0},
		"memory_reserve":           {c.MemoryReserve, 0},
		"idle_timeout":             {int64(c.IdleTimeout), 0},
		"interrupt_grace":          {int64(c.InterruptGrace), 0},
	} {
		if least.value < least.least {
			found = append(found, c.wrong(key, "must be at least %d", least.least))
		}
	}
	for key, value := range map[string]time.Duration{"client_timeout": c.ClientTimeout, "orphan_ttl": c.OrphanTTL, "run.max_time": c.Run.MaxTime} {
		if value <= 0 {
			found = append(found, c.wrong(key, "must be above 0, not %v", value))
		}
	}
	slices.SortFunc(found, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return errors.Join(found...)
}

// choices are the values of keys that take a word.
func (c config) choices() map[string]struct {
	value   string
	allowed []string
} {
	type choice = struct {
		value   string
		allowed []string
	}
	return map[string]choice{
		"log_level":     {c.LogLevel, []string{"debug", "info", "warn", "error"}},
		"log_format":    {c.LogFormat, []string{logText, logJSON}},
		"cookie_secure": {c.CookieSecure, []string{cookieAuto, cookieAlways}},
		"mcp":           {c.MCP, []string{mcp.ToolsAll, mcp.ToolsBasic, mcp.ToolsOff}},
		"disk":          {c.Disk, words(disk.Modes)},
		"on_idle":       {c.OnIdle, words(api.OnIdles)},
		"checkpoints":   {c.Checkpoints, words(api.CheckpointModes)},
		"engine":        {c.Engine, []string{python.EngineAuto, python.EngineIPython, python.EngineStdlib}},
	}
}

func (c config) checkWords() error {
	var found []error
	for key, choice := range c.choices() {
		if !slices.Contains(choice.allowed, choice.value) {
			found = append(found, c.wrong(key, "must be %s, not %q", oneOf(choice.allowed), choice.value))
		}
	}
	slices.SortFunc(found, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return errors.Join(found...)
}

func oneOf(words []string) string {
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

// checkAddress refuses a value of key that no server can listen on.
func (c config) checkAddress(key, addr string) error {
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		return c.wrong(key, "must be HOST:PORT or :PORT, not %q", addr)
	}
	if _, err := net.LookupPort("tcp", port); err != nil {
		return c.wrong(key, "needs a port between 0 and 65535, not %q", port)
	}
	return nil
}

func (c config) checkEnvironments() error {
	names := map[string]bool{"default": true}
	for i, e := range c.Environments {
		key := fmt.Sprintf("environments[%d]", i)
		switch {
		case !api.ValidID(e.Name) || e.Python == "":
			return c.wrong(key, "needs a name and a python, not %q and %q", e.Name, e.Python)
		case names[e.Name]:
			return c.wrong(key, "has the name %q, which is taken; the key python sets the default environment", e.Name)
		case e.Engine != "" && !python.ValidEngine(e.Engine):
			return c.wrong(key, "(%s) must have the engine auto, ipython or stdlib, not %q", e.Name, e.Engine)
		}
		names[e.Name] = true
	}
	return nil
}

func (c config) checkSections() error {
	if err := c.Network.bounds().Check(); err != nil {
		return c.sectionError("network", err)
	}
	if err := c.Packages.check(); err != nil {
		return c.sectionError("packages", err)
	}
	if err := session.CheckLimits(api.Limits(c.Limits), api.Limits(c.Ceilings)); err != nil {
		return c.sectionError("limits", err)
	}
	return nil
}

// sectionError drops the code that clients of the API branch on.
func (c config) sectionError(section string, err error) error {
	text := err.Error()
	if refused := new(api.Error); errors.As(err, &refused) {
		text = refused.Detail
	}
	source := cmp.Or(c.sources[section], "configuration")
	return fmt.Errorf("%s: %s", source, text)
}

func (c config) checkPatterns() error {
	_, err := c.patterns()
	return err
}

func (c config) patterns() ([]*regexp.Regexp, error) {
	var list []*regexp.Regexp
	for _, p := range c.Redact {
		re, err := regexp.Compile(p)
		if err != nil {
			return nil, c.wrong("redact", "has a pattern that is not a regular expression: %w", err)
		}
		list = append(list, re)
	}
	return list, nil
}

// checkMachine refuses what this machine does not have: a time zone, directories to mount, a state directory. It changes
// nothing.
func (c config) checkMachine() error {
	found := []error{c.checkZone(), c.checkStateDir(), checkToken(c.Token)}
	remote, err := c.remoteTools(slog.New(slog.DiscardHandler))
	found = append(found, err, closeRemote(remote))
	_, err = c.mountRoots()
	return errors.Join(append(found, err)...)
}

func (c config) checkZone() error {
	if c.TZ == "" || c.TZ == "Local" {
		return c.wrong("tz", "must name a time zone, such as UTC or Europe/Berlin")
	}
	if _, err := time.LoadLocation(c.TZ); err != nil {
		return c.wrong("tz", "%q is not a time zone that this machine knows; use one such as UTC or Europe/Berlin (apt-get install tzdata installs them all)", c.TZ)
	}
	return nil
}

func (c config) checkStateDir() error {
	info, err := os.Stat(c.StateDir)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil // the server creates it
	case err != nil:
		return fmt.Errorf("state directory: %w; choose another with --state-dir", err)
	case !info.IsDir():
		return fmt.Errorf("state directory: %s is not a directory; choose another with --state-dir", c.StateDir)
	}
	return nil
}

// warnOpenAddress warns when other machines can read what goes over the wire.
func warnOpenAddress(log *slog.Logger, addr net.Addr) {
	if tcp, ok := addr.(*net.TCPAddr); ok && !tcp.IP.IsLoopback() {
		log.Warn("other machines can reach this address, and it has no TLS: tokens and code travel in the clear; "+
			"put a TLS proxy in front of it, or listen on 127.0.0.1", "addr", addr.String())
	}
}
