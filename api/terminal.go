package api

// TerminalRequest opens a shell. Rows and Cols are in characters, 24 and 80 by default.
type TerminalRequest struct {
	Rows *int64 `json:"rows,omitzero"`
	Cols *int64 `json:"cols,omitzero"`
}

// Terminal is a shell of a session.
type Terminal struct {
	ID string `json:"id"`
}

// TerminalOffset is a text frame of a terminal's socket: the next binary frame begins at that byte of the output. It
// comes first, and where output was left out that is kept no longer.
type TerminalOffset struct {
	Type   string `json:"type"` // "offset"
	Offset int64  `json:"offset"`
}

// TerminalError is a text frame of a terminal's socket: a frame of the client was not carried out.
type TerminalError struct {
	Type  string `json:"type"` // "error"
	Error *Error `json:"error"`
}

// TerminalExit is the last text frame of a terminal's socket: the shell has ended.
type TerminalExit struct {
	Type string `json:"type"` // "exit"
	Code int    `json:"code"` // the exit status, or 128 and the signal
}

// TerminalResize is a text frame that a client sends.
type TerminalResize struct {
	Type string `json:"type"` // "resize"
	Rows int64  `json:"rows"`
	Cols int64  `json:"cols"`
}
