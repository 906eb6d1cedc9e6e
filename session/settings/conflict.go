package settings

import (
	"maps"
	"slices"

	"talaria/api"
	"talaria/session/toolspec"
)

// Conflict names the first requested field that has a different value in a session with settings s, or returns "". asked is the
// checked form of req. Name and metadata never conflict.
func (s Settings) Conflict(req api.SessionRequest, asked Settings) string {
	switch {
	case req.Environment != nil && asked.Environment.Name != s.Environment.Name:
		return "environment"
	case req.Isolation != nil && asked.Isolation != s.Isolation:
		return "isolation"
	case req.Env != nil && !maps.Equal(asked.Env, s.Env):
		return "env"
	case req.Secrets != nil && !maps.Equal(asked.Secrets, s.Secrets):
		return "secrets"
	case req.IdleTimeoutS != nil && asked.IdleMS != s.IdleMS:
		return "idle_timeout_s"
	case req.OnIdle != nil && asked.OnIdle != s.OnIdle:
		return "on_idle"
	case req.Checkpoints != nil && asked.Checkpoints != s.Checkpoints:
		return "checkpoints"
	case req.Guard != nil && asked.Guard != s.Guard:
		return "guard"
	case req.Approvals != nil && asked.Approvals != s.Approvals:
		return "approvals"
	case req.Budgets != nil && !hasBudgets(s.Budgets, req.Budgets):
		return "budgets"
	case req.Network != nil && !SameNetwork(asked.Network, s.Network):
		return "network"
	case req.Mounts != nil && !slices.Equal(asked.Mounts, s.Mounts):
		return "mounts"
	case req.BuiltinTools != nil && !toolspec.SameBuiltin(req.BuiltinTools, s.BuiltinTools):
		return "builtin_tools"
	case req.Tools != nil && !toolspec.SameHooks(asked.Tools, s.Tools):
		return "tools"
	case req.MCPServers != nil && !slices.Equal(asked.Servers, s.Servers):
		return "mcp_servers"
	case req.Packages != nil && !slices.Equal(asked.Packages, s.Packages):
		return "packages"
	}
	if l := req.Limits; l != nil {
		switch {
		case differs(l.MemoryBytes, s.Limits.MemoryBytes):
			return "limits.memory_bytes"
		case differs(l.CPUs, s.Limits.CPUs):
			return "limits.cpus"
		case differs(l.PIDs, s.Limits.PIDs):
			return "limits.pids"
		case differs(l.DiskBytes, s.Limits.DiskBytes):
			return "limits.disk_bytes"
		case differs(l.ExecutionTimeoutS, s.Limits.ExecutionTimeoutS):
			return "limits.execution_timeout_s"
		case differs(l.ExecutionCPUS, s.Limits.ExecutionCPUS):
			return "limits.execution_cpu_s"
		case differs(l.OutputBytes, s.Limits.OutputBytes):
			return "limits.output_bytes"
		case differs(l.DisplayBytes, s.Limits.DisplayBytes):
			return "limits.display_bytes"
		case differs(l.LogBytes, s.Limits.LogBytes):
			return "limits.log_bytes"
		case differs(l.ArtifactBytes, s.Limits.ArtifactBytes):
			return "limits.artifact_bytes"
		case differs(l.ToolCalls, s.Limits.ToolCalls):
			return "limits.tool_calls"
		}
	}
	return ""
}

func differs[T comparable](asked *T, present T) bool { return asked != nil && *asked != present }
