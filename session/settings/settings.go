// Package settings checks what sessions are asked to be against what their operator allows, and completes it with the operator's
// defaults.
package settings

import (
	"math"
	"slices"
	"strings"
	"time"

	"talaria/api"
	"talaria/kernel"
	"talaria/session/packages"
	"talaria/session/toolspec"
)

// Operator is what an operator allows sessions, and what they are where nobody asks for anything else. It is immutable. The errors
// of its methods are for clients.
type Operator struct {
	Environments []kernel.Environment // the first is the default
	Defaults     api.Limits           // if ArtifactBytes is 0, it is twice DiskBytes
	Ceilings     api.Limits           // the most that a session may ask for; 0: no ceiling
	IdleTimeout  time.Duration
	Checkpoints  api.CheckpointMode // "": auto
	Network      NetworkBounds
	NoNetwork    string // why no session can have a network; "": they can
	MountRoots   []MountRoot
	NoMounts     string // why sessions can mount nothing; "": they can
	Packages     packages.Config
	// CheckHook reports what is wrong with the URL of a webhook. If it is nil, no webhooks are called.
	CheckHook func(url string) error
	// MCPServers returns the names of the configured MCP servers. If it is nil, there are none.
	MCPServers func() []string
}

// Settings is a checked request, with the operator's defaults for what it does not ask for; or what a session is.
type Settings struct {
	Name         string
	Environment  kernel.Environment
	Isolation    api.IsolationMode
	Limits       api.Limits
	IdleMS       int64
	Env          map[string]string
	Secrets      map[string]string
	Metadata     map[string]string
	Mounts       []api.Mount
	Network      api.Network
	Packages     []string
	Guard        api.GuardMode
	Approvals    api.ApprovalMode
	Budgets      api.Budgets
	Checkpoints  api.Checkpoints
	OnIdle       api.OnIdle // "": as the operator says
	Builtin      api.Raw    // the field builtin_tools, as it was given
	BuiltinTools []string   // the names of the tools that it stands for
	Tools        []api.Tool // webhooks
	Servers      []string   // MCP servers whose tools cells may call
}

const (
	// MaxName is the longest name of a session or a checkpoint, in bytes.
	MaxName     = 256
	maxMetadata = 64 << 10
	// MaxSeconds bounds every time that a request can set, in seconds: ten years.
	MaxSeconds = 10 * 365 * 24 * 3600
	minMemory  = 64 << 20
	// maxVariables is what fits next to a program's arguments.
	maxVariables = 1 << 20
)

// MaxIdleTimeout is the longest idle_timeout_s of a session.
const MaxIdleTimeout = MaxSeconds * time.Second

// Check validates a whole request, whether or not the session already exists.
func (o *Operator) Check(req api.SessionRequest) (Settings, error) {
	s := Settings{
		Environment: o.Environments[0],
		Isolation:   api.IsolationDefault,
		Limits:      o.Complete(o.Defaults),
		IdleMS:      o.IdleTimeout.Milliseconds(),
		Network:     api.Network{Mode: api.NetworkNone},
		Guard:       api.GuardWarn,
		Approvals:   api.ApprovalsOff,
		Checkpoints: o.checkpointDefaults(),
		Env:         map[string]string{},
		Secrets:     map[string]string{},
		Metadata:    map[string]string{},
		Packages:    []string{},
	}
	if req.ID != nil && !api.ValidID(*req.ID) {
		return s, InvalidID("id", *req.ID)
	}
	if req.Environment != nil {
		i := slices.IndexFunc(o.Environments, func(e kernel.Environment) bool { return e.Name == *req.Environment })
		if i < 0 {
			return s, api.Invalid("environment %q is not configured; choose one of: %s", *req.Environment, o.EnvironmentNames())
		}
		s.Environment = o.Environments[i]
	}
	if req.Isolation != nil {
		switch s.Isolation = *req.Isolation; s.Isolation {
		case api.IsolationDefault, api.IsolationStrict:
		default:
			return s, api.Invalid("isolation must be %q or %q", api.IsolationDefault, api.IsolationStrict)
		}
	}
	if err := checkVariables("env", req.Env, &s.Env); err != nil {
		return s, err
	}
	if err := checkVariables("secrets", req.Secrets, &s.Secrets); err != nil {
		return s, err
	}
	if size := variableBytes(s.Env) + variableBytes(s.Secrets); size > maxVariables {
		return s, api.Invalid("env and secrets have %d bytes together; the limit is %d", size, maxVariables)
	}
	for name := range s.Secrets {
		if _, both := s.Env[name]; both {
			return s, api.Invalid("%q is in both env and secrets", name)
		}
	}
	patch := api.SessionPatch{
		Name: req.Name, Metadata: req.Metadata, Limits: req.Limits, Network: req.Network, IdleTimeoutS: req.IdleTimeoutS,
		Guard: req.Guard, Approvals: req.Approvals, Budgets: req.Budgets, Checkpoints: req.Checkpoints, OnIdle: req.OnIdle,
	}
	if err := o.CheckPatch(patch, &s); err != nil {
		return s, err
	}
	if req.Mounts != nil {
		s.Mounts = *req.Mounts
		if err := o.checkMounts(s.Mounts); err != nil {
			return s, err
		}
	}
	if req.Packages != nil && len(*req.Packages) > 0 {
		if err := o.Packages.Allowed(); err != nil {
			return s, err
		}
		if err := packages.CheckRequirements("packages", *req.Packages); err != nil {
			return s, err
		}
		s.Packages = *req.Packages
	}
	s.Tools, s.Servers = []api.Tool{}, []string{}
	if req.Tools != nil {
		if err := o.checkWebhooks(*req.Tools); err != nil {
			return s, err
		}
		s.Tools = append(s.Tools, *req.Tools...)
	}
	if req.MCPServers != nil {
		if err := o.checkServers(*req.MCPServers); err != nil {
			return s, err
		}
		s.Servers = append(s.Servers, *req.MCPServers...)
	}
	var err error
	if s.BuiltinTools, err = toolspec.CheckBuiltin(req.BuiltinTools); err != nil {
		return s, err
	}
	if s.Builtin = req.BuiltinTools; s.Builtin == nil {
		s.Builtin = api.Raw("true")
	}
	return s, nil
}

// InvalidID returns the error for a field that is not a valid id.
func InvalidID(field, id string) error {
	return api.Invalid("%s %.140q must match [A-Za-z0-9][A-Za-z0-9._:-]{0,127}", field, id)
}

// EnvironmentNames lists the names of the environments, for people.
func (o *Operator) EnvironmentNames() string {
	var names []string
	for _, e := range o.Environments {
		names = append(names, e.Name)
	}
	return strings.Join(names, ", ")
}

func variableBytes(variables map[string]string) (n int) {
	for name, value := range variables {
		n += len(name) + len(value) + 2
	}
	return n
}

func checkVariables(field string, given *map[string]string, into *map[string]string) error {
	if given == nil {
		return nil
	}
	for name, value := range *given {
		if name == "" || strings.ContainsAny(name, "=\x00") {
			return api.Invalid("%s: %q cannot be the name of a variable", field, name)
		}
		if strings.ContainsRune(value, 0) {
			return api.Invalid("%s: the value of %q contains a NUL byte", field, name)
		}
	}
	*into = *given
	return nil
}

// CheckPatch validates the fields that may change, and puts them into s.
func (o *Operator) CheckPatch(p api.SessionPatch, s *Settings) error {
	if p.Name != nil {
		if len(*p.Name) > MaxName {
			return api.Invalid("name is longer than %d bytes", MaxName)
		}
		s.Name = *p.Name
	}
	if p.Metadata != nil {
		size := 0
		for k, v := range *p.Metadata {
			size += len(k) + len(v)
		}
		if size > maxMetadata {
			return api.Invalid("metadata has more than %d bytes", maxMetadata)
		}
		s.Metadata = *p.Metadata
	}
	if p.IdleTimeoutS != nil {
		if !(*p.IdleTimeoutS >= 0 && *p.IdleTimeoutS <= MaxSeconds) {
			return api.Invalid("idle_timeout_s must be between 0 (never) and %d", MaxSeconds)
		}
		s.IdleMS = int64(math.Ceil(*p.IdleTimeoutS * 1000))
	}
	if p.Guard != nil {
		if s.Guard = *p.Guard; !slices.Contains(api.GuardModes, s.Guard) {
			return api.Invalid("guard must be %q, %q or %q", api.GuardOff, api.GuardWarn, api.GuardBlock)
		}
	}
	if p.Approvals != nil {
		if s.Approvals = *p.Approvals; !slices.Contains(api.ApprovalModes, s.Approvals) {
			return api.Invalid("approvals must be %q, %q or %q", api.ApprovalsOff, api.ApprovalsDestructive, api.ApprovalsAll)
		}
	}
	if err := checkOnIdle(p.OnIdle, &s.OnIdle); err != nil {
		return err
	}
	if err := checkCheckpoints(p.Checkpoints, &s.Checkpoints); err != nil {
		return err
	}
	if err := checkBudgets(p.Budgets, &s.Budgets); err != nil {
		return err
	}
	if p.Network != nil {
		if err := o.CheckNetwork(*p.Network, &s.Network); err != nil {
			return err
		}
	}
	if p.Limits != nil {
		return o.checkLimits(*p.Limits, &s.Limits)
	}
	return nil
}

func checkOnIdle(asked *api.OnIdle, into *api.OnIdle) error {
	if api.Set(into, asked); *into != "" && !slices.Contains(api.OnIdles, *into) {
		return api.Invalid("on_idle must be %q or %q", api.OnIdleHibernate, api.OnIdleDrop)
	}
	return nil
}
