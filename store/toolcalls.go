package store

import (
	"context"
	"database/sql"
	"fmt"

	"talaria/api"
)

// ToolCall is a row of the audit of tool calls.
type ToolCall struct {
	N          int64
	Session    int64
	CallID     string
	Execution  string // its id
	Tool       string
	Provider   api.ToolProvider
	ClientID   string // of the client that provides the tool, which may come back; "": none
	Idempotent bool
	Deadline   int64
	Arguments  api.Raw // redacted; nil where it is long
	Payload    api.Raw // the arguments while the call is open and may be handed over again, else nil
	CreatedAt  int64
	// AwaitsApproval is set until a person has approved the call.
	AwaitsApproval bool
	DurationMS     *int64 // nil while the call is open
	Error          *api.ToolError
}

// keptToolCalls is how many calls the audit of one session holds.
const keptToolCalls = 10_000

const toolCallColumns = `n, session, call_id, execution, tool, provider, client_id, idempotent, deadline, arguments, payload,
	created_at, duration_ms, error, awaits_approval`

// InsertToolCall adds a call that is open. No other open call of the session has its id.
func (t *Tx) InsertToolCall(c ToolCall) error {
	return t.exec(`INSERT INTO tool_calls (session, call_id, execution, tool, provider, client_id, idempotent, deadline,
			arguments, payload, created_at, awaits_approval) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		c.Session, c.CallID, c.Execution, c.Tool, c.Provider, c.ClientID, c.Idempotent, c.Deadline,
		nullJSON(c.Arguments), nullJSON(c.Payload), c.CreatedAt, c.AwaitsApproval)
}

func nullJSON(raw api.Raw) sql.NullString {
	return sql.NullString{String: string(raw), Valid: raw != nil}
}

// EndToolCall writes how a call ended. It does nothing to one that has ended.
func (t *Tx) EndToolCall(session int64, callID string, durationMS int64, failure *api.ToolError) error {
	text := sql.NullString{}
	if failure != nil {
		b, err := api.Marshal(failure)
		if err != nil {
			return err
		}
		text = sql.NullString{String: string(b), Valid: true}
	}
	return t.exec(`UPDATE tool_calls SET duration_ms = ?, error = ?, payload = NULL
		WHERE session = ? AND call_id = ? AND duration_ms IS NULL`, durationMS, text, session, callID)
}

// ApproveToolCall lets a call be handed over, and writes the deadline that it has from now on.
func (t *Tx) ApproveToolCall(session int64, callID string, deadline int64) error {
	return t.exec(`UPDATE tool_calls SET awaits_approval = 0, deadline = ? WHERE session = ? AND call_id = ? AND duration_ms IS NULL`,
		deadline, session, callID)
}

// TrimToolCalls drops the oldest calls of the session's audit that are more than it holds.
func (t *Tx) TrimToolCalls(session int64) error {
	return t.exec(`DELETE FROM tool_calls WHERE session = ?1 AND duration_ms IS NOT NULL AND n <= coalesce(
		(SELECT n FROM tool_calls WHERE session = ?1 ORDER BY n DESC LIMIT 1 OFFSET ?2), 0)`, session, keptToolCalls)
}

// ToolCalls lists the session's calls, newest first, from below before (0: from the newest).
func (s *Store) ToolCalls(ctx context.Context, session, before int64, limit int) ([]ToolCall, error) {
	return s.toolCalls(ctx, `WHERE session = ? AND (? = 0 OR n < ?) ORDER BY n DESC LIMIT ?`, session, before, before, limit)
}

// OpenToolCalls lists the session's calls that have not ended, oldest first.
func (s *Store) OpenToolCalls(ctx context.Context, session int64) ([]ToolCall, error) {
	return s.toolCalls(ctx, `WHERE session = ? AND duration_ms IS NULL ORDER BY n`, session)
}

// CountToolCalls counts the calls of one execution.
func (s *Store) CountToolCalls(ctx context.Context, session int64, execution string) (n int64, err error) {
	err = s.ro.QueryRowContext(ctx, `SELECT count(*) FROM tool_calls WHERE session = ? AND execution = ?`, session, execution).Scan(&n)
	return n, err
}

func (s *Store) toolCalls(ctx context.Context, rest string, args ...any) ([]ToolCall, error) {
	rows, err := s.ro.QueryContext(ctx, `SELECT `+toolCallColumns+` FROM tool_calls `+rest, args...)
	if err != nil {
		return nil, fmt.Errorf("read tool calls: %w", err)
	}
	defer rows.Close()
	var list []ToolCall
	for rows.Next() {
		var c ToolCall
		if err := rows.Scan(&c.N, &c.Session, &c.CallID, &c.Execution, &c.Tool, &c.Provider, &c.ClientID, &c.Idempotent, &c.Deadline,
			rawColumn{&c.Arguments}, rawColumn{&c.Payload}, &c.CreatedAt, &c.DurationMS, asJSON(&c.Error), &c.AwaitsApproval); err != nil {
			return nil, fmt.Errorf("read tool calls: %w", err)
		}
		list = append(list, c)
	}
	return list, rows.Err()
}
