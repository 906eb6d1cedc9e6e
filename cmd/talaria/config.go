package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/knadh/koanf/parsers/yaml"
	"github.com/knadh/koanf/providers/env/v2"
	"github.com/knadh/koanf/providers/file"
	"github.com/knadh/koanf/providers/posflag"
	"github.com/knadh/koanf/providers/structs"
	"github.com/knadh/koanf/v2"
	"github.com/spf13/cobra"

	"talaria/api"
	"talaria/kernel/disk"
	"talaria/kernel/python"
	"talaria/session"
)

// config is the server's configuration: flags first, then TALARIA_ variables, then the file, then these defaults.
type config struct {
	StateDir string   `koanf:"state-dir"`
	Addr     string   `koanf:"addr"`
	Origins  []string `koanf:"origins"`
	LogLevel string   `koanf:"log-level"`
	Token    string   `koanf:"token"` // presets the first owner's token

	CookieSecure  string `koanf:"cookie-secure"`  // marks cookies for TLS only: cookieAuto or cookieAlways
	OwnerRequests int    `koanf:"owner-requests"` // that one owner may have under way, sockets and streams included

	ClientTimeout time.Duration `koanf:"client-timeout"` // without a byte taken or sent

	Python       string        `koanf:"python"` // of the default environment; "": found
	Engine       string        `koanf:"engine"` // of all environments that do not name one
	Environments []environment `koanf:"environments"`
	TZ           string        `koanf:"tz"`

	IdleTimeout    time.Duration `koanf:"idle-timeout"`
	InterruptGrace time.Duration `koanf:"interrupt-grace"`
	Pool           int           `koanf:"pool"`
	OrphanTTL      time.Duration `koanf:"orphan-ttl"`
	Preload        []string      `koanf:"preload"` // of the default environment
	MaxSessions    int64         `koanf:"max-sessions"`
	DiskReserve    int64         `koanf:"disk-reserve"`
	OwnerSessions  int64         `koanf:"owner-sessions"`
	OwnerKernels   int64         `koanf:"owner-kernels"`
	InlineBytes    int64         `koanf:"inline-bytes"`
	Redact         []string      `koanf:"redact"`
	Limits         limits        `koanf:"limits"`
	Ceilings       limits        `koanf:"ceilings"`
	UIDBase        int           `koanf:"uid-base"`
	MountRoots     []string      `koanf:"mount-roots"` // directories whose folders sessions may mount
	Network        network       `koanf:"network"`
	Packages       packages      `koanf:"packages"`
	Disk           string        `koanf:"disk"`     // what holds workspaces to limits.disk_bytes
	Tier           string        `koanf:"tier"`     // of isolation; "": the best that works
	MinTier        string        `koanf:"min-tier"` // the least that is allowed then
}

// network bounds what sessions may ask to reach.
type network struct {
	MaxMode        string   `koanf:"max_mode"`
	Allowed        []string `koanf:"allowed"`
	HostPorts      []uint16 `koanf:"host_ports"`
	NameServer     string   `koanf:"name_server"`
	MaxConnections int      `koanf:"max_connections"`
	MaxBytes       int64    `koanf:"max_bytes"`
}

func (n network) bounds() session.NetworkBounds {
	return session.NetworkBounds{
		MaxMode: api.NetworkMode(n.MaxMode), Allowed: n.Allowed, HostPorts: n.HostPorts, NameServer: n.NameServer, MaxConnections: n.MaxConnections,
		MaxBytes: n.MaxBytes,
	}
}

// environment is a further Python, which sessions ask for by name.
type environment struct {
	Name    string   `koanf:"name"`
	Python  string   `koanf:"python"`
	Engine  string   `koanf:"engine"`  // "": that of the default environment
	Preload []string `koanf:"preload"` // modules that its kernels have imported from their start
}

// preload is what kernels have imported where nothing is configured.
var preload = []string{"numpy", "pandas", "matplotlib"}

// environments are the configured Pythons, the default one first, each with its engine and what it preloads.
func (c config) environments() []environment {
	all := append([]environment{{"default", c.Python, c.Engine, c.Preload}}, c.Environments...)
	for i := range all {
		all[i].Engine = first(all[i].Engine, c.Engine)
		if all[i].Preload == nil {
			all[i].Preload = preload
		}
	}
	return all
}

// limits has the names of the wire, so that an operator learns them once.
type limits struct {
	MemoryBytes       int64   `koanf:"memory_bytes"`
	CPUs              float64 `koanf:"cpus"`
	PIDs              int64   `koanf:"pids"`
	DiskBytes         int64   `koanf:"disk_bytes"`
	ExecutionTimeoutS float64 `koanf:"execution_timeout_s"`
	ExecutionCPUS     int64   `koanf:"execution_cpu_s"`
	OutputBytes       int64   `koanf:"output_bytes"`
	DisplayBytes      int64   `koanf:"display_bytes"`
	LogBytes          int64   `koanf:"log_bytes"`
	ArtifactBytes     int64   `koanf:"artifact_bytes"` // 0: twice disk_bytes
	ToolCalls         int64   `koanf:"tool_calls"`
}

func defaults() config {
	return config{
		StateDir:       defaultStateDir(),
		Addr:           "127.0.0.1:8765",
		LogLevel:       "info",
		CookieSecure:   cookieAuto,
		OwnerRequests:  1000,
		ClientTimeout:  time.Minute,
		TZ:             "UTC",
		IdleTimeout:    session.DefaultIdleTimeout,
		InterruptGrace: 2 * time.Second,
		Pool:           2,
		OrphanTTL:      24 * time.Hour,
		Preload:        preload,
		Engine:         python.EngineAuto,
		InlineBytes:    session.DefaultInlineBytes,
		OwnerSessions:  session.DefaultOwnerSessions,
		OwnerKernels:   session.DefaultOwnerKernels,
		Limits:         limits(session.DefaultLimits),
		Ceilings:       limits(session.DefaultCeilings),
		UIDBase:        1_900_000_000,
		Network:        network{MaxMode: "full"},
		Packages:       defaultPackages(),
		Disk:           string(disk.Auto),
		MinTier:        tiers[0],
	}
}

func defaultStateDir() string {
	if os.Getuid() == 0 {
		return "/var/lib/talaria"
	}
	if dir := os.Getenv("XDG_STATE_HOME"); dir != "" {
		return filepath.Join(dir, "talaria")
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return ".talaria"
	}
	return filepath.Join(home, ".local", "state", "talaria")
}

// load reads the configuration of a command, from where its flags say.
func load(cmd *cobra.Command) (config, error) {
	var c config
	k := koanf.New(".")
	if err := k.Load(structs.Provider(defaults(), "koanf"), nil); err != nil {
		return c, err
	}
	path := configFile(cmd)
	stateDir := first(flagOf(cmd, "state-dir"), os.Getenv("TALARIA_STATE_DIR"), defaultStateDir())
	named := path != ""
	if !named {
		path = filepath.Join(stateDir, "talaria.yaml")
	}
	if _, err := os.Stat(path); err == nil || named {
		if err := k.Load(file.Provider(path), yaml.Parser()); err != nil {
			return c, fmt.Errorf("read the configuration %s: %w", path, err)
		}
	}
	// TALARIA_LIMITS__MEMORY_BYTES is limits.memory_bytes, TALARIA_IDLE_TIMEOUT is idle-timeout.
	variables := env.Provider(".", env.Opt{Prefix: "TALARIA_", TransformFunc: func(name, value string) (string, any) {
		section, rest, nested := strings.Cut(strings.ToLower(strings.TrimPrefix(name, "TALARIA_")), "__")
		if nested {
			return section + "." + rest, value
		}
		return strings.ReplaceAll(section, "_", "-"), value
	}})
	if err := k.Load(variables, nil); err != nil {
		return c, err
	}
	if err := k.Load(posflag.Provider(cmd.Flags(), ".", k), nil); err != nil {
		return c, err
	}
	if err := k.Unmarshal("", &c); err != nil {
		return c, fmt.Errorf("configuration: %w", err)
	}
	dir, err := filepath.Abs(c.StateDir)
	if err != nil {
		return c, fmt.Errorf("state directory: %w", err)
	}
	c.StateDir = dir
	return c, c.check()
}

// configFile is the absolute path of the file that was named, for programs that are started elsewhere; "" for none.
func configFile(cmd *cobra.Command) string {
	path := first(flagOf(cmd, "config"), os.Getenv("TALARIA_CONFIG"))
	if path == "" {
		return ""
	}
	if absolute, err := filepath.Abs(path); err == nil {
		return absolute
	}
	return path
}

func flagOf(cmd *cobra.Command, name string) string {
	if f := cmd.Flags().Lookup(name); f != nil && f.Changed {
		return f.Value.String()
	}
	return ""
}

func first(values ...string) string {
	for _, v := range values {
		if v != "" {
			return v
		}
	}
	return ""
}

func (c config) check() error {
	names := map[string]bool{"default": true}
	for _, e := range c.Environments {
		if !api.ValidID(e.Name) || e.Python == "" {
			return fmt.Errorf("configuration: environments need a name and a python, not %q and %q", e.Name, e.Python)
		}
		if names[e.Name] {
			return fmt.Errorf("configuration: environment %q is there twice; the default one is set by python", e.Name)
		}
		names[e.Name] = true
	}
	for _, e := range c.environments() {
		if !python.ValidEngine(e.Engine) {
			return fmt.Errorf("configuration: the engine of environment %s is auto, stdlib or ipython, not %q", e.Name, e.Engine)
		}
	}
	if c.CookieSecure != cookieAuto && c.CookieSecure != cookieAlways {
		return fmt.Errorf("configuration: cookie-secure is %s or %s, not %q", cookieAuto, cookieAlways, c.CookieSecure)
	}
	if c.ClientTimeout <= 0 {
		return fmt.Errorf("configuration: client-timeout must be above 0, not %v", c.ClientTimeout)
	}
	if c.OwnerRequests < 1 {
		return fmt.Errorf("configuration: owner-requests must be at least 1, not %d", c.OwnerRequests)
	}
	if _, err := c.patterns(); err != nil {
		return err
	}
	if !slices.Contains(disk.Modes, disk.Mode(c.Disk)) {
		return fmt.Errorf("configuration: disk is auto, quota, image or watched, not %q", c.Disk)
	}
	if c.IdleTimeout < 0 || c.InterruptGrace < 0 || c.InlineBytes < 0 || c.MaxSessions < 0 || c.OwnerSessions < 0 || c.OwnerKernels < 0 || c.DiskReserve < 0 {
		return fmt.Errorf("configuration: idle-timeout, interrupt-grace, inline-bytes, max-sessions, owner-sessions, owner-kernels and disk-reserve cannot be negative")
	}
	if _, err := c.mountRoots(); err != nil {
		return err
	}
	if err := c.Network.bounds().Check(); err != nil {
		return fmt.Errorf("configuration: %w", err)
	}
	if err := c.Packages.check(); err != nil {
		return fmt.Errorf("configuration: %w", err)
	}
	if err := c.checkTiers(); err != nil {
		return err
	}
	if c.OrphanTTL <= 0 {
		return fmt.Errorf("configuration: orphan-ttl must be above 0, not %v", c.OrphanTTL)
	}
	return nil
}

func (c config) patterns() ([]*regexp.Regexp, error) {
	var list []*regexp.Regexp
	for _, p := range c.Redact {
		re, err := regexp.Compile(p)
		if err != nil {
			return nil, fmt.Errorf("configuration: redact: %w", err)
		}
		list = append(list, re)
	}
	return list, nil
}
