package store

import (
	"context"
	"database/sql"
	"errors"
	"iter"

	"talaria/api"
)

// Checkpoint is a row of checkpoints.
type Checkpoint struct {
	N              int64
	Session        int64
	ID             string
	Name           string
	Execution      string // the id of the newest execution that had ended; "": none had
	ExecutionN     int64  // its number, or 0
	ExecutionCount int64
	CreatedAt      int64
	Level          api.CheckpointLevel
	Reason         string
	Undo           bool
	Copy           string // the name of the copy of the interpreter; "" for none
	Generation     int64  // the number of the kernel that has the copy
	Resident       int64
	Losses         []api.NotSaved
	Variables      []api.Variable
	Undone         [][2]int64 // ranges of numbers of the executions that were undone then
	Space          int64      // of the files on the disk, together
	Manifest       []byte     // that the store does not look into
	Saved          api.Raw    // JSON that the store does not look into: its saved variables; nil: none
}

const checkpointColumns = `n, session, id, name, execution, execution_n, execution_count, created_at, level, reason, undo, copy,
	generation, resident, losses, variables, undone, space, manifest, saved`

func scanCheckpoint(scan func(...any) error) (Checkpoint, error) {
	var c Checkpoint
	err := scan(&c.N, &c.Session, &c.ID, &c.Name, &c.Execution, &c.ExecutionN, &c.ExecutionCount, &c.CreatedAt, &c.Level,
		&c.Reason, &c.Undo, &c.Copy, &c.Generation, &c.Resident, asJSON(&c.Losses), asJSON(&c.Variables), asJSON(&c.Undone), &c.Space, &c.Manifest,
		rawColumn{&c.Saved})
	if errors.Is(err, sql.ErrNoRows) {
		err = ErrNotFound
	}
	return c, err
}

// InsertCheckpoint adds a checkpoint, which needs the blobs of these digests, and returns its number.
func (t *Tx) InsertCheckpoint(c Checkpoint, digests iter.Seq[string]) (int64, error) {
	res, err := t.result(`INSERT INTO checkpoints (session, id, name, execution, execution_n, execution_count, created_at, level,
			reason, undo, copy, generation, resident, losses, variables, undone, space, manifest, saved)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		c.Session, c.ID, c.Name, c.Execution, c.ExecutionN, c.ExecutionCount, c.CreatedAt, c.Level, c.Reason, c.Undo, c.Copy,
		c.Generation, c.Resident, asJSON(&c.Losses), asJSON(&c.Variables), asJSON(&c.Undone), c.Space, c.Manifest,
		nullJSON(c.Saved))
	if err != nil {
		return 0, err
	}
	n, err := res.LastInsertId()
	if err != nil {
		return 0, err
	}
	for digest := range digests {
		if err := t.exec(`INSERT INTO checkpoint_files (digest, checkpoint) VALUES (?, ?)`, digest, n); err != nil {
			return 0, err
		}
	}
	return n, nil
}

// DeleteCheckpoint drops a checkpoint.
func (t *Tx) DeleteCheckpoint(n int64) error { return t.exec(`DELETE FROM checkpoints WHERE n = ?`, n) }

// DigestsOnlyIn lists the digests of the blobs that this checkpoint needs and no other one.
func (s *Store) DigestsOnlyIn(ctx context.Context, checkpoint int64) ([]string, error) {
	return s.texts(ctx, `SELECT digest FROM checkpoint_files AS f WHERE checkpoint = ?1
		AND NOT EXISTS (SELECT 1 FROM checkpoint_files AS o WHERE o.digest = f.digest AND o.checkpoint <> ?1)`, checkpoint)
}

// UpdateCheckpointCopy writes which copy of the interpreter a checkpoint has, or, with "", why it has none any more.
func (t *Tx) UpdateCheckpointCopy(n int64, copied, reason string) error {
	level := api.CheckpointLive
	if copied == "" {
		level = api.CheckpointFiles
	}
	return t.exec(`UPDATE checkpoints SET copy = ?, level = ?, reason = ? WHERE n = ?`, copied, level, reason, n)
}

// EndCheckpointCopies writes that no checkpoint of the session has a copy of an interpreter any more.
func (t *Tx) EndCheckpointCopies(session int64, reason string) error {
	return t.exec(`UPDATE checkpoints SET copy = '', level = ?, reason = ? WHERE session = ? AND copy <> ''`,
		api.CheckpointFiles, reason, session)
}

// CountCopies returns how many checkpoints of each session, by its number, have a copy of an interpreter.
func (s *Store) CountCopies(ctx context.Context) (map[int64]int64, error) {
	rows, err := s.ro.QueryContext(ctx, `SELECT session, count(*) FROM checkpoints WHERE copy <> '' GROUP BY session`)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	counts := map[int64]int64{}
	for rows.Next() {
		var session, count int64
		if err := rows.Scan(&session, &count); err != nil {
			return nil, err
		}
		counts[session] = count
	}
	return counts, rows.Err()
}

// UpdateSaved writes the saved variables of a session, and the digest of the blob that they are in; nil is none. encoded is JSON
// that the store does not look into.
func (t *Tx) UpdateSaved(session int64, encoded []byte, digest string) error {
	if err := t.one(`UPDATE sessions SET saved = ? WHERE n = ?`, nullJSON(encoded), session); err != nil {
		return err
	}
	if err := t.exec(`DELETE FROM refs WHERE session = ? AND kind = ?`, session, refSaved); err != nil || digest == "" {
		return err
	}
	_, err := t.InsertRef(session, Ref{Digest: digest, Kind: refSaved})
	return err
}

// UpdateExecutionCount writes the number of executions of a session's kernel.
func (t *Tx) UpdateExecutionCount(session, count int64) error {
	return t.one(`UPDATE sessions SET execution_count = ? WHERE n = ?`, count, session)
}

// BeginRollback writes that a rollback is under way. encoded is JSON that the store does not look into.
func (t *Tx) BeginRollback(session int64, encoded []byte) error {
	return t.one(`UPDATE sessions SET rollback = ? WHERE n = ?`, string(encoded), session)
}

// EndRollback writes that no rollback is under way.
func (t *Tx) EndRollback(session int64) error {
	return t.one(`UPDATE sessions SET rollback = NULL WHERE n = ?`, session)
}

// SetUndone marks the session's executions in these ranges of numbers as undone, and no others.
func (t *Tx) SetUndone(session int64, ranges [][2]int64) error {
	if err := t.exec(`UPDATE executions SET undone = 0 WHERE session = ? AND undone`, session); err != nil {
		return err
	}
	for _, r := range ranges {
		err := t.exec(`UPDATE executions SET undone = 1 WHERE session = ? AND n BETWEEN ? AND ? AND started_at IS NOT NULL`, session, r[0], r[1])
		if err != nil {
			return err
		}
	}
	return nil
}

// Undone returns the ranges of numbers that have the session's undone executions, and no others of the session.
func (s *Store) Undone(ctx context.Context, session int64) ([][2]int64, error) {
	rows, err := s.ro.QueryContext(ctx, `SELECT n, undone FROM executions WHERE session = ?1 AND started_at IS NOT NULL
		AND EXISTS (SELECT 1 FROM executions WHERE session = ?1 AND undone) ORDER BY n`, session)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	ranges := [][2]int64{}
	for open := false; rows.Next(); {
		var n int64
		var undone bool
		if err := rows.Scan(&n, &undone); err != nil {
			return nil, err
		}
		switch {
		case undone && open:
			ranges[len(ranges)-1][1] = n
		case undone:
			ranges = append(ranges, [2]int64{n, n})
		}
		open = undone
	}
	return ranges, rows.Err()
}

// Checkpoint returns the session's checkpoint with that id.
func (s *Store) Checkpoint(ctx context.Context, session int64, id string) (Checkpoint, error) {
	return scanCheckpoint(s.ro.QueryRowContext(ctx,
		`SELECT `+checkpointColumns+` FROM checkpoints WHERE session = ? AND id = ?`, session, id).Scan)
}

// Checkpoints lists the session's checkpoints, newest first.
func (s *Store) Checkpoints(ctx context.Context, session int64) ([]Checkpoint, error) {
	rows, err := s.ro.QueryContext(ctx, `SELECT `+checkpointColumns+` FROM checkpoints WHERE session = ? ORDER BY n DESC`, session)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var list []Checkpoint
	for rows.Next() {
		c, err := scanCheckpoint(rows.Scan)
		if err != nil {
			return nil, err
		}
		list = append(list, c)
	}
	return list, rows.Err()
}

// Rollback returns the rollback of the session that is under way, or nil.
func (s *Store) Rollback(ctx context.Context, session int64) (encoded []byte, err error) {
	err = s.ro.QueryRowContext(ctx, `SELECT rollback FROM sessions WHERE n = ?`, session).Scan(&encoded)
	return encoded, err
}

// Ended returns the number of the session's newest execution that ran and has ended, 0 for none, and the id of the newest of those
// whose effects have not been taken back, "" for none.
func (s *Store) Ended(ctx context.Context, session int64) (n int64, id string, err error) {
	err = s.ro.QueryRowContext(ctx, `SELECT coalesce(max(n), 0), coalesce((SELECT id FROM executions
			WHERE session = ?1 AND started_at IS NOT NULL AND finished_at IS NOT NULL AND undone = 0 ORDER BY n DESC LIMIT 1), '')
		FROM executions WHERE session = ?1 AND started_at IS NOT NULL AND finished_at IS NOT NULL`, session).Scan(&n, &id)
	return n, id, err
}

// ChangedFiles lists the paths that executions after that number have created, changed or deleted.
func (s *Store) ChangedFiles(ctx context.Context, session, after int64) ([]string, error) {
	return s.texts(ctx, `SELECT DISTINCT path FROM artifacts WHERE session = ?1 AND execution_id IN
		(SELECT id FROM executions WHERE session = ?1 AND n > ?2)`, session, after)
}
