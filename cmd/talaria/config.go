package main

import (
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"talaria/api"
	"talaria/kernel/disk"
	"talaria/kernel/host"
	"talaria/kernel/python"
	"talaria/server/mcp"
	"talaria/session"
	"talaria/session/settings"
)

// config is the server's configuration. Flags override TALARIA_ variables, which override the file, which overrides the
// defaults; load puts them together. A field's tag is its key in the file; docs/configuration.md describes each.
type config struct {
	StateDir  string   `config:"state_dir"`
	Addr      string   `config:"addr"`
	Origins   []string `config:"origins"`
	LogLevel  string   `config:"log_level"`
	LogFormat string   `config:"log_format"` // logText or logJSON
	Token     string   `config:"token"`      // presets the first owner's token

	CookieSecure  string `config:"cookie_secure"`  // marks cookies for TLS only: cookieAuto or cookieAlways
	OwnerRequests int    `config:"owner_requests"` // that one owner may have under way, sockets and streams included

	ClientTimeout time.Duration `config:"client_timeout"` // without a byte taken or sent

	MCP string `config:"mcp"` // the tools that /mcp offers: mcp.ToolsAll, mcp.ToolsBasic or mcp.ToolsOff

	Jupyter bool   `config:"jupyter"` // the older key for fronts.jupyter.enabled
	Fronts  fronts `config:"fronts"`

	Python       string        `config:"python"` // of the default environment; "": found
	Engine       string        `config:"engine"` // of all environments that do not name one
	Environments []environment `config:"environments"`
	TZ           string        `config:"tz"`

	IdleTimeout    time.Duration `config:"idle_timeout"`
	OnIdle         string        `config:"on_idle"`
	Checkpoints    string        `config:"checkpoints"`
	CopiesBytes    int64         `config:"checkpoints_memory_bytes"`
	InterruptGrace time.Duration `config:"interrupt_grace"`
	Pool           int           `config:"pool"`
	OrphanTTL      time.Duration `config:"orphan_ttl"`
	Preload        []string      `config:"preload"` // of the default environment
	MaxSessions    int64         `config:"max_sessions"`
	DiskReserve    int64         `config:"disk_reserve"`
	MemoryReserve  int64         `config:"memory_reserve"`
	OwnerSessions  int64         `config:"owner_sessions"`
	OwnerKernels   int64         `config:"owner_kernels"`
	InlineBytes    int64         `config:"inline_bytes"`
	Redact         []string      `config:"redact"`
	RedactKnown    bool          `config:"redact_known"` // what is a secret by its form
	Limits         limits        `config:"limits"`
	Ceilings       limits        `config:"ceilings"`
	UIDBase        int           `config:"uid_base"`
	MountRoots     []string      `config:"mount_roots"` // directories whose folders sessions may mount
	Network        network       `config:"network"`
	Packages       packageConfig `config:"packages"`
	Run            runs          `config:"run"`
	Batch          batches       `config:"batch"`
	Webhooks       webhooks      `config:"webhooks"`
	MCPServers     []mcpServer   `config:"mcp_servers"`
	Gateways       gateways      `config:"gateways"`
	Disk           string        `config:"disk"`     // what holds workspaces to limits.disk_bytes
	Tier           string        `config:"tier"`     // of isolation; "": the best that works
	MinTier        string        `config:"min_tier"` // the least that is allowed then

	sources  map[string]string // of the keys that are not the default: a flag, a variable, or FILE:LINE
	warnings []string          // about what was read
}

// network bounds what sessions may ask to reach.
type network struct {
	MaxMode        string   `config:"max_mode"`
	Allowed        []string `config:"allowed"`
	HostPorts      []int    `config:"host_ports"`
	NameServer     string   `config:"name_server"`
	MaxConnections int      `config:"max_connections"`
	MaxBytes       int64    `config:"max_bytes"`
}

func (n network) bounds() settings.NetworkBounds {
	return settings.NetworkBounds{
		MaxMode: api.NetworkMode(n.MaxMode), Allowed: n.Allowed, HostPorts: n.HostPorts, NameServer: n.NameServer, MaxConnections: n.MaxConnections,
		MaxBytes: n.MaxBytes,
	}
}

// environment is a further Python, which sessions ask for by name.
type environment struct {
	Name    string   `config:"name"`
	Python  string   `config:"python"`
	Engine  string   `config:"engine"`  // "": that of the default environment
	Preload []string `config:"preload"` // modules that its kernels have imported from their start
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

// pythons are the environments as package python takes them.
func (c config) pythons(trialsDir string) []python.EnvironmentConfig {
	var list []python.EnvironmentConfig
	for _, w := range c.environments() {
		list = append(list, python.EnvironmentConfig{Name: w.Name, Python: w.Python, Engine: w.Engine, Trials: trialsDir})
	}
	return list
}

// limits has the names of the wire, so that an operator learns them once.
type limits struct {
	MemoryBytes       int64   `config:"memory_bytes"`
	CPUs              float64 `config:"cpus"`
	PIDs              int64   `config:"pids"`
	DiskBytes         int64   `config:"disk_bytes"`
	ExecutionTimeoutS float64 `config:"execution_timeout_s"`
	ExecutionCPUS     int64   `config:"execution_cpu_s"`
	OutputBytes       int64   `config:"output_bytes"`
	DisplayBytes      int64   `config:"display_bytes"`
	LogBytes          int64   `config:"log_bytes"`
	ArtifactBytes     int64   `config:"artifact_bytes"` // 0: twice disk_bytes
	ToolCalls         int64   `config:"tool_calls"`
}

func defaults() config {
	return config{
		StateDir:       defaultStateDir(),
		Addr:           "127.0.0.1:8765",
		LogLevel:       "info",
		LogFormat:      logText,
		CookieSecure:   cookieAuto,
		MCP:            mcp.ToolsAll,
		Jupyter:        true,
		Fronts:         defaultFronts(),
		OwnerRequests:  1000,
		ClientTimeout:  time.Minute,
		TZ:             "UTC",
		IdleTimeout:    session.DefaultIdleTimeout,
		OnIdle:         string(api.OnIdleHibernate),
		Checkpoints:    string(api.CheckpointsAuto),
		InterruptGrace: host.DefaultInterruptGrace,
		Pool:           2,
		OrphanTTL:      24 * time.Hour,
		Preload:        preload,
		Engine:         python.EngineAuto,
		InlineBytes:    session.DefaultInlineBytes,
		RedactKnown:    true,
		OwnerSessions:  session.DefaultOwnerSessions,
		OwnerKernels:   session.DefaultOwnerKernels,
		Limits:         limits(session.DefaultLimits),
		Ceilings:       limits(session.DefaultCeilings),
		UIDBase:        1_900_000_000,
		Network:        network{MaxMode: "full"},
		Packages:       defaultPackages(),
		Run:            defaultRuns(),
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
