package api

// Bounds of approvals.
const (
	// ApprovalTimeoutS is how long a question waits for its answer. After that, the answer is no.
	ApprovalTimeoutS = 300
	// MaxApprovals is how many questions of one session are open at a time. Further ones are denied at once.
	MaxApprovals = 100
	// MaxApprovalReason bounds the reason that a person gives for a decision, in bytes.
	MaxApprovalReason = 2000
	// MaxApprovalDetail bounds the detail of a question, in bytes.
	MaxApprovalDetail = 32 << 10
)

// ApprovalMode says what a session asks a person for before it happens.
type ApprovalMode string

// The modes of approvals. A tool with requires_approval asks in each of them.
const (
	ApprovalsOff         ApprovalMode = "off"
	ApprovalsDestructive ApprovalMode = "destructive" // what may change something outside of the sandbox
	ApprovalsAll         ApprovalMode = "all"         // every cell, and every call of a tool outside of the sandbox
)

// ApprovalModes are all modes of approvals.
var ApprovalModes = []ApprovalMode{ApprovalsOff, ApprovalsDestructive, ApprovalsAll}

// ApprovalKind is what an approval is for.
type ApprovalKind string

// The kinds of approvals.
const (
	ApprovalTool     ApprovalKind = "tool"     // one call of a tool
	ApprovalCell     ApprovalKind = "cell"     // an execution, which has not started
	ApprovalNetwork  ApprovalKind = "network"  // a change of the session that lets it reach more
	ApprovalPackages ApprovalKind = "packages" // an installation
)

// ApprovalDecision is how a question ended.
type ApprovalDecision string

// The decisions. Clients can take the first three.
const (
	DecisionOnce      ApprovalDecision = "once"
	DecisionSession   ApprovalDecision = "session" // also for the same tool, or for all cells, until a reset
	DecisionDeny      ApprovalDecision = "deny"
	DecisionExpired   ApprovalDecision = "expired"   // nobody answered, or nobody was attached
	DecisionCancelled ApprovalDecision = "cancelled" // what was asked for was interrupted, or ended
)

// ApprovalDecisions are the decisions that clients can take.
var ApprovalDecisions = []ApprovalDecision{DecisionOnce, DecisionSession, DecisionDeny}

// Approved reports whether the decision is a yes.
func (d ApprovalDecision) Approved() bool { return d == DecisionOnce || d == DecisionSession }

// Approval is a question to a person, and its answer once there is one.
type Approval struct {
	ApprovalID  string       `json:"approval_id"`
	ExecutionID string       `json:"execution_id,omitzero"` // "" where no cell is behind it
	CallID      string       `json:"call_id,omitzero"`      // of the tool call
	Kind        ApprovalKind `json:"kind"`
	Summary     string       `json:"summary"` // one line
	Detail      string       `json:"detail"`  // code, or arguments; cut at MaxApprovalDetail
	// Patterns names what made a cell or a command ask.
	Patterns  []string `json:"patterns,omitzero"`
	CreatedAt Time     `json:"created_at"`
	ExpiresAt Time     `json:"expires_at"`
	// Decision is "" while the question is open.
	Decision   ApprovalDecision `json:"decision,omitzero"`
	By         string           `json:"by,omitzero"` // who decided
	Reason     string           `json:"reason,omitzero"`
	ResolvedAt *Time            `json:"resolved_at,omitzero"`
}

// ApprovalAnswer decides a question: the body of POST on an approval.
type ApprovalAnswer struct {
	Decision ApprovalDecision `json:"decision"`
	Reason   string           `json:"reason,omitzero"`
}

// ApproveRequest is the fields of an approve frame.
type ApproveRequest struct {
	ApprovalID string `json:"approval_id"`
	ApprovalAnswer
}
