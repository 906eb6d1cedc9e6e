package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"talaria/api"
	"talaria/kernel/disk"
	"talaria/kernel/host"
	"talaria/kernel/machine"
	"talaria/kernel/python"
	"talaria/server"
	"talaria/server/mcp"
	"talaria/session"
	"talaria/session/settings"
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
	return errors.Join(c.checkNumbers(), c.checkWords(), c.checkOrigins(), c.checkAddress("addr", c.Addr), c.checkFronts(), c.checkEnvironments(), c.checkSections(), c.checkTiers(), c.checkPatterns(), c.checkGateways())
}

// bound is what a key may be that holds a number or a time.
type bound struct {
	value, least int64
	most         int64  // 0: any
	zero         string // what 0 means, if it is allowed though it lies below least
	time         bool
	remedy       string // what to do instead of exceeding most
}

const (
	// mostPool is more kernels than any machine starts faster by having them ready.
	mostPool = 1000
	// sessionUIDs are kept for sessions from uid_base on; the highest number is not a user id.
	sessionUIDs = 1 << 20
	mostUIDBase = math.MaxUint32 - sessionUIDs
)

func (c config) bounds() map[string]bound {
	return map[string]bound{
		"pool": {value: int64(c.Pool), most: mostPool, remedy: "kernels that are not ready are started when they are needed"},
		"uid_base": {value: int64(c.UIDBase), least: leastUIDBase, most: mostUIDBase,
			remedy: "sessions get user ids from this one up, and the highest is 4294967294"},
		"owner_requests":           {value: int64(c.OwnerRequests), least: 1},
		"run.concurrency":          {value: c.Run.Concurrency},
		"batch.concurrency":        {value: int64(c.Batch.Concurrency)},
		"run.owner_runs":           {value: int64(c.Run.OwnerRuns), least: 1},
		"run.total_runs":           {value: int64(c.Run.TotalRuns), least: 1},
		"inline_bytes":             {value: c.InlineBytes, most: session.MaxInlineBytes, remedy: "clients download larger files from the URL in the event"},
		"max_sessions":             {value: c.MaxSessions},
		"checkpoints_memory_bytes": {value: c.CopiesBytes},
		"owner_sessions":           {value: c.OwnerSessions},
		"owner_kernels":            {value: c.OwnerKernels},
		"disk_reserve":             {value: c.DiskReserve},
		"memory_reserve":           {value: c.MemoryReserve},
		"idle_timeout":             duration(c.IdleTimeout, time.Second, settings.MaxIdleTimeout, "never"),
		"client_timeout":           duration(c.ClientTimeout, time.Second, 0, ""),
		"orphan_ttl":               duration(c.OrphanTTL, time.Second, 0, ""),
		"run.max_time":             duration(c.Run.MaxTime, time.Second, 0, ""),
		"interrupt_grace":          duration(c.InterruptGrace, 100*time.Millisecond, time.Minute, shortDuration(host.DefaultInterruptGrace)),
	}
}

func duration(value, least, most time.Duration, zero string) bound {
	return bound{value: int64(value), least: int64(least), most: int64(most), zero: zero, time: true}
}

func (b bound) holds() bool {
	return b.value == 0 && b.zero != "" || b.value >= b.least && (b.most == 0 || b.value <= b.most)
}

// refusal says what the value should be.
func (b bound) refusal() string {
	text := "must be "
	if b.zero != "" {
		text += "0 (" + b.zero + ") or "
	}
	if b.most == 0 {
		text += "at least " + b.text(b.least)
	} else {
		text += "from " + b.text(b.least) + " to " + b.text(b.most)
	}
	text += ", not " + b.text(b.value)
	if b.remedy != "" && b.value > b.least {
		text += "; " + b.remedy
	}
	return text
}

func (b bound) text(n int64) string {
	if b.time {
		return shortDuration(time.Duration(n))
	}
	return strconv.FormatInt(n, 10)
}

func (c config) checkNumbers() error {
	var found []error
	for key, b := range c.bounds() {
		if !b.holds() {
			found = append(found, c.wrong(key, "%s", b.refusal()))
		}
	}
	slices.SortFunc(found, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return errors.Join(found...)
}

// checkOrigins refuses what the server would refuse after it has started a host.
func (c config) checkOrigins() error {
	for _, origin := range c.Origins {
		if err := server.CheckOrigin(origin); err != nil {
			return c.wrong("origins", "must list origins such as https://chat.example.org: %w", err)
		}
	}
	return nil
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
	if err := settings.CheckLimits(api.Limits(c.Limits), api.Limits(c.Ceilings)); err != nil {
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
	key, _, _ := strings.Cut(text, " ")
	key = strings.TrimSuffix(key, ":")
	named, _, _ := strings.Cut(key, ".") // a check of limits may blame a ceiling
	source := cmp.Or(c.sources[key], c.sources[named], c.sources[section], "configuration")
	if at := c.sources[source]; at != "" { // a ceiling lowered the default
		source, text = at, source+" is too low: "+text
	}
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

// checkMachine refuses what this machine does not have: a time zone, directories to mount, a state directory, a disk and memory that
// are larger than their reserves. It changes nothing. ctx bounds it.
func (c config) checkMachine(ctx context.Context) error {
	found := []error{c.checkZone(), c.checkStateDir(), c.checkReserves(ctx), checkToken(c.Token)}
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

// checkReserves refuses a reserve that is never left: the server would take no work, or let no kernel rest.
func (c config) checkReserves(ctx context.Context) error {
	if c.DiskReserve == 0 && c.MemoryReserve == 0 {
		return nil
	}
	place, err := existing(c.StateDir)
	if err != nil {
		return nil // checkStateDir says so
	}
	has, _ := machine.Read(ctx, place) // a figure that cannot be read is 0
	var found []error
	if has.DiskBytes > 0 && c.DiskReserve >= has.DiskBytes {
		found = append(found, c.wrong("disk_reserve", "must be less than the disk that holds %s, which has %d bytes, not %d; 0 means a twentieth of it",
			c.StateDir, has.DiskBytes, c.DiskReserve))
	}
	if has.MemoryBytes > 0 && c.MemoryReserve >= has.MemoryBytes {
		found = append(found, c.wrong("memory_reserve", "must be less than the memory of this machine, which has %d bytes, not %d; 0 means a twentieth of it",
			has.MemoryBytes, c.MemoryReserve))
	}
	return errors.Join(found...)
}

// warnOpenAddress warns when other machines can read what goes over the wire.
func warnOpenAddress(log *slog.Logger, addr net.Addr) {
	if tcp, ok := addr.(*net.TCPAddr); ok && !tcp.IP.IsLoopback() {
		log.Warn("other machines can reach this address, and it has no TLS: tokens and code travel in the clear; "+
			"put a TLS proxy in front of it, or listen on 127.0.0.1", "addr", addr.String())
	}
}
