package session

import (
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"talaria/api"
	"talaria/kernel"
	"talaria/session/packages"
	"talaria/session/toolspec"
)

// settings is a checked request, with the operator's defaults for what it does not ask for.
type settings struct {
	name        string
	environment kernel.Environment
	isolation   api.IsolationMode
	limits      api.Limits
	idleMS      int64
	env         map[string]string
	secrets     map[string]string
	metadata    map[string]string
	mounts      []api.Mount
	network     api.Network
	packages    []string
	guard       api.GuardMode
	approvals   api.ApprovalMode
	budgets     api.Budgets
	checkpoints api.Checkpoints
	onIdle      api.OnIdle // "": as the operator says
	builtin     api.Raw    // as it was given
	tools       []api.Tool
	servers     []string
}

const (
	maxName     = 256
	maxMetadata = 64 << 10
	maxIdleS    = 10 * 365 * 24 * 3600
	minMemory   = 64 << 20
	// maxVariables is what fits next to a program's arguments.
	maxVariables = 1 << 20
)

// MaxIdleTimeout is the longest idle_timeout_s of a session.
const MaxIdleTimeout = maxIdleS * time.Second

func invalid(format string, args ...any) error {
	return api.Errorf(api.CodeInvalidRequest, format, args...)
}

// check validates a whole request, whether or not the session already exists.
func (m *Manager) check(req api.SessionRequest) (settings, error) {
	s := settings{
		environment: m.cfg.Environments[0],
		isolation:   api.IsolationDefault,
		limits:      m.complete(m.cfg.Defaults),
		idleMS:      m.cfg.IdleTimeout.Milliseconds(),
		network:     api.Network{Mode: api.NetworkNone},
		guard:       api.GuardWarn,
		approvals:   api.ApprovalsOff,
		checkpoints: m.checkpointDefaults(),
		env:         map[string]string{},
		secrets:     map[string]string{},
		metadata:    map[string]string{},
		packages:    []string{},
	}
	if req.ID != nil && !api.ValidID(*req.ID) {
		return s, invalidID("id", *req.ID)
	}
	if req.Environment != nil {
		i := slices.IndexFunc(m.cfg.Environments, func(e kernel.Environment) bool { return e.Name == *req.Environment })
		if i < 0 {
			return s, invalid("environment %q is not configured; choose one of: %s", *req.Environment, m.environmentNames())
		}
		s.environment = m.cfg.Environments[i]
	}
	if req.Isolation != nil {
		switch s.isolation = *req.Isolation; s.isolation {
		case api.IsolationDefault, api.IsolationStrict:
		default:
			return s, invalid("isolation must be %q or %q", api.IsolationDefault, api.IsolationStrict)
		}
	}
	if err := checkVariables("env", req.Env, &s.env); err != nil {
		return s, err
	}
	if err := checkVariables("secrets", req.Secrets, &s.secrets); err != nil {
		return s, err
	}
	if size := variableBytes(s.env) + variableBytes(s.secrets); size > maxVariables {
		return s, invalid("env and secrets have %d bytes together; the limit is %d", size, maxVariables)
	}
	for name := range s.secrets {
		if _, both := s.env[name]; both {
			return s, invalid("%q is in both env and secrets", name)
		}
	}
	patch := api.SessionPatch{
		Name: req.Name, Metadata: req.Metadata, Limits: req.Limits, Network: req.Network, IdleTimeoutS: req.IdleTimeoutS,
		Guard: req.Guard, Approvals: req.Approvals, Budgets: req.Budgets, Checkpoints: req.Checkpoints, OnIdle: req.OnIdle,
	}
	if err := m.checkPatch(patch, &s); err != nil {
		return s, err
	}
	if req.Mounts != nil {
		s.mounts = *req.Mounts
		if err := m.checkMounts(s.mounts); err != nil {
			return s, err
		}
	}
	if req.Packages != nil && len(*req.Packages) > 0 {
		if err := m.cfg.Packages.Allowed(); err != nil {
			return s, err
		}
		if err := packages.CheckRequirements("packages", *req.Packages); err != nil {
			return s, err
		}
		s.packages = *req.Packages
	}
	s.tools, s.servers = []api.Tool{}, []string{}
	if req.Tools != nil {
		if err := m.checkWebhooks(*req.Tools); err != nil {
			return s, err
		}
		s.tools = append(s.tools, *req.Tools...)
	}
	if req.MCPServers != nil {
		if err := m.checkServers(*req.MCPServers); err != nil {
			return s, err
		}
		s.servers = append(s.servers, *req.MCPServers...)
	}
	if _, err := toolspec.CheckBuiltin(req.BuiltinTools); err != nil {
		return s, err
	}
	if s.builtin = req.BuiltinTools; s.builtin == nil {
		s.builtin = api.Raw("true")
	}
	return s, nil
}

func invalidID(field, id string) error {
	return invalid("%s %.140q must match [A-Za-z0-9][A-Za-z0-9._:-]{0,127}", field, id)
}

func (m *Manager) environmentNames() string {
	var names []string
	for _, e := range m.cfg.Environments {
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
			return invalid("%s: %q cannot be the name of a variable", field, name)
		}
		if strings.ContainsRune(value, 0) {
			return invalid("%s: the value of %q contains a NUL byte", field, name)
		}
	}
	*into = *given
	return nil
}

// checkPatch validates the fields that may change, and puts them into s.
func (m *Manager) checkPatch(p api.SessionPatch, s *settings) error {
	if p.Name != nil {
		if len(*p.Name) > maxName {
			return invalid("name is longer than %d bytes", maxName)
		}
		s.name = *p.Name
	}
	if p.Metadata != nil {
		size := 0
		for k, v := range *p.Metadata {
			size += len(k) + len(v)
		}
		if size > maxMetadata {
			return invalid("metadata has more than %d bytes", maxMetadata)
		}
		s.metadata = *p.Metadata
	}
	if p.IdleTimeoutS != nil {
		if !(*p.IdleTimeoutS >= 0 && *p.IdleTimeoutS <= maxIdleS) {
			return invalid("idle_timeout_s must be between 0 (never) and %d", maxIdleS)
		}
		s.idleMS = int64(math.Ceil(*p.IdleTimeoutS * 1000))
	}
	if p.Guard != nil {
		if s.guard = *p.Guard; !slices.Contains(api.GuardModes, s.guard) {
			return invalid("guard must be %q, %q or %q", api.GuardOff, api.GuardWarn, api.GuardBlock)
		}
	}
	if p.Approvals != nil {
		if s.approvals = *p.Approvals; !slices.Contains(api.ApprovalModes, s.approvals) {
			return invalid("approvals must be %q, %q or %q", api.ApprovalsOff, api.ApprovalsDestructive, api.ApprovalsAll)
		}
	}
	if err := checkOnIdle(p.OnIdle, &s.onIdle); err != nil {
		return err
	}
	if err := checkCheckpoints(p.Checkpoints, &s.checkpoints); err != nil {
		return err
	}
	if err := checkBudgets(p.Budgets, &s.budgets); err != nil {
		return err
	}
	if p.Network != nil {
		if err := m.checkNetwork(*p.Network, &s.network); err != nil {
			return err
		}
	}
	if p.Limits != nil {
		return m.checkLimits(*p.Limits, &s.limits)
	}
	return nil
}

func (m *Manager) checkLimits(r api.LimitsRequest, l *api.Limits) error {
	if r.ArtifactBytes == nil && l.ArtifactBytes == m.artifactDefault(*l) { // it follows disk_bytes
		defer func() { l.ArtifactBytes = m.artifactDefault(*l) }()
	}
	return boundLimits(r, l, m.cfg.Ceilings)
}

// boundLimits puts the requested limits into l, unless one is below the least value or above its ceiling.
func boundLimits(r api.LimitsRequest, l *api.Limits, c api.Limits) error {
	return firstError(
		limit("memory_bytes", r.MemoryBytes, &l.MemoryBytes, minMemory, c.MemoryBytes),
		limit("cpus", r.CPUs, &l.CPUs, 0.01, c.CPUs),
		limit("pids", r.PIDs, &l.PIDs, 8, c.PIDs),
		limit("disk_bytes", r.DiskBytes, &l.DiskBytes, 4096, c.DiskBytes),
		limit("output_bytes", r.OutputBytes, &l.OutputBytes, 1, c.OutputBytes),
		limit("display_bytes", r.DisplayBytes, &l.DisplayBytes, 1, c.DisplayBytes),
		limit("log_bytes", r.LogBytes, &l.LogBytes, 1, c.LogBytes),
		limit("artifact_bytes", r.ArtifactBytes, &l.ArtifactBytes, 1, c.ArtifactBytes),
		limit("tool_calls", r.ToolCalls, &l.ToolCalls, 0, c.ToolCalls),
		checkTime("limits.execution_timeout_s", r.ExecutionTimeoutS, &l.ExecutionTimeoutS, c.ExecutionTimeoutS),
		checkTime("limits.execution_cpu_s", r.ExecutionCPUS, &l.ExecutionCPUS, c.ExecutionCPUS),
	)
}

func firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func limit[T int64 | float64](name string, asked *T, into *T, least, most T) error {
	if asked == nil {
		return nil
	}
	if !(*asked >= least) {
		return invalid("limits.%s must be at least %v", name, least)
	}
	if most > 0 && *asked > most {
		return api.Errorf(api.CodeLimitExceeded, "limits.%s: %v is above the operator's ceiling of %v", name, *asked, most)
	}
	*into = *asked
	return nil
}

// checkTime treats 0 as no limit, which is above any ceiling.
func checkTime[T int64 | float64](field string, asked, into *T, most T) error {
	if asked == nil {
		return nil
	}
	if !(*asked >= 0 && *asked <= maxIdleS) {
		return invalid("%s must be between 0 (no limit) and %d", field, maxIdleS)
	}
	if most > 0 && (*asked == 0 || *asked > most) {
		return api.Errorf(api.CodeLimitExceeded, "%s: %v is above the operator's ceiling of %v", field, *asked, most)
	}
	*into = *asked
	return nil
}

// conflictingField names the first requested field that has a different value in the session, or returns "". asked is
// the checked form of req. Name and metadata never conflict.
func (s *Session) conflictingField(req api.SessionRequest, asked settings) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case req.Environment != nil && asked.environment.Name != s.env.Name:
		return "environment"
	case req.Isolation != nil && asked.isolation != s.isolation:
		return "isolation"
	case req.Env != nil && !maps.Equal(asked.env, s.variables):
		return "env"
	case req.Secrets != nil && !maps.Equal(asked.secrets, s.secrets):
		return "secrets"
	case req.IdleTimeoutS != nil && asked.idleMS != s.idleMS:
		return "idle_timeout_s"
	case req.OnIdle != nil && asked.onIdle != s.onIdle:
		return "on_idle"
	case req.Checkpoints != nil && asked.checkpoints != s.checkpoints.set:
		return "checkpoints"
	case req.Guard != nil && asked.guard != s.guard.setting():
		return "guard"
	case req.Approvals != nil && asked.approvals != s.approvalMode:
		return "approvals"
	case req.Budgets != nil && !s.hasBudgets(req.Budgets):
		return "budgets"
	case req.Network != nil && !sameNetwork(asked.network, s.network):
		return "network"
	case req.Mounts != nil && !slices.Equal(asked.mounts, s.mounts):
		return "mounts"
	case req.BuiltinTools != nil && !toolspec.SameBuiltin(req.BuiltinTools, s.tools.builtin):
		return "builtin_tools"
	case req.Tools != nil && !toolspec.SameHooks(asked.tools, s.hooks):
		return "tools"
	case req.MCPServers != nil && !slices.Equal(asked.servers, s.servers):
		return "mcp_servers"
	case req.Packages != nil && !slices.Equal(asked.packages, s.packages.Requirements()):
		return "packages"
	}
	if l := req.Limits; l != nil {
		switch {
		case differs(l.MemoryBytes, s.limits.MemoryBytes):
			return "limits.memory_bytes"
		case differs(l.CPUs, s.limits.CPUs):
			return "limits.cpus"
		case differs(l.PIDs, s.limits.PIDs):
			return "limits.pids"
		case differs(l.DiskBytes, s.limits.DiskBytes):
			return "limits.disk_bytes"
		case differs(l.ExecutionTimeoutS, s.limits.ExecutionTimeoutS):
			return "limits.execution_timeout_s"
		case differs(l.ExecutionCPUS, s.limits.ExecutionCPUS):
			return "limits.execution_cpu_s"
		case differs(l.OutputBytes, s.limits.OutputBytes):
			return "limits.output_bytes"
		case differs(l.DisplayBytes, s.limits.DisplayBytes):
			return "limits.display_bytes"
		case differs(l.LogBytes, s.limits.LogBytes):
			return "limits.log_bytes"
		case differs(l.ArtifactBytes, s.limits.ArtifactBytes):
			return "limits.artifact_bytes"
		case differs(l.ToolCalls, s.limits.ToolCalls):
			return "limits.tool_calls"
		}
	}
	return ""
}

func differs[T comparable](asked *T, present T) bool { return asked != nil && *asked != present }
