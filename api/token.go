package api

// Right is something that a session token may do.
type Right string

// The rights of session tokens.
const (
	RightRead     Right = "read"     // the session, its log, its files; every token has it
	RightRun      Right = "run"      // cells, maps, packages, interrupts, resets, checkpoints, answers and approvals, questions about names
	RightWrite    Right = "write"    // files and the notebook page's cells
	RightTerminal Right = "terminal" // shells in the sandbox
)

// Rights are all rights.
var Rights = []Right{RightRead, RightRun, RightWrite, RightTerminal}

// SessionTokenRequest is the body of POST tokens. Without rights the token only reads; without ExpiresS it lasts an hour.
type SessionTokenRequest struct {
	Rights   []Right  `json:"rights,omitzero"`
	ExpiresS *float64 `json:"expires_s,omitzero"`
}

// OwnedToken is one of an owner's tokens, without the token itself: for all sessions of the owner, or for Session alone
// with Rights until ExpiresAt. LastUsedAt is when a request last used it, which may lag by a minute; nil before that.
type OwnedToken struct {
	ID         string  `json:"id"`
	Session    string  `json:"session,omitzero"`
	Rights     []Right `json:"rights,omitzero"`
	CreatedAt  Time    `json:"created_at"`
	ExpiresAt  *Time   `json:"expires_at,omitzero"`
	LastUsedAt *Time   `json:"last_used_at,omitzero"`
}

// SessionToken is a token for one session. Token is in the answer that creates it only. LastUsedAt is as in OwnedToken.
type SessionToken struct {
	ID         string  `json:"id"`
	Token      string  `json:"token,omitzero"`
	Rights     []Right `json:"rights"`
	CreatedAt  Time    `json:"created_at"`
	ExpiresAt  Time    `json:"expires_at"`
	LastUsedAt *Time   `json:"last_used_at,omitzero"`
}
