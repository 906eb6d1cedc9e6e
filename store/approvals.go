package store

import (
	"context"
	"fmt"

	"talaria/api"
)

// Approval is a question to a person, and its answer.
type Approval struct {
	N          int64
	Session    int64
	ApprovalID string
	Kind       api.ApprovalKind
	Execution  string // its id; "": none
	CallID     string // of the tool call; "": none
	Subject    string // what the decision "session" covers
	Summary    string
	Detail     string
	Patterns   []string
	CreatedAt  int64
	ExpiresAt  int64
	Decision   api.ApprovalDecision // "" while the question is open
	By         string
	Reason     string
	ResolvedAt *int64
}

const (
	// keptApprovals is how many approvals the audit of one session holds.
	keptApprovals = 2000
	// auditedDetail is how much of a question's detail the audit holds, in characters. The log has all of it.
	auditedDetail = 4 << 10
)

// InsertApproval adds a question, which is open.
func (t *Tx) InsertApproval(a Approval) error {
	return t.exec(`INSERT INTO approvals (session, approval_id, kind, execution, call_id, subject, summary, detail, patterns, created_at,
			expires_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		a.Session, a.ApprovalID, a.Kind, a.Execution, a.CallID, a.Subject, a.Summary, a.Detail, asJSON(&a.Patterns), a.CreatedAt, a.ExpiresAt)
}

// ResolveApproval writes how a question ended, and drops the oldest ones that are more than the audit holds. It does
// nothing to a question that has ended.
func (t *Tx) ResolveApproval(a Approval) error {
	err := t.exec(`UPDATE approvals SET decision = ?, decided_by = ?, reason = ?, resolved_at = ?, covers = ?, detail = substr(detail, 1, ?)
		WHERE session = ? AND approval_id = ? AND decision = ''`,
		a.Decision, a.By, a.Reason, a.ResolvedAt, a.Decision == api.DecisionSession, auditedDetail, a.Session, a.ApprovalID)
	if err != nil {
		return err
	}
	return t.exec(`DELETE FROM approvals WHERE session = ?1 AND decision <> '' AND covers = 0 AND n <= coalesce(
		(SELECT n FROM approvals WHERE session = ?1 ORDER BY n DESC LIMIT 1 OFFSET ?2), 0)`, a.Session, keptApprovals)
}

// EndApprovals makes decisions for the session cover nothing any more.
func (t *Tx) EndApprovals(session int64) error {
	return t.exec(`UPDATE approvals SET covers = 0 WHERE session = ? AND covers = 1`, session)
}

// Approvals lists the session's approvals, newest first, from below before (0: from the newest).
func (s *Store) Approvals(ctx context.Context, session, before int64, limit int) ([]Approval, error) {
	return s.approvals(ctx, `WHERE session = ? AND (? = 0 OR n < ?) ORDER BY n DESC LIMIT ?`, session, before, before, limit)
}

// OpenApprovals lists the session's questions that are open, oldest first.
func (s *Store) OpenApprovals(ctx context.Context, session int64) ([]Approval, error) {
	return s.approvals(ctx, `WHERE session = ? AND decision = '' ORDER BY n`, session)
}

// ApprovedSubjects lists what decisions for the session cover.
func (s *Store) ApprovedSubjects(ctx context.Context, session int64) (subjects []string, err error) {
	rows, err := s.ro.QueryContext(ctx, `SELECT DISTINCT subject FROM approvals WHERE session = ? AND covers = 1`, session)
	if err != nil {
		return nil, fmt.Errorf("read approvals: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		var subject string
		if err := rows.Scan(&subject); err != nil {
			return nil, fmt.Errorf("read approvals: %w", err)
		}
		subjects = append(subjects, subject)
	}
	return subjects, rows.Err()
}

func (s *Store) approvals(ctx context.Context, rest string, args ...any) ([]Approval, error) {
	rows, err := s.ro.QueryContext(ctx, `SELECT n, session, approval_id, kind, execution, call_id, subject, summary, detail, patterns,
		created_at, expires_at, decision, decided_by, reason, resolved_at FROM approvals `+rest, args...)
	if err != nil {
		return nil, fmt.Errorf("read approvals: %w", err)
	}
	defer rows.Close()
	var list []Approval
	for rows.Next() {
		var a Approval
		if err := rows.Scan(&a.N, &a.Session, &a.ApprovalID, &a.Kind, &a.Execution, &a.CallID, &a.Subject, &a.Summary, &a.Detail,
			asJSON(&a.Patterns), &a.CreatedAt, &a.ExpiresAt, &a.Decision, &a.By, &a.Reason, &a.ResolvedAt); err != nil {
			return nil, fmt.Errorf("read approvals: %w", err)
		}
		list = append(list, a)
	}
	return list, rows.Err()
}
