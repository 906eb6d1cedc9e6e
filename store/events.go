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

// ExecutionEvents reads the events of one execution after a position, in order, up to limit events and one: from its
// queueing to its end.
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
		if first, err = s.events(ctx, `WHERE session = ? AND seq = ?`, session, queued.Int64); err != nil {
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
	rows, err := s.ro.QueryContext(ctx,
		`SELECT seq, time, type, coalesce(execution_id, ''), body, coalesce(digest, ''), size FROM events `+rest, args...)
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

// EventDigests calls found for each event of the session whose body is an artifact, newest first, until found
// returns false.
func (s *Store) EventDigests(ctx context.Context, session int64, found func(seq int64, digest string) bool) error {
	rows, err := s.ro.QueryContext(ctx,
		`SELECT seq, digest FROM events WHERE session = ? AND digest IS NOT NULL ORDER BY seq DESC`, session)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var seq int64
		var digest string
		if err := rows.Scan(&seq, &digest); err != nil {
			return err
		}
		if !found(seq, digest) {
			return nil
		}
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
	rows, err := s.ro.QueryContext(ctx, `SELECT seq, execution_id, path, change, size, media_type, sha256, time
		FROM artifacts WHERE session = ? AND (? = 0 OR seq < ?) ORDER BY seq DESC LIMIT ?`,
		session, before, before, limit)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var list []Artifact
	for rows.Next() {
		var a Artifact
		err := rows.Scan(&a.Seq, &a.ExecutionID, &a.Path, &a.Change, &a.Size, &a.MediaType, &a.SHA256, &a.Time)
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
)

// InsertRef records that the session refers to the digest.
func (t *Tx) InsertRef(session int64, digest, kind, mediaType string) error {
	return t.exec(`INSERT INTO refs (digest, session, kind, media_type) VALUES (?, ?, ?, ?)
		ON CONFLICT (digest, session, kind) DO UPDATE SET media_type = excluded.media_type`,
		digest, session, kind, mediaType)
}

// PublicRef is the media type under which one of the owner's sessions refers to the digest.
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
	rows, err := s.ro.QueryContext(ctx, `SELECT DISTINCT digest FROM refs`)
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
