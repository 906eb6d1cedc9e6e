package store

import (
	"context"
	"database/sql"
	"errors"
	"math"

	"talaria/api"
)

// EventCost is what an event counts for in its session's log beside its body.
const EventCost = 64

// rowCost is what an execution counts for in its session's log beside its events.
const rowCost = `length(CAST(code AS BLOB)) + length(CAST(text AS BLOB)) + length(CAST(coalesce(error, '') AS BLOB))
	+ length(CAST(artifacts AS BLOB))`

// TrimTo is where the log has to begin so that at least excess bytes go: behind the end of one of the oldest
// executions that have finished, and never behind the beginning of the newest of them or of one that runs. It is first
// where nothing can go.
func (s *Store) TrimTo(ctx context.Context, session, first, excess int64) (int64, error) {
	var end sql.NullInt64
	err := s.ro.QueryRowContext(ctx, `SELECT min(seq) FROM (
			SELECT started_seq AS seq FROM executions WHERE session = ?1 AND finished_at IS NULL AND started_seq IS NOT NULL
			UNION ALL SELECT * FROM (SELECT started_seq FROM executions WHERE session = ?1 AND finished_seq IS NOT NULL
				ORDER BY finished_seq DESC LIMIT 1))`, session).Scan(&end)
	if err != nil || !end.Valid {
		return first, err
	}
	ends, err := s.finishedSeqs(ctx, session, first, end.Int64)
	if err != nil {
		return first, err
	}
	to := first
	for _, seq := range ends {
		var bytes int64
		err := s.ro.QueryRowContext(ctx, `SELECT coalesce(sum(size), 0) + ? * count(*) FROM events
			WHERE session = ? AND seq BETWEEN ? AND ?`, EventCost, session, to, seq).Scan(&bytes)
		if err != nil {
			return first, err
		}
		to = seq + 1
		if excess -= bytes; excess <= 0 {
			break
		}
	}
	return to, nil
}

// finishedSeqs lists where executions ended in a part of the log.
func (s *Store) finishedSeqs(ctx context.Context, session, from, before int64) ([]int64, error) {
	rows, err := s.ro.QueryContext(ctx, `SELECT finished_seq FROM executions
		WHERE session = ? AND finished_seq >= ? AND finished_seq < ? ORDER BY finished_seq`, session, from, before)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var list []int64
	for rows.Next() {
		var seq int64
		if err := rows.Scan(&seq); err != nil {
			return nil, err
		}
		list = append(list, seq)
	}
	return list, rows.Err()
}

// The most that one call of TrimLog removes, so that other sessions' writes do not wait for long.
const (
	trimEvents = 256
	trimBytes  = 4 << 20
)

// TrimLog removes the oldest events before a position, as many as go quickly, and returns where the log begins then,
// and the digests of bodies that no other event of the session has. The log's bytes and first_seq follow.
func (t *Tx) TrimLog(session, before int64) (first, bytes int64, unused []string, err error) {
	list, bytes, err := t.oldestEvents(session, before)
	if err != nil {
		return 0, 0, nil, err
	}
	first = before
	if len(list) > 0 {
		first = list[len(list)-1].seq + 1
	}
	for _, e := range list {
		if !e.digest.Valid {
			continue
		}
		gone, err := t.releaseBody(session, e.digest.String)
		if err != nil {
			return 0, 0, nil, err
		}
		if gone {
			unused = append(unused, e.digest.String)
		}
	}
	return first, bytes, unused, errors.Join(
		t.exec(`DELETE FROM events WHERE session = ? AND seq < ?`, session, first),
		t.exec(`DELETE FROM artifacts WHERE session = ?1 AND seq < ?2 AND (change = ?3 OR EXISTS (SELECT 1 FROM artifacts newer
			WHERE newer.session = ?1 AND newer.path = artifacts.path AND newer.seq > artifacts.seq))`, session, first, api.Deleted),
		t.one(`UPDATE sessions SET first_seq = ?, log_bytes = log_bytes - ? WHERE n = ?`, first, bytes, session))
}

type oldEvent struct {
	seq, size int64
	digest    sql.NullString
}

// oldestEvents lists events before a position, as many as go quickly, and what they count for.
func (t *Tx) oldestEvents(session, before int64) (list []oldEvent, bytes int64, err error) {
	rows, err := t.rows(`SELECT seq, size, digest FROM events WHERE session = ? AND seq < ? ORDER BY seq LIMIT ?`,
		session, before, trimEvents)
	if err != nil {
		return nil, 0, err
	}
	for rows.Next() && bytes < trimBytes {
		var e oldEvent
		if err := rows.Scan(&e.seq, &e.size, &e.digest); err != nil {
			return nil, 0, errors.Join(err, rows.Close())
		}
		list = append(list, e)
		bytes += e.size + EventCost
	}
	return list, bytes, errors.Join(rows.Err(), rows.Close())
}

// EmptySession removes some of what belongs to a disowned session, as much as goes quickly, and reports whether there
// was something.
func (t *Tx) EmptySession(session int64) (more bool, err error) {
	list, _, err := t.oldestEvents(session, math.MaxInt64)
	if err != nil {
		return false, err
	}
	if n := len(list); n > 0 {
		return true, t.exec(`DELETE FROM events WHERE session = ? AND seq <= ?`, session, list[n-1].seq)
	}
	for _, query := range []string{
		`DELETE FROM artifacts WHERE session = ?1 AND seq IN (SELECT seq FROM artifacts WHERE session = ?1 LIMIT ?2)`,
		`DELETE FROM refs WHERE session = ?1 AND digest IN (SELECT digest FROM refs WHERE session = ?1 LIMIT ?2)`,
		`DELETE FROM tool_calls WHERE session = ?1 AND n IN (SELECT n FROM tool_calls WHERE session = ?1 LIMIT ?2)`,
		`DELETE FROM approvals WHERE session = ?1 AND n IN (SELECT n FROM approvals WHERE session = ?1 LIMIT ?2)`,
		`DELETE FROM executions WHERE session = ?1 AND n IN (SELECT n FROM executions WHERE session = ?1 LIMIT ?2)`,
		`DELETE FROM checkpoint_files WHERE (digest, checkpoint) IN (SELECT digest, checkpoint FROM checkpoint_files
			WHERE checkpoint IN (SELECT n FROM checkpoints WHERE session = ?1) LIMIT ?2)`,
	} {
		res, err := t.result(query, session, trimEvents)
		if err != nil {
			return false, err
		}
		if n, err := res.RowsAffected(); n > 0 || err != nil {
			return true, err
		}
	}
	return false, nil
}

// releaseBody forgets one event's reference to its body, and reports whether it was the last one of the session.
func (t *Tx) releaseBody(session int64, digest string) (gone bool, err error) {
	err = t.exec(`UPDATE refs SET uses = uses - 1 WHERE digest = ? AND session = ? AND kind = ?`, digest, session, RefEvent)
	if err != nil {
		return false, err
	}
	res, err := t.result(`DELETE FROM refs WHERE digest = ? AND session = ? AND kind = ? AND uses <= 0`, digest, session, RefEvent)
	if err != nil {
		return false, err
	}
	n, err := res.RowsAffected()
	return n > 0, err
}

// ForgetExecutions removes the session's oldest executions whose events are gone already, as many as take excess bytes,
// but for the newest keep of all, and returns what they took.
func (t *Tx) ForgetExecutions(session, excess int64, keep int) (bytes int64, err error) {
	rows, err := t.rows(`SELECT n, `+rowCost+` FROM executions WHERE session = ?1
		AND finished_seq < (SELECT first_seq FROM sessions WHERE n = ?1)
		AND n < (SELECT min(n) FROM (SELECT n FROM executions WHERE session = ?1 ORDER BY n DESC LIMIT ?2))
		ORDER BY n LIMIT ?3`, session, keep, trimEvents)
	if err != nil {
		return 0, err
	}
	var last int64
	for rows.Next() && bytes < excess {
		var size int64
		if err := rows.Scan(&last, &size); err != nil {
			return 0, errors.Join(err, rows.Close())
		}
		bytes += size
	}
	if err := errors.Join(rows.Err(), rows.Close()); err != nil || bytes == 0 {
		return 0, err
	}
	return bytes, errors.Join(
		t.exec(`DELETE FROM executions WHERE session = ?1 AND n <= ?2
			AND finished_seq < (SELECT first_seq FROM sessions WHERE n = ?1)`, session, last),
		t.one(`UPDATE sessions SET log_bytes = log_bytes - ? WHERE n = ?`, bytes, session))
}
