package store

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	"talaria/api"
)

// Session is a row of sessions. N is its number in the database, ID its name inside the server, ClientID the
// name that its owner uses.
type Session struct {
	N              int64
	ID             string
	Owner          string
	ClientID       string
	Name           string
	Environment    string
	Isolation      string
	UID            int
	Limits         api.Limits
	IdleTimeoutMS  int64
	Env            map[string]string
	Secrets        map[string]string
	Metadata       map[string]string
	Mounts         []api.Mount
	Network        api.Network
	Packages       []string // the requirements of its creation
	Guard          api.GuardMode
	Approvals      api.ApprovalMode
	Budgets        api.Budgets
	OnIdle         api.OnIdle      // "": as the operator says
	SavedVariables api.Raw         // JSON that the store does not look into; nil for none
	Checkpoints    api.Checkpoints // a zero MemoryBytes is a share of the session's
	Spent          Spent
	BuiltinTools   api.Raw // true, false, or a list of names
	Tools          []api.Tool
	MCPServers     []string
	Beside         int64  // the number of the session in whose sandbox its kernels run; 0: they have their own
	BesideID       string // its ClientID; only read
	Folder         string // where its kernels begin, if they run in another's sandbox; "": in the workspace
	State          api.SessionState
	Reason         string
	Generation     int64
	Wakes          int64 // kernels that began with the saved variables of the one before, and share its generation
	KernelStarted  *int64
	RestartReason  string
	Layers         []string
	Handle         api.Raw // JSON that the store does not look into; nil where no kernel ever answered
	ExecutionCount int64
	LogID          string
	FirstSeq       int64
	LastSeq        int64
	KSeq           uint64
	LateBytes      int64
	Output         api.Raw // JSON that the store does not look into; nil for none
	DiskBytes      int64
	LogBytes       int64 // of events and executions
	ArtifactBytes  int64
	NotebookN      int64
	CreatedAt      int64
	LastActiveAt   int64
}

const sessionColumns = `n, id, owner, client_id, name, environment, isolation, uid, limits, idle_timeout_ms, env,
	secrets, metadata, mounts, network, packages, builtin_tools, guard, state, reason, generation, kernel_started_at, restart_reason, layers, handle, execution_count,
	log_id, first_seq, last_seq, kseq, late_bytes, output, disk_bytes, log_bytes, artifact_bytes, notebook_n, created_at, last_active_at,
	budgets, spent_executions, spent_cpu_ms, spent_tool_calls, approvals, tools, mcp_servers, checkpoints, on_idle, saved, wakes, beside, folder,
	iif(beside = 0, '', coalesce((SELECT main.client_id FROM sessions AS main WHERE main.n = sessions.beside), ''))`

func scanSession(scan func(...any) error) (Session, error) {
	var s Session
	err := scan(&s.N, &s.ID, &s.Owner, &s.ClientID, &s.Name, &s.Environment, &s.Isolation, &s.UID, asJSON(&s.Limits),
		&s.IdleTimeoutMS, asJSON(&s.Env), asJSON(&s.Secrets), asJSON(&s.Metadata), asJSON(&s.Mounts), asJSON(&s.Network),
		asJSON(&s.Packages), rawColumn{&s.BuiltinTools}, &s.Guard, &s.State, &s.Reason, &s.Generation, &s.KernelStarted, &s.RestartReason, asJSON(&s.Layers), rawColumn{&s.Handle},
		&s.ExecutionCount, &s.LogID, &s.FirstSeq, &s.LastSeq,
		&s.KSeq, &s.LateBytes, rawColumn{&s.Output}, &s.DiskBytes, &s.LogBytes, &s.ArtifactBytes, &s.NotebookN, &s.CreatedAt, &s.LastActiveAt,
		asJSON(&s.Budgets), &s.Spent.Executions, &s.Spent.CPUMS, &s.Spent.ToolCalls, &s.Approvals, asJSON(&s.Tools), asJSON(&s.MCPServers), asJSON(&s.Checkpoints), &s.OnIdle, rawColumn{&s.SavedVariables}, &s.Wakes, &s.Beside, &s.Folder, &s.BesideID)
	if errors.Is(err, sql.ErrNoRows) {
		err = ErrNotFound
	}
	return s, err
}

// InsertSession adds the session. It fails with [ErrExists] if the owner has one with that ClientID.
func (t *Tx) InsertSession(s Session) error {
	if err := t.exec(`UPDATE server SET last_n = max(last_n, ?) WHERE id = 1`, s.N); err != nil {
		return fmt.Errorf("number a session: %w", err)
	}
	res, err := t.result(`INSERT INTO sessions (n, id, owner, client_id, name, environment, isolation, uid, limits,
			idle_timeout_ms, env, secrets, metadata, mounts, network, packages, builtin_tools, guard, state, reason, generation, restart_reason, layers,
			execution_count, log_id, first_seq, last_seq, kseq, late_bytes, disk_bytes, created_at, last_active_at, budgets, approvals, tools, mcp_servers, checkpoints, on_idle, saved, beside, folder)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT (owner, client_id) DO NOTHING`,
		s.N, s.ID, s.Owner, s.ClientID, s.Name, s.Environment, s.Isolation, s.UID, asJSON(&s.Limits), s.IdleTimeoutMS,
		asJSON(&s.Env), asJSON(&s.Secrets), asJSON(&s.Metadata), asJSON(&s.Mounts), asJSON(&s.Network), asJSON(&s.Packages), cmp.Or(string(s.BuiltinTools), "true"), s.Guard, s.State,
		s.Reason, s.Generation, s.RestartReason, asJSON(&s.Layers), s.ExecutionCount, s.LogID, s.FirstSeq, s.LastSeq, s.KSeq, s.LateBytes, s.DiskBytes,
		s.CreatedAt, s.LastActiveAt, asJSON(&s.Budgets), s.Approvals, asJSON(&s.Tools), asJSON(&s.MCPServers), asJSON(&s.Checkpoints), s.OnIdle, nullJSON(s.SavedVariables), s.Beside, s.Folder)
	if err != nil {
		return fmt.Errorf("insert session: %w", err)
	}
	if n, err := res.RowsAffected(); err != nil || n == 0 {
		return errors.Join(err, ErrExists)
	}
	return nil
}

// ErrExists means that a row with that key exists.
var ErrExists = errors.New("already exists")

// UpdateSettings writes what PATCH can change.
func (t *Tx) UpdateSettings(n int64, name string, metadata map[string]string, limits api.Limits, network api.Network,
	idleMS int64, guard api.GuardMode, approvals api.ApprovalMode, budgets api.Budgets, checkpoints api.Checkpoints, onIdle api.OnIdle) error {
	return t.one(`UPDATE sessions SET name = ?, metadata = ?, limits = ?, network = ?, idle_timeout_ms = ?, guard = ?, approvals = ?, budgets = ?, checkpoints = ?, on_idle = ?
		WHERE n = ?`, name, asJSON(&metadata), asJSON(&limits), asJSON(&network), idleMS, guard, approvals, asJSON(&budgets), asJSON(&checkpoints), onIdle, n)
}

// UpdateLayers writes the isolation in force.
func (t *Tx) UpdateLayers(n int64, layers []string) error {
	return t.one(`UPDATE sessions SET layers = ? WHERE n = ?`, asJSON(&layers), n)
}

// BeginKernel writes that another kernel takes over.
func (t *Tx) BeginKernel(n, generation, wakes int64) error {
	return t.one(`UPDATE sessions SET generation = ?, wakes = ?, restart_reason = '', execution_count = 0, kseq = 0, late_bytes = 0,
		output = NULL WHERE n = ?`, generation, wakes, n)
}

// KernelNumber is the number of the session's present or last kernel, which no other one has.
func (s Session) KernelNumber() int64 { return s.Generation + s.Wakes }

// KernelReady writes that the kernel answered. handle is JSON that the store does not look into.
func (t *Tx) KernelReady(n, at int64, layers []string, handle []byte) error {
	return t.one(`UPDATE sessions SET kernel_started_at = ?, layers = ?, handle = ? WHERE n = ?`,
		at, asJSON(&layers), string(handle), n)
}

// KernelGone writes the reason why the next kernel is started.
func (t *Tx) KernelGone(n int64, restartReason string) error {
	return t.one(`UPDATE sessions SET restart_reason = ? WHERE n = ?`, restartReason, n)
}

// Progress is the part of a session's row that changes with most commits. Nil fields stay as they are.
type Progress struct {
	LastSeq    *int64
	LastActive *int64
	State      *StateReason
	Cursor     *Cursor
	// LogBytes and ArtifactBytes are added to what the session keeps.
	LogBytes, ArtifactBytes int64
	Spent                   Spent // is added, too
}

// Spent is what a session has spent of its budgets since it was created.
type Spent struct{ Executions, CPUMS, ToolCalls int64 }

// Plus is the sum of both.
func (s Spent) Plus(o Spent) Spent {
	return Spent{s.Executions + o.Executions, s.CPUMS + o.CPUMS, s.ToolCalls + o.ToolCalls}
}

// StateReason is a session's state and its reason.
type StateReason struct {
	State  api.SessionState
	Reason string
}

// Cursor is which record of the present generation the log holds, and what goes with it.
type Cursor struct {
	KSeq           uint64
	ExecutionCount int64
	LateBytes      int64
	Output         []byte // JSON that the store does not look into, or nil
}

// Advance writes progress.
func (t *Tx) Advance(n int64, p Progress) error {
	var state, reason, kseq, count, late, output any
	if p.State != nil {
		state, reason = p.State.State, p.State.Reason
	}
	if c := p.Cursor; c != nil {
		kseq, count, late = c.KSeq, c.ExecutionCount, c.LateBytes
		if c.Output != nil {
			output = string(c.Output)
		}
	}
	return t.one(`UPDATE sessions SET last_seq = coalesce(?, last_seq), last_active_at = coalesce(?, last_active_at),
		state = coalesce(?, state), reason = coalesce(?, reason), output = iif(?5 IS NULL, output, ?8),
		kseq = coalesce(?5, kseq), execution_count = coalesce(?6, execution_count), late_bytes = coalesce(?7, late_bytes),
		log_bytes = log_bytes + ?9, artifact_bytes = artifact_bytes + ?10, spent_executions = spent_executions + ?11,
		spent_cpu_ms = spent_cpu_ms + ?12, spent_tool_calls = spent_tool_calls + ?13
		WHERE n = ?14`, p.LastSeq, p.LastActive, state, reason, kseq, count, late, output, p.LogBytes, p.ArtifactBytes,
		p.Spent.Executions, p.Spent.CPUMS, p.Spent.ToolCalls, n)
}

// UpdateSnapshot writes the workspace as the log now knows it.
func (t *Tx) UpdateSnapshot(n int64, snapshot []byte, diskBytes int64) error {
	return t.one(`UPDATE sessions SET snapshot = ?, disk_bytes = ? WHERE n = ?`, snapshot, diskBytes, n)
}

// UpdateLogID gives the log a new id.
func (t *Tx) UpdateLogID(n int64, id string) error {
	return t.one(`UPDATE sessions SET log_id = ? WHERE n = ?`, id, n)
}

// TruncateLog drops the events after last and the artifacts among them. Executions whose places lie there end at last.
func (t *Tx) TruncateLog(n, last int64) error {
	digests, err := t.bodiesAfter(n, last)
	if err != nil {
		return err
	}
	for _, digest := range digests {
		if _, err := t.releaseBody(n, digest); err != nil {
			return err
		}
	}
	err = t.one(`UPDATE sessions SET last_seq = ?2, log_bytes = log_bytes -
		(SELECT coalesce(sum(size), 0) + ?3 * count(*) FROM events WHERE session = ?1 AND seq > ?2) WHERE n = ?1`, n, last, EventCost)
	if err != nil {
		return err
	}
	for _, query := range []string{
		`DELETE FROM events WHERE session = ?1 AND seq > ?2`,
		`DELETE FROM artifacts WHERE session = ?1 AND seq > ?2`,
		`UPDATE executions SET queued_seq = min(queued_seq, ?2 + 1), started_seq = min(started_seq, ?2),
			finished_seq = min(finished_seq, ?2) WHERE session = ?1`,
		`UPDATE documents SET through = min(through, ?2) WHERE session = ?1`, // new cells are shown
	} {
		if err := t.exec(query, n, last); err != nil {
			return err
		}
	}
	return nil
}

// bodiesAfter lists the digests of the bodies of the events after a position, one for each event.
func (t *Tx) bodiesAfter(session, seq int64) (digests []string, err error) {
	rows, err := t.rows(`SELECT digest FROM events WHERE session = ? AND seq > ? AND digest IS NOT NULL`, session, seq)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var digest string
		if err := rows.Scan(&digest); err != nil {
			return nil, err
		}
		digests = append(digests, digest)
	}
	return digests, rows.Err()
}

// PutNotebook stores an imported notebook, which hides the executions so far.
func (t *Tx) PutNotebook(n int64, notebook []byte) error {
	return t.one(`UPDATE sessions SET notebook = ?,
		notebook_n = (SELECT coalesce(max(n), 0) FROM executions WHERE session = ?) WHERE n = ?`, notebook, n, n)
}

// DisownSession takes the session from its owner, as the first step of its deletion: nobody finds it, and its id is free.
func (t *Tx) DisownSession(n int64) error {
	return t.one(`UPDATE sessions SET owner = '', client_id = id, state = ? WHERE n = ?`, api.StateDead, n)
}

// SessionsBeside lists the sessions whose kernels run in the sandbox of the session with that number.
func (s *Store) SessionsBeside(ctx context.Context, n int64) ([]Session, error) {
	return s.sessions(ctx, `WHERE owner <> '' AND beside = ? AND beside <> 0 ORDER BY n`, n)
}

// SessionsBesideNone lists the numbers of the sessions that are beside one that is deleted, or whose deletion has begun.
func (s *Store) SessionsBesideNone(ctx context.Context) ([]int64, error) {
	return s.numbers(ctx, `WHERE owner <> '' AND beside <> 0
		AND NOT EXISTS (SELECT 1 FROM sessions AS main WHERE main.n = sessions.beside AND main.owner <> '')`)
}

// DisownedSessions lists the numbers of sessions whose deletion has begun.
func (s *Store) DisownedSessions(ctx context.Context) ([]int64, error) {
	return s.numbers(ctx, `WHERE owner = ''`)
}

// numbers lists the numbers of the sessions that a condition selects.
func (s *Store) numbers(ctx context.Context, where string) ([]int64, error) {
	rows, err := s.ro.QueryContext(ctx, `SELECT n FROM sessions `+where+` ORDER BY n`)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var list []int64
	for rows.Next() {
		var n int64
		if err := rows.Scan(&n); err != nil {
			return nil, err
		}
		list = append(list, n)
	}
	return list, rows.Err()
}

// DeleteSession drops the session and all that belongs to it.
func (t *Tx) DeleteSession(n int64) error { return t.one(`DELETE FROM sessions WHERE n = ?`, n) }

// FindSession returns the number and the id of the owner's session, or [ErrNotFound].
func (s *Store) FindSession(ctx context.Context, owner, clientID string) (n int64, id string, err error) {
	err = s.ro.QueryRowContext(ctx, `SELECT n, id FROM sessions WHERE owner = ? AND client_id = ?`, owner, clientID).Scan(&n, &id)
	if errors.Is(err, sql.ErrNoRows) {
		err = ErrNotFound
	}
	return n, id, err
}

// SessionNumber returns the session with that number, unless its deletion has begun.
func (s *Store) SessionNumber(ctx context.Context, n int64) (Session, error) {
	return scanSession(s.ro.QueryRowContext(ctx, `SELECT `+sessionColumns+` FROM sessions WHERE n = ? AND owner <> ''`, n).Scan)
}

// SessionFilter selects sessions of one owner, newest first. Before is the number of the last one of the page before.
type SessionFilter struct {
	Owner    string
	State    api.SessionState
	Metadata map[string]string
	Search   string // in the name or the client's id, in any case; "": all
	Before   int64  // 0: from the newest
	Limit    int
}

// likeEscaper makes text mean itself in a LIKE pattern.
var likeEscaper = strings.NewReplacer(`\`, `\\`, `%`, `\%`, `_`, `\_`)

// Sessions lists what the filter selects.
func (s *Store) Sessions(ctx context.Context, f SessionFilter) ([]Session, error) {
	rest, args := f.clauses()
	return s.sessions(ctx, rest, args...)
}

// SessionKeys lists the N and the ID of what the filter selects, in the order of Sessions, which reads and decodes whole rows.
func (s *Store) SessionKeys(ctx context.Context, f SessionFilter) (numbers []int64, ids []string, err error) {
	rest, args := f.clauses()
	rows, err := s.ro.QueryContext(ctx, `SELECT n, id FROM sessions `+rest, args...)
	if err != nil {
		return nil, nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var n int64
		var id string
		if err := rows.Scan(&n, &id); err != nil {
			return nil, nil, err
		}
		numbers, ids = append(numbers, n), append(ids, id)
	}
	return numbers, ids, rows.Err()
}

// clauses returns what follows the table's name in a query, and its arguments.
func (f SessionFilter) clauses() (string, []any) {
	where, args := []string{"owner = ?"}, []any{f.Owner}
	if f.State != "" {
		where, args = append(where, "state = ?"), append(args, f.State)
	}
	for k, v := range f.Metadata {
		where = append(where, "EXISTS (SELECT 1 FROM json_each(metadata) WHERE key = ? AND value = ?)")
		args = append(args, k, v)
	}
	if f.Search != "" {
		like := "%" + likeEscaper.Replace(f.Search) + "%"
		where = append(where, `(name LIKE ? ESCAPE '\' OR client_id LIKE ? ESCAPE '\')`)
		args = append(args, like, like)
	}
	if f.Before > 0 {
		where, args = append(where, "n < ?"), append(args, f.Before)
	}
	return `WHERE ` + strings.Join(where, " AND ") + ` ORDER BY n DESC LIMIT ?`, append(args, f.Limit)
}

// OpenSessions lists, those beside others last, the sessions that had a kernel, executions that had not ended or after which something was to be done, open
// questions, or a rollback under way when the last server ended.
func (s *Store) OpenSessions(ctx context.Context) ([]Session, error) {
	return s.sessions(ctx, `WHERE owner <> '' AND (state NOT IN ('dead', 'hibernated') OR rollback IS NOT NULL
		OR EXISTS (SELECT 1 FROM executions WHERE session = sessions.n AND finished_at IS NULL)
		OR EXISTS (SELECT 1 FROM executions WHERE session = sessions.n AND after_cell IS NOT NULL)
		OR EXISTS (SELECT 1 FROM approvals WHERE session = sessions.n AND decision = '')) ORDER BY beside <> 0, n`)
}

// AllSessions lists every session of every owner.
func (s *Store) AllSessions(ctx context.Context) ([]Session, error) {
	return s.sessions(ctx, `WHERE owner <> '' ORDER BY n`)
}

func (s *Store) sessions(ctx context.Context, rest string, args ...any) ([]Session, error) {
	rows, err := s.ro.QueryContext(ctx, `SELECT `+sessionColumns+` FROM sessions `+rest, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var list []Session
	for rows.Next() {
		one, err := scanSession(rows.Scan)
		if err != nil {
			return nil, err
		}
		list = append(list, one)
	}
	return list, rows.Err()
}

// SessionStates counts all owners' sessions by state.
func (s *Store) SessionStates(ctx context.Context) (map[api.SessionState]int64, error) {
	rows, err := s.ro.QueryContext(ctx, `SELECT state, count(*) FROM sessions WHERE owner <> '' GROUP BY state`)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	counts := map[api.SessionState]int64{}
	for rows.Next() {
		var state api.SessionState
		var n int64
		if err := rows.Scan(&state, &n); err != nil {
			return nil, err
		}
		counts[state] = n
	}
	return counts, rows.Err()
}

// OwnerStates counts each owner's sessions by state.
func (s *Store) OwnerStates(ctx context.Context, found func(owner string, state api.SessionState, n int64)) error {
	rows, err := s.ro.QueryContext(ctx, `SELECT owner, state, count(*) FROM sessions WHERE owner <> '' GROUP BY owner, state`)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var owner string
		var state api.SessionState
		var n int64
		if err := rows.Scan(&owner, &state, &n); err != nil {
			return err
		}
		found(owner, state, n)
	}
	return rows.Err()
}

// Snapshot returns the workspace as the log knows it, or nil if nothing is known.
func (s *Store) Snapshot(ctx context.Context, n int64) ([]byte, error) {
	var b []byte
	err := s.ro.QueryRowContext(ctx, `SELECT snapshot FROM sessions WHERE n = ?`, n).Scan(&b)
	return b, err
}

// Notebook returns the imported notebook, nil if there is none, and the number of the last execution that it hides.
func (s *Store) Notebook(ctx context.Context, n int64) (notebook []byte, hides int64, err error) {
	err = s.ro.QueryRowContext(ctx, `SELECT notebook, notebook_n FROM sessions WHERE n = ?`, n).Scan(&notebook, &hides)
	return notebook, hides, err
}
