package api

// Hello is the first frame of the server.
type Hello struct {
	Type     string  `json:"type"` // "hello"
	Protocol int     `json:"protocol"`
	Session  Session `json:"session"`
}

// Reply answers one frame. Exactly one of Result and Error is set.
type Reply struct {
	Type   string `json:"type"` // "reply"
	ID     Raw    `json:"id"`   // echoed, or null
	OK     bool   `json:"ok"`
	Result any    `json:"result,omitzero"`
	Error  *Error `json:"error,omitzero"`
}

// ExecuteReply is the result of an execute frame.
type ExecuteReply struct {
	ExecutionID string `json:"execution_id"`
}

// PartsFrame comes before a large message, to sockets that asked for parts: binary frames follow, and the message is what they
// hold together, Bytes bytes of UTF-8.
type PartsFrame struct {
	Type  string `json:"type"` // "parts"
	Bytes int    `json:"bytes"`
}

// UsageFrame is sent once a second to sockets that asked for it; it is not in the log.
type UsageFrame struct {
	Type   string `json:"type"` // "usage"
	Usage  Usage  `json:"usage"`
	Limits Limits `json:"limits"`
	ReapAt *Time  `json:"reap_at,omitzero"`
}
