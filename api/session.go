package api

// SessionState is what a session's kernel is doing.
type SessionState string

// The states of a session.
const (
	StateStarting   SessionState = "starting"
	StateIdle       SessionState = "idle"
	StateBusy       SessionState = "busy"
	StateHibernated SessionState = "hibernated"
	StateDead       SessionState = "dead"
)

// SessionStates are all states of a session.
var SessionStates = []SessionState{StateStarting, StateIdle, StateBusy, StateHibernated, StateDead}

// NetworkMode says what a kernel may reach.
type NetworkMode string

// The network modes.
const (
	NetworkNone  NetworkMode = "none"
	NetworkAllow NetworkMode = "allow"
	NetworkFull  NetworkMode = "full"
)

// IsolationMode is how a session asks to be started.
type IsolationMode string

// IsolationStrict asks for a start that shares nothing with other kernels.
const (
	IsolationDefault IsolationMode = "default"
	IsolationStrict  IsolationMode = "strict"
)

// GuardMode says what happens when a cell fails again and again in the same way.
type GuardMode string

// The guard's modes.
const (
	GuardOff   GuardMode = "off"
	GuardWarn  GuardMode = "warn"  // the execution says so
	GuardBlock GuardMode = "block" // and the fifth one is refused
)

// GuardModes are all modes of the guard.
var GuardModes = []GuardMode{GuardOff, GuardWarn, GuardBlock}

// SessionRequest is the body of POST and PUT on sessions. A nil field was not given.
type SessionRequest struct {
	ID           *string             `json:"id,omitzero"`
	Name         *string             `json:"name,omitzero"`
	Environment  *string             `json:"environment,omitzero"`
	Limits       *LimitsRequest      `json:"limits,omitzero"`
	IdleTimeoutS *float64            `json:"idle_timeout_s,omitzero"`
	Network      *Network            `json:"network,omitzero"`
	Mounts       *[]Mount            `json:"mounts,omitzero"`
	Env          *map[string]string  `json:"env,omitzero"`
	Secrets      *map[string]string  `json:"secrets,omitzero"`
	Isolation    *IsolationMode      `json:"isolation,omitzero"`
	Packages     *[]string           `json:"packages,omitzero"`
	Tools        *[]Tool             `json:"tools,omitzero"`       // webhooks
	MCPServers   *[]string           `json:"mcp_servers,omitzero"` // names that the operator configured
	Guard        *GuardMode          `json:"guard,omitzero"`
	Approvals    *ApprovalMode       `json:"approvals,omitzero"`
	Budgets      *BudgetsRequest     `json:"budgets,omitzero"`
	Checkpoints  *CheckpointsRequest `json:"checkpoints,omitzero"`
	OnIdle       *OnIdle             `json:"on_idle,omitzero"`
	// BuiltinTools is true, false, or the names of the built-in tools that cells may call.
	BuiltinTools Raw                `json:"builtin_tools,omitzero"`
	Metadata     *map[string]string `json:"metadata,omitzero"`
}

// IfExists is what PUT does with a session that exists: "" compares it with the body.
type IfExists string

// The policies of PUT.
const (
	IfExistsKeep  IfExists = "keep"  // answers with the session as it is
	IfExistsApply IfExists = "apply" // changes the session as PATCH would
)

// SessionPatch is the body of PATCH. A nil field stays as it is.
type SessionPatch struct {
	Name         *string             `json:"name,omitzero"`
	Metadata     *map[string]string  `json:"metadata,omitzero"`
	Limits       *LimitsRequest      `json:"limits,omitzero"`
	Network      *Network            `json:"network,omitzero"`
	IdleTimeoutS *float64            `json:"idle_timeout_s,omitzero"`
	Guard        *GuardMode          `json:"guard,omitzero"`
	Approvals    *ApprovalMode       `json:"approvals,omitzero"`
	Budgets      *BudgetsRequest     `json:"budgets,omitzero"`
	Checkpoints  *CheckpointsRequest `json:"checkpoints,omitzero"`
	OnIdle       *OnIdle             `json:"on_idle,omitzero"`
}

// LimitsRequest asks for limits; a nil one keeps the operator's default.
type LimitsRequest struct {
	MemoryBytes       *int64   `json:"memory_bytes,omitzero"`
	CPUs              *float64 `json:"cpus,omitzero"`
	PIDs              *int64   `json:"pids,omitzero"`
	DiskBytes         *int64   `json:"disk_bytes,omitzero"`
	ExecutionTimeoutS *float64 `json:"execution_timeout_s,omitzero"`
	ExecutionCPUS     *int64   `json:"execution_cpu_s,omitzero"`
	OutputBytes       *int64   `json:"output_bytes,omitzero"`
	DisplayBytes      *int64   `json:"display_bytes,omitzero"`
	LogBytes          *int64   `json:"log_bytes,omitzero"`
	ArtifactBytes     *int64   `json:"artifact_bytes,omitzero"`
	ToolCalls         *int64   `json:"tool_calls,omitzero"`
}

// BudgetsRequest asks for budgets: what a session may spend in all. A nil one stays as it is, 0 is none.
type BudgetsRequest struct {
	Executions *int64   `json:"executions,omitzero"`
	CPUS       *float64 `json:"cpu_s,omitzero"`
	ToolCalls  *int64   `json:"tool_calls,omitzero"`
	LifetimeS  *float64 `json:"lifetime_s,omitzero"` // since the session was created
}

// Budgets are the budgets of a session; nil is none.
type Budgets struct {
	Executions *int64   `json:"executions,omitzero"`
	CPUS       *float64 `json:"cpu_s,omitzero"`
	ToolCalls  *int64   `json:"tool_calls,omitzero"`
	LifetimeS  *float64 `json:"lifetime_s,omitzero"`
}

// BudgetLeft is a budget, and how much of it is left.
type BudgetLeft[T int64 | float64] struct {
	Limit T `json:"limit"`
	Left  T `json:"left"`
}

// BudgetsLeft are the budgets that a session has.
type BudgetsLeft struct {
	Executions *BudgetLeft[int64]   `json:"executions,omitzero"`
	CPUS       *BudgetLeft[float64] `json:"cpu_s,omitzero"`
	ToolCalls  *BudgetLeft[int64]   `json:"tool_calls,omitzero"`
	LifetimeS  *BudgetLeft[float64] `json:"lifetime_s,omitzero"`
}

// Limits are the limits in force.
type Limits struct {
	MemoryBytes       int64   `json:"memory_bytes"`
	CPUs              float64 `json:"cpus"`
	PIDs              int64   `json:"pids"`
	DiskBytes         int64   `json:"disk_bytes"`
	ExecutionTimeoutS float64 `json:"execution_timeout_s"`
	ExecutionCPUS     int64   `json:"execution_cpu_s"` // CPU time; 0: any
	OutputBytes       int64   `json:"output_bytes"`    // printed by one execution, each stream
	DisplayBytes      int64   `json:"display_bytes"`   // events of one execution's displays, as JSON
	LogBytes          int64   `json:"log_bytes"`       // events and executions that are kept
	ArtifactBytes     int64   `json:"artifact_bytes"`  // disk space of the artifacts that are kept
	ToolCalls         int64   `json:"tool_calls"`
}

// Network is what a session may reach. Allow holds host, host:port, *.host:port or CIDR.
type Network struct {
	Mode  NetworkMode `json:"mode"`
	Allow []string    `json:"allow,omitempty"`
}

// Mount is a directory of the host inside the sandbox. Mode is "ro" or "rw".
type Mount struct {
	Source string `json:"source"`
	Target string `json:"target"`
	Mode   string `json:"mode"`
}

// Session is a session as clients see it.
type Session struct {
	ID             string            `json:"id"`
	Name           string            `json:"name"`
	State          SessionState      `json:"state"`
	Reason         string            `json:"reason,omitzero"`
	Environment    string            `json:"environment"`
	Isolation      Isolation         `json:"isolation"`
	Beside         string            `json:"beside,omitzero"` // the session in whose sandbox its kernels run
	Limits         Limits            `json:"limits"`
	Budgets        BudgetsLeft       `json:"budgets,omitzero"`
	Network        Network           `json:"network"`
	Mounts         []Mount           `json:"mounts"`
	Guard          GuardMode         `json:"guard"`
	Approvals      ApprovalMode      `json:"approvals"`
	Checkpoints    Checkpoints       `json:"checkpoints"`
	OnIdle         OnIdle            `json:"on_idle"`
	MCPServers     []string          `json:"mcp_servers,omitzero"` // whose tools its cells may call
	IdleTimeoutS   float64           `json:"idle_timeout_s"`
	ReapAt         *Time             `json:"reap_at,omitzero"`
	Metadata       map[string]string `json:"metadata"`
	ExecutionCount int64             `json:"execution_count"`
	LogID          string            `json:"log_id"`
	FirstSeq       int64             `json:"first_seq"`
	LastSeq        int64             `json:"last_seq"`
	PendingInput   *PendingInput     `json:"pending_input,omitzero"`
	Kernel         Kernel            `json:"kernel"`
	Usage          Usage             `json:"usage"`
	CreatedAt      Time              `json:"created_at"`
	LastActiveAt   Time              `json:"last_active_at"`
}

// Isolation names what is in force for a session: its tier, and each layer in words.
type Isolation struct {
	Tier   string   `json:"tier"`
	Layers []string `json:"layers"`
}

// PendingInput is a question that a cell waits on.
type PendingInput struct {
	RequestID   string `json:"request_id"`
	ExecutionID string `json:"execution_id"`
	Prompt      string `json:"prompt"`
	Password    bool   `json:"password"`
}

// Kernel is the present or last interpreter of a session. StartedAt is nil until the first one answered.
type Kernel struct {
	Generation int64  `json:"generation"`
	Python     string `json:"python"`
	Engine     string `json:"engine"` // "stdlib" or "ipython"
	StartedAt  *Time  `json:"started_at"`
}

// Usage is what a session takes now.
type Usage struct {
	MemoryBytes     int64     `json:"memory_bytes"`
	PeakMemoryBytes int64     `json:"peak_memory_bytes"` // since the last execution began
	CPUSeconds      float64   `json:"cpu_seconds"`
	DiskBytes       int64     `json:"disk_bytes"`
	LogBytes        int64     `json:"log_bytes"`
	ArtifactBytes   int64     `json:"artifact_bytes"`
	PIDs            int64     `json:"pids"`
	Processes       []Process `json:"processes"`
}

// Process is one process of a session, with its pid as seen inside.
type Process struct {
	PID  int64  `json:"pid"`
	Name string `json:"name"`
}

// ResetRequest is the body of a reset; nil means true.
type ResetRequest struct {
	KeepFiles    *bool `json:"keep_files,omitzero"`
	KeepPackages *bool `json:"keep_packages,omitzero"`
}

// InterruptRequest names the execution that is meant; without one it is whatever runs and waits.
type InterruptRequest struct {
	ExecutionID *string `json:"execution_id,omitzero"`
}

// InputRequest answers a question of a cell. Without RequestID it answers the one that is open.
type InputRequest struct {
	RequestID *string `json:"request_id,omitzero"`
	Value     string  `json:"value"`
}

// Stats is the server in figures.
type Stats struct {
	Version       string                 `json:"version"`
	StartedAt     Time                   `json:"started_at"`
	Sessions      map[SessionState]int64 `json:"sessions"`
	Kernels       int64                  `json:"kernels"`
	Pool          Pool                   `json:"pool"`
	MemoryBytes   int64                  `json:"memory_bytes"` // of all kernels
	CPUSeconds    float64                `json:"cpu_seconds"`  // of all kernels that live
	Executions    int64                  `json:"executions"`
	Isolation     Isolation              `json:"isolation"`
	Environments  []EnvironmentInfo      `json:"environments"`
	EventsWritten int64                  `json:"events_written"`
	Machine       Machine                `json:"machine"`
}

// Machine is what the server's machine has and what is available; 0 if the operating system does not say. The disk
// is the one that holds the state directory.
type Machine struct {
	CPUs                 int     `json:"cpus"`
	Load1                float64 `json:"load1"`
	MemoryBytes          int64   `json:"memory_bytes"`
	MemoryAvailableBytes int64   `json:"memory_available_bytes"`
	DiskBytes            int64   `json:"disk_bytes"`
	DiskAvailableBytes   int64   `json:"disk_available_bytes"`
}

// Pool counts ready kernels; both are 0 where none are kept.
type Pool struct {
	Ready  int64 `json:"ready"`
	Target int64 `json:"target"`
}

// EnvironmentInfo is one configured Python.
type EnvironmentInfo struct {
	Name   string `json:"name"`
	Python string `json:"python"`
	Engine string `json:"engine"`
}
