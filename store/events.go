package store

import (
	"context"
	"database/sql"
	"errors"
	"math"

	"talaria/api"
)

// Event is a row of events. Exactly one of Body and Digest is set.
type Event struct {
	Seq         int64
	Time        int64
	Type        string
	ExecutionID string
	Body        []byte
	Digest      string
	Size        int64 // of the body
}

// InsertEvent appends the event to the session's log.
func (t *Tx) InsertEvent(session int64, e Event) error {
	return t.exec(`INSERT INTO events (session, seq, time, type, execution_id, body, digest, size)
		VALUES (?, ?, ?, ?, nullif(?, ''), ?, nullif(?, ''), ?)`,
		session, e.Seq, e.Time, e.Type, e.ExecutionID, e.Body, e.Digest, e.Size)
}

// Events reads the session's log after a position, in order, up to limit events.
func (s *Store) Events(ctx context.Context, session, after int64, limit int) ([]Event, error) {
	return s.events(ctx, `WHERE session = ? AND seq > ? ORDER BY seq LIMIT ?`, session, after, limit)
}

// outputTypes are the events that only show something in the execution's own cell.
const outputTypes = `'stream', 'display_data', 'execute_result', 'error', 'clear_output', 'input_request', 'input_closed'`

// ViewEvents reads the session's log after a position and up to another one, in order, up to limit events. The ended
// executions in a JSON list come without their outputs, except for the last event and for what they showed after their
// end. No execution_finished has its text.
func (s *Store) ViewEvents(ctx context.Context, session, after, through int64, replaced string, limit int) ([]Event, error) {
	return s.eventsWith(ctx, `CASE type WHEN 'execution_finished' THEN json_remove(CAST(body AS TEXT), '$.execution.text') ELSE body END`,
		`WHERE session = ?1 AND seq > ?2 AND seq <= ?3
		AND NOT (seq < ?3 AND type IN (`+outputTypes+`) AND execution_id IN (SELECT value FROM json_each(?4))
			AND seq < (SELECT finished_seq FROM executions e WHERE e.session = ?1 AND e.id = events.execution_id))
		ORDER BY seq LIMIT ?5`, session, after, through, replaced, limit)
}

// ExecutionEvents reads the events of one execution after a position, from its queueing to its end, in order, up to
// limit events plus one.
func (s *Store) ExecutionEvents(ctx context.Context, session int64, execution string, after int64, limit int) ([]Event, error) {
	var queued, started, finished sql.NullInt64
	err := s.ro.QueryRowContext(ctx, `SELECT queued_seq, started_seq, finished_seq FROM executions
		WHERE session = ? AND id = ?`, session, execution).Scan(&queued, &started, &finished)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var first []Event
	if queued.Valid && queued.Int64 > after {
		if first, err = s.events(ctx, `WHERE session = ? AND seq = ? AND execution_id = ?`, session, queued.Int64, execution); err != nil {
			return nil, err
		}
	}
	if !started.Valid {
		return first, nil
	}
	last := int64(math.MaxInt64)
	if finished.Valid {
		last = finished.Int64
	}
	rest, err := s.events(ctx, `WHERE session = ? AND seq BETWEEN ? AND ? AND execution_id = ? ORDER BY seq LIMIT ?`,
		session, max(after+1, started.Int64), last, execution, limit)
	return append(first, rest...), err
}

func (s *Store) events(ctx context.Context, rest string, args ...any) ([]Event, error) {
	return s.eventsWith(ctx, "body", rest, args...)
}

func (s *Store) eventsWith(ctx context.Context, body, rest string, args ...any) ([]Event, error) {
	rows, err := s.ro.QueryContext(ctx,
		`SELECT seq, time, type, coalesce(execution_id, ''), `+body+`, coalesce(digest, ''), size FROM events `+rest, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var list []Event
	for rows.Next() {
		var e Event
		if err := rows.Scan(&e.Seq, &e.Time, &e.Type, &e.ExecutionID, &e.Body, &e.Digest, &e.Size); err != nil {
			return nil, err
		}
		list = append(list, e)
	}
	return list, rows.Err()
}

// LastDeath reads from the session's log why and when its last kernel ended before a generation, leaving out ends for one
// reason. It fails with [ErrNotFound] if the log has none, or if no cell was started before that generation.
func (s *Store) LastDeath(ctx context.Context, session, generation int64, except string) (reason string, at int64, err error) {
	err = s.ro.QueryRowContext(ctx, `SELECT coalesce(json_extract(CAST(body AS TEXT), '$.reason'), '') AS why, time FROM events
		WHERE session = ?1 AND type = 'session_state' AND json_extract(CAST(body AS TEXT), '$.state') = 'dead' AND why <> ?3
			AND EXISTS (SELECT 1 FROM executions e WHERE e.session = ?1 AND e.generation < ?2 AND e.started_at IS NOT NULL)
		ORDER BY seq DESC LIMIT 1`, session, generation, except).Scan(&reason, &at)
	if errors.Is(err, sql.ErrNoRows) {
		err = ErrNotFound
	}
	return reason, at, err
}

// EventDigests calls found for each event of the session whose body is an artifact, newest first, with the body's size.
func (s *Store) EventDigests(ctx context.Context, session int64, found func(seq int64, digest string, size int64)) error {
	rows, err := s.ro.QueryContext(ctx,
		`SELECT seq, digest, size FROM events WHERE session = ? AND digest IS NOT NULL ORDER BY seq DESC`, session)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var seq, size int64
		var digest string
		if err := rows.Scan(&seq, &digest, &size); err != nil {
			return err
		}
		found(seq, digest, size)
	}
	return rows.Err()
}

// Artifact is a row of artifacts.
type Artifact struct {
	Seq         int64
	ExecutionID string
	Path        string
	Change      api.Change
	Size        *int64
	MediaType   string
	SHA256      string
	Time        int64
	Kept        bool // read, not written: the session still refers to its bytes
}

// InsertArtifact records what an execution did to a file.
func (t *Tx) InsertArtifact(session int64, a Artifact) error {
	return t.exec(`INSERT INTO artifacts (session, seq, execution_id, path, change, size, media_type, sha256, time)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		session, a.Seq, a.ExecutionID, a.Path, a.Change, a.Size, a.MediaType, a.SHA256, a.Time)
}

// Artifacts lists what the session's executions made, newest first, from below the position before (0: from the
// newest).
func (s *Store) Artifacts(ctx context.Context, session, before int64, limit int) ([]Artifact, error) {
	rows, err := s.ro.QueryContext(ctx, `SELECT seq, execution_id, path, change, size, media_type, sha256, time,
			EXISTS (SELECT 1 FROM refs r WHERE r.digest = sha256 AND r.session = artifacts.session AND r.kind = 'public')
		FROM artifacts WHERE session = ? AND (? = 0 OR seq < ?) ORDER BY seq DESC LIMIT ?`,
		session, before, before, limit)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var list []Artifact
	for rows.Next() {
		var a Artifact
		err := rows.Scan(&a.Seq, &a.ExecutionID, &a.Path, &a.Change, &a.Size, &a.MediaType, &a.SHA256, &a.Time, &a.Kept)
		if err != nil {
			return nil, err
		}
		list = append(list, a)
	}
	return list, rows.Err()
}

// The kinds of references to a digest.
const (
	RefPublic = "public" // its owner may download it
	RefEvent  = "event"  // the body of an event
	refSaved  = "saved"  // the variables of a session without a kernel
)

// Ref is a row of refs: a session's reference to a digest.
type Ref struct {
	Digest    string
	Kind      string
	MediaType string
	Bytes     int64 // disk space of a public one
	Seq       int64 // of the event that refers to it
}

// InsertRef records that the session refers to the digest. It reports whether that is new.
func (t *Tx) InsertRef(session int64, r Ref) (isNew bool, err error) {
	res, err := t.result(`INSERT INTO refs (digest, session, kind, media_type, bytes, seq) VALUES (?, ?, ?, ?, ?, ?)
		ON CONFLICT (digest, session, kind) DO NOTHING`, r.Digest, session, r.Kind, r.MediaType, r.Bytes, r.Seq)
	if err != nil {
		return false, err
	}
	if n, err := res.RowsAffected(); err != nil || n > 0 {
		return n > 0, err
	}
	return false, t.exec(`UPDATE refs SET media_type = ?, uses = uses + 1 WHERE digest = ? AND session = ? AND kind = ?`,
		r.MediaType, r.Digest, session, r.Kind)
}

// DropRef records that the session no longer refers to the digest, and returns the disk space that it counted for: 0
// if it did not refer to it.
func (t *Tx) DropRef(session int64, digest, kind string) (bytes int64, err error) {
	row, err := t.row(`DELETE FROM refs WHERE digest = ? AND session = ? AND kind = ? RETURNING bytes`, digest, session, kind)
	if err != nil {
		return 0, err
	}
	if err := row.Scan(&bytes); err != nil && !errors.Is(err, sql.ErrNoRows) {
		return 0, err
	}
	return bytes, nil
}

// OldVersions lists the session's public references that are not the newest version of a file, oldest first. found
// returns false when it has enough.
func (s *Store) OldVersions(ctx context.Context, session int64, found func(Ref) bool) error {
	rows, err := s.ro.QueryContext(ctx, `SELECT r.digest, r.bytes, r.seq FROM refs r
		WHERE r.session = ? AND r.kind = ? AND NOT EXISTS (
			SELECT 1 FROM artifacts a WHERE a.session = r.session AND a.sha256 = r.digest AND a.seq =
				(SELECT max(b.seq) FROM artifacts b WHERE b.session = a.session AND b.path = a.path))
		ORDER BY r.seq`, session, RefPublic)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		r := Ref{Kind: RefPublic}
		if err := rows.Scan(&r.Digest, &r.Bytes, &r.Seq); err != nil {
			return err
		}
		if !found(r) {
			return nil
		}
	}
	return rows.Err()
}

// Referenced reports whether any session refers to the digest.
func (s *Store) Referenced(ctx context.Context, digest string) (yes bool, err error) {
	err = s.ro.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM refs WHERE digest = ?1)
		OR EXISTS (SELECT 1 FROM checkpoint_files WHERE digest = ?1)`, digest).Scan(&yes)
	return yes, err
}

// SessionDigests lists the digests that the session refers to.
func (s *Store) SessionDigests(ctx context.Context, session int64) ([]string, error) {
	return s.texts(ctx, `SELECT digest FROM refs WHERE session = ?1
		UNION SELECT digest FROM checkpoint_files WHERE checkpoint IN (SELECT n FROM checkpoints WHERE session = ?1)`, session)
}

// PublicRef returns the media type under which one of the owner's sessions refers to the digest.
func (s *Store) PublicRef(ctx context.Context, owner, digest string) (mediaType string, err error) {
	rows, err := s.ro.QueryContext(ctx, `SELECT r.media_type FROM refs r JOIN sessions s ON s.n = r.session
		WHERE r.digest = ? AND r.kind = ? AND s.owner = ? ORDER BY r.session DESC LIMIT 1`, digest, RefPublic, owner)
	if err != nil {
		return "", err
	}
	defer rows.Close()
	if !rows.Next() {
		return "", ErrNotFound
	}
	return mediaType, rows.Scan(&mediaType)
}

// AllDigests lists every digest that any session refers to.
func (s *Store) AllDigests(ctx context.Context) ([]string, error) {
	return s.texts(ctx, `SELECT digest FROM refs UNION SELECT digest FROM checkpoint_files`)
}

func (s *Store) texts(ctx context.Context, query string, args ...any) ([]string, error) {
	rows, err := s.ro.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var list []string
	for rows.Next() {
		var d string
		if err := rows.Scan(&d); err != nil {
			return nil, err
		}
		list = append(list, d)
	}
	return list, rows.Err()
}
