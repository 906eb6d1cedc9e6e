package api

// Bounds of tools and their calls.
const (
	MaxToolArguments = 1 << 20  // bytes of JSON
	MaxToolResult    = 16 << 20 // bytes of JSON
	// ToolTimeoutS is how long a call may take whose tool does not say.
	ToolTimeoutS = 300
	// ToolGraceS is how long the tools of a client with a client_id stay after its socket has closed.
	ToolGraceS = 30
)

// Tool is a function outside of the interpreter that cells may call.
type Tool struct {
	Name        string `json:"name"` // a Python name
	Description string `json:"description,omitzero"`
	// Parameters is the JSON Schema of the arguments, an object; absent: any arguments.
	Parameters Raw     `json:"parameters,omitzero"`
	TimeoutS   float64 `json:"timeout_s,omitzero"` // of one call; 0: ToolTimeoutS
	// Idempotent tools may be called again with the same call_id after their client was gone.
	Idempotent       bool `json:"idempotent,omitzero"`
	ReadOnly         bool `json:"read_only,omitzero"`
	RequiresApproval bool `json:"requires_approval,omitzero"`
	// URL makes the tool a webhook, which the server calls itself. Only the tools in a session's body have one.
	URL string `json:"url,omitzero"`
}

// ToolsRequest is the fields of a tools frame: what a connected client provides from now on.
type ToolsRequest struct {
	Tools []Tool `json:"tools"`
	// ClientID lets the client come back after its socket has closed.
	ClientID *string `json:"client_id,omitzero"`
	// Replace drops the client's other tools; nil means true.
	Replace *bool `json:"replace,omitzero"`
}

// ToolsReply tells which tools were taken.
type ToolsReply struct {
	Accepted []string       `json:"accepted"`
	Rejected []RejectedTool `json:"rejected"`
}

// RejectedTool is a tool that was not taken, and why.
type RejectedTool struct {
	Name   string `json:"name"`
	Reason string `json:"reason"`
}

// ToolRequest is the frame that asks the client which provides a tool to carry out a call.
type ToolRequest struct {
	Type        string `json:"type"` // "tool_request"
	CallID      string `json:"call_id"`
	ExecutionID string `json:"execution_id"`
	Tool        string `json:"tool"`
	Arguments   Raw    `json:"arguments"`
	Deadline    Time   `json:"deadline"`
}

// ToolCancel is the frame that says that nobody waits for a call any more.
type ToolCancel struct {
	Type   string `json:"type"` // "tool_cancel"
	CallID string `json:"call_id"`
	Reason string `json:"reason"` // "interrupted", "timeout" or "deleted"
}

// ToolResult answers a call: with Result, or with Error.
type ToolResult struct {
	CallID string     `json:"call_id"`
	Result Raw        `json:"result,omitzero"`
	Error  *ToolError `json:"error,omitzero"`
}

// ToolProgress is a message from the provider of a tool while it works on a call.
type ToolProgress struct {
	CallID  string `json:"call_id"`
	Message string `json:"message"`
}

// ToolResults is the body of POST tool_results.
type ToolResults struct {
	Results []ToolResult `json:"results"`
}

// ToolError is why a call failed. Code becomes the exception's .code inside.
type ToolError struct {
	Code    string `json:"code,omitzero"`
	Message string `json:"message"`
}

// Error implements error, so that a function can return it.
func (e *ToolError) Error() string { return e.Message }

// PendingToolCall is a call that waits for the client of its execution.
type PendingToolCall struct {
	CallID    string `json:"call_id"`
	Tool      string `json:"tool"`
	Arguments Raw    `json:"arguments"`
}

// ToolInfo is a tool as cells see it, and who provides it.
type ToolInfo struct {
	Tool
	Provider  ToolProvider `json:"provider"`
	Server    string       `json:"server,omitzero"` // the MCP server that has it
	Available bool         `json:"available"`       // false while its client is gone and may come back
}

// ToolProvider is the kind of provider that carries out the calls of a tool.
type ToolProvider string

// The providers of tools.
const (
	ProviderClient    ToolProvider = "client"    // attached by a WebSocket
	ProviderExecution ToolProvider = "execution" // the HTTP client that runs the cell
	ProviderBuiltin   ToolProvider = "builtin"   // runs in the sandbox
	ProviderWebhook   ToolProvider = "webhook"   // the receiver at the tool's URL
	ProviderMCP       ToolProvider = "mcp"       // an MCP server that the operator configured
)

// ToolCallRecord is a call in the audit.
type ToolCallRecord struct {
	CallID      string       `json:"call_id"`
	ExecutionID string       `json:"execution_id"`
	Tool        string       `json:"tool"`
	Provider    ToolProvider `json:"provider"`
	// Arguments is absent where it is longer than 4 KiB; the event tool_call has it.
	Arguments  Raw        `json:"arguments,omitzero"`
	Status     string     `json:"status"` // "open", "ok" or "error"
	Error      *ToolError `json:"error,omitzero"`
	CreatedAt  Time       `json:"created_at"`
	DurationMS *int64     `json:"duration_ms,omitzero"`
}
