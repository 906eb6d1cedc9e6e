package store

import (
	"context"
	"database/sql"
	"errors"
	"slices"

	"talaria/api"
)

// Execution is a row of executions. N orders the executions of a session.
type Execution struct {
	N              int64
	Session        int64
	ID             string
	Code           string
	Silent         bool
	StopOnError    bool
	AllowStdin     bool
	TimeoutMS      int64
	Status         api.ExecutionStatus
	Reason         string
	State          api.VariablesState
	ExecutionCount *int64
	Generation     int64
	Text           string
	Error          *api.ErrorOutput
	Artifacts      []api.Artifact
	Usage          api.ExecutionUsage
	Signature      string // written and not read, except by Signatures
	Guard          *api.Guard
	TruncatedBytes int64
	Tools          []api.Tool // that came with its request
	Expressions    map[string]string
	Checkpoint     bool // one is to be made before it runs
	Undone         bool
	AfterCell      api.Raw // JSON that the store does not look into: what is to be done when it has ended; nil: nothing
	Origin         []byte  // written here, and read by Origin
	ToolCalls      int64
	Outside        bool // it may have reached or changed something outside of the sandbox
	CreatedAt      int64
	StartedAt      *int64
	FinishedAt     *int64
	QueuedSeq      int64 // places in the log, written and not read
	StartedSeq     int64
	FinishedSeq    int64
}

const executionColumns = `n, session, id, code, silent, stop_on_error, allow_stdin, timeout_ms, status, reason, state,
	execution_count, generation, text, error, artifacts, usage, guard, truncated_bytes, tools, tool_calls, created_at, started_at,
	finished_at, expressions, checkpoint, undone, after_cell, outside`

func scanExecution(scan func(...any) error) (Execution, error) {
	var e Execution
	err := scan(&e.N, &e.Session, &e.ID, &e.Code, &e.Silent, &e.StopOnError, &e.AllowStdin, &e.TimeoutMS, &e.Status,
		&e.Reason, &e.State, &e.ExecutionCount, &e.Generation, &e.Text, asJSON(&e.Error), asJSON(&e.Artifacts),
		asJSON(&e.Usage), asJSON(&e.Guard), &e.TruncatedBytes, asJSON(&e.Tools), &e.ToolCalls, &e.CreatedAt, &e.StartedAt,
		&e.FinishedAt, asJSON(&e.Expressions), &e.Checkpoint, &e.Undone, rawColumn{&e.AfterCell}, &e.Outside)
	if errors.Is(err, sql.ErrNoRows) {
		err = ErrNotFound
	}
	return e, err
}

// InsertExecution adds the execution and returns its number; it returns [ErrExists] if the session has one with that
// id.
func (t *Tx) InsertExecution(e Execution) (int64, error) {
	var tools, expressions any // null for most
	if len(e.Tools) > 0 {
		tools = asJSON(&e.Tools)
	}
	if len(e.Expressions) > 0 {
		expressions = asJSON(&e.Expressions)
	}
	res, err := t.result(`INSERT INTO executions (session, id, code, silent, stop_on_error, allow_stdin, timeout_ms,
			status, reason, state, generation, text, artifacts, usage, truncated_bytes, tools, created_at, queued_seq,
			expressions, origin, checkpoint, outside)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, '', ?, ?, '', '[]', '{}', 0, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (session, id) DO NOTHING`,
		e.Session, e.ID, e.Code, e.Silent, e.StopOnError, e.AllowStdin, e.TimeoutMS, e.Status, e.State, e.Generation,
		tools, e.CreatedAt, e.QueuedSeq, expressions, e.Origin, e.Checkpoint, e.Outside)
	if err != nil {
		return 0, err
	}
	if n, err := res.RowsAffected(); err != nil || n == 0 {
		return 0, errors.Join(err, ErrExists)
	}
	return res.LastInsertId()
}

// StartExecution writes that the execution runs: its count, generation and start.
func (t *Tx) StartExecution(e Execution) error {
	return t.one(`UPDATE executions SET status = ?, execution_count = ?, generation = ?, started_at = ?, started_seq = ?
		WHERE n = ?`, api.StatusRunning, e.ExecutionCount, e.Generation, e.StartedAt, e.StartedSeq, e.N)
}

// FinishExecution writes the execution's outcome.
func (t *Tx) FinishExecution(e Execution) error {
	failure, err := nullableJSON(e.Error)
	if err != nil {
		return err
	}
	guard, err := nullableJSON(e.Guard)
	if err != nil {
		return err
	}
	return t.one(`UPDATE executions SET status = ?, reason = ?, state = ?, generation = ?, text = ?, error = ?,
			artifacts = ?, usage = ?, truncated_bytes = ?, tool_calls = ?, finished_at = ?, started_seq = coalesce(started_seq, ?),
			finished_seq = ?, signature = ?, guard = ?, outside = ? WHERE n = ?`,
		e.Status, e.Reason, e.State, e.Generation, e.Text, failure, asJSON(&e.Artifacts), asJSON(&e.Usage),
		e.TruncatedBytes, e.ToolCalls, e.FinishedAt, e.StartedSeq, e.FinishedSeq, e.Signature, guard, e.Outside, e.N)
}

// MarkOutside writes that an execution may have reached or changed something outside of the sandbox.
func (t *Tx) MarkOutside(n int64) error {
	return t.one(`UPDATE executions SET outside = 1 WHERE n = ?`, n)
}

// UpdateAfterCell writes what is to be done when an execution has ended; nil is nothing. encoded is JSON that the store does not
// look into.
func (t *Tx) UpdateAfterCell(n int64, encoded []byte) error {
	return t.one(`UPDATE executions SET after_cell = ? WHERE n = ?`, nullJSON(encoded), n)
}

// nullableJSON returns a value as JSON, or NULL for nil.
func nullableJSON[T any](value *T) (sql.Null[string], error) {
	if value == nil {
		return sql.Null[string]{}, nil
	}
	b, err := api.Marshal(value)
	return sql.Null[string]{V: string(b), Valid: err == nil}, err
}

// Signatures lists the signatures of the session's last executions that have one, oldest first.
func (s *Store) Signatures(ctx context.Context, session int64, most int) ([]string, error) {
	list, err := s.texts(ctx, `SELECT signature FROM executions WHERE session = ? AND signature <> '' ORDER BY n DESC LIMIT ?`,
		session, most)
	slices.Reverse(list)
	return list, err
}

// ForgetSignatures makes the session's executions so far no longer count as failures.
func (t *Tx) ForgetSignatures(session int64) error {
	return t.exec(`UPDATE executions SET signature = '' WHERE session = ? AND signature <> ''`, session)
}

// Execution returns the session's execution with that id.
func (s *Store) Execution(ctx context.Context, session int64, id string) (Execution, error) {
	return scanExecution(s.ro.QueryRowContext(ctx,
		`SELECT `+executionColumns+` FROM executions WHERE session = ? AND id = ?`, session, id).Scan)
}

// Origin returns what was stored as the origin of an execution, or nil.
func (s *Store) Origin(ctx context.Context, session int64, id string) (origin []byte, err error) {
	err = s.ro.QueryRowContext(ctx, `SELECT origin FROM executions WHERE session = ? AND id = ?`, session, id).Scan(&origin)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	return origin, err
}

// Executions lists the session's executions, newest first, from below before (0: from the newest).
func (s *Store) Executions(ctx context.Context, session, before int64, limit int) ([]Execution, error) {
	return s.executions(ctx, `WHERE session = ? AND (? = 0 OR n < ?) ORDER BY n DESC LIMIT ?`,
		session, before, before, limit)
}

// OpenExecutions lists the session's executions that have not ended, oldest first.
func (s *Store) OpenExecutions(ctx context.Context, session int64) ([]Execution, error) {
	return s.executions(ctx, `WHERE session = ? AND finished_at IS NULL ORDER BY n`, session)
}

// EndedWithMore lists the session's executions that have ended and after which something is still to be done, oldest first.
func (s *Store) EndedWithMore(ctx context.Context, session int64) ([]Execution, error) {
	return s.executions(ctx, `WHERE session = ? AND after_cell IS NOT NULL AND finished_at IS NOT NULL ORDER BY n`, session)
}

// ExecutionsThrough calls found for each execution that was queued up to a position of the log, oldest first, with
// whether it had ended by then.
func (s *Store) ExecutionsThrough(ctx context.Context, session, seq int64, found func(id string, ended bool)) error {
	rows, err := s.ro.QueryContext(ctx, `SELECT id, coalesce(finished_seq <= ?2, 0) FROM executions
		WHERE session = ?1 AND queued_seq <= ?2 ORDER BY n`, session, seq)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var id string
		var ended bool
		if err := rows.Scan(&id, &ended); err != nil {
			return err
		}
		found(id, ended)
	}
	return rows.Err()
}

// NotebookExecutions lists the ids of the session's executions that a notebook shows, oldest first: after the number
// after, and not silent.
func (s *Store) NotebookExecutions(ctx context.Context, session, after int64) ([]string, error) {
	return s.texts(ctx, `SELECT id FROM executions WHERE session = ? AND n > ? AND silent = 0 ORDER BY n`, session, after)
}

func (s *Store) executions(ctx context.Context, rest string, args ...any) ([]Execution, error) {
	rows, err := s.ro.QueryContext(ctx, `SELECT `+executionColumns+` FROM executions `+rest, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var list []Execution
	for rows.Next() {
		one, err := scanExecution(rows.Scan)
		if err != nil {
			return nil, err
		}
		list = append(list, one)
	}
	return list, rows.Err()
}

// CountExecutions counts all owners' executions.
func (s *Store) CountExecutions(ctx context.Context) (n int64, err error) {
	err = s.ro.QueryRowContext(ctx, `SELECT count(*) FROM executions`).Scan(&n)
	return n, err
}
