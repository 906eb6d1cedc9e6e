package session

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"talaria/api"
	"talaria/store"
)

// reconnectTime is how long after its start a server counts on clients to come back that can decide.
const reconnectTime = 30 * time.Second

// The reasons of decisions that no person made.
const (
	reasonUnattended = "no client that can decide is attached"
	reasonTimeUp     = "nobody answered in time"
	reasonTooMany    = "too many questions are open"
	reasonForbidden  = "the command is one that cannot be approved"
	reasonDenied     = "denied" // of an execution that was not approved
)

// byPolicy decides what people are not asked for.
const byPolicy = "policy"

// approvals are the questions of a session to people, and the decisions that stand until its reset.
type approvals struct {
	mode api.ApprovalMode // guarded by Session.mu

	mu        sync.Mutex // guards what follows; not held across I/O
	approvers int        // attached clients that can decide
	expected  time.Time  // until then clients count as attached: the server was restarted
	open      map[string]*question
	granted   map[string]bool // subjects that are approved until a reset; nil until they are read
}

func newApprovals(mode api.ApprovalMode) approvals {
	return approvals{mode: cmp.Or(mode, api.ApprovalsOff), open: map[string]*question{}}
}

// proposal is a question before anybody is asked.
type proposal struct {
	kind      api.ApprovalKind
	execution string
	call      string   // the call_id of a tool call
	subject   string   // what the decision "session" covers
	summary   string   // not yet safe to show
	detail    string   // not yet safe to show either
	patterns  []string // that led to the question
	forbidden bool     // nobody can approve it
	waiter
}

// waiter is what waits for a decision.
type waiter struct {
	id string // of the call, of the execution, or any that is unique
	// approve is written in the same transaction as an approval. Optional.
	approve func(*store.Tx) error
	// decide is called once, when the decision is committed. It must not wait.
	decide func(verdict)
}

// verdict is how a question ended.
type verdict struct {
	decision api.ApprovalDecision
	by       string
	reason   string
}

// denial explains a refusal to the caller.
func (v verdict) denial() string {
	switch {
	case v.decision == api.DecisionDeny && v.by != byPolicy:
		return cmp.Or(v.reason, "a person denied it")
	case v.decision == api.DecisionExpired && v.reason == reasonUnattended:
		return "nobody was asked: " + v.reason
	}
	return cmp.Or(v.reason, "the question was withdrawn")
}

// question is open until it is claimed by an answer, its time or its withdrawal.
type question struct {
	row     store.Approval // immutable
	same    [32]byte       // equal for equal questions
	waiters []waiter       // in the order in which they asked
	timer   *time.Timer
	claimed bool      // its end is being written
	next    *question // asks again for the rest of the waiters; nil: there is none
}

// AttachApprover registers a client that sees the session's log and can decide on approvals, until detach is called.
func (s *Session) AttachApprover() (detach func()) {
	a := &s.approvals
	a.mu.Lock()
	a.approvers++
	a.mu.Unlock()
	return sync.OnceFunc(func() {
		a.mu.Lock()
		a.approvers--
		a.mu.Unlock()
	})
}

// Approving returns what the session asks people to approve.
func (s *Session) approving() api.ApprovalMode {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.approvals.mode
}

// propose returns the change that asks a person. Its waiter gets the verdict once, unless it is withdrawn: at the latest when
// the time is up, and with the change itself where nobody needs to be asked, or can be.
func (s *Session) propose(ctx context.Context, p proposal) change {
	if err := s.readGrants(ctx); err != nil {
		s.log.Error("read which approvals stand; they are asked for again", "error", err)
	}
	q := s.newQuestion(p)
	a := &s.approvals
	a.mu.Lock()
	defer a.mu.Unlock()
	attended := a.approvers > 0 || time.Now().Before(a.expected)
	switch {
	case p.forbidden:
		return s.answeredAtOnce(q, verdict{api.DecisionDeny, byPolicy, reasonForbidden})
	case a.granted[p.subject]:
		return change{also: p.approve, done: func() { p.decide(verdict{decision: api.DecisionSession}) }}
	case !attended:
		return s.answeredAtOnce(q, verdict{api.DecisionExpired, "", reasonUnattended})
	}
	for _, other := range a.open {
		if other.same == q.same && !other.claimed {
			other.waiters = append(other.waiters, p.waiter)
			return change{}
		}
	}
	if len(a.open) >= api.MaxApprovals {
		return s.answeredAtOnce(q, verdict{api.DecisionDeny, byPolicy, reasonTooMany})
	}
	return s.opened(q)
}

// newQuestion makes a question that nobody has seen yet.
func (s *Session) newQuestion(p proposal) *question {
	now := time.Now()
	q := &question{waiters: []waiter{p.waiter}, row: store.Approval{
		Session: s.n, ApprovalID: newID(), Kind: p.kind, Execution: p.execution, CallID: p.call, Subject: p.subject,
		Summary:   shown(s.redact.Text(p.summary), maxSummary, false),
		Detail:    shown(s.redact.Text(p.detail), api.MaxApprovalDetail, true),
		Patterns:  p.patterns,
		CreatedAt: now.UnixMilli(), ExpiresAt: now.Add(s.m.approvalTimeout()).UnixMilli(),
	}}
	h := sha256.New()
	fmt.Fprintf(h, "%q %q %q %q", p.kind, p.subject, p.execution, p.detail) // never fails
	h.Sum(q.same[:0])
	return q
}

func (m *Manager) approvalTimeout() time.Duration {
	return cmp.Or(m.cfg.ApprovalTimeout, api.ApprovalTimeoutS*time.Second)
}

// opened returns the change that opens a question. approvals.mu is held.
func (s *Session) opened(q *question) change {
	s.approvals.open[q.row.ApprovalID] = q
	return change{
		drafts: []draft{{executionID: q.row.Execution, body: requested(q.row)}},
		also:   func(tx *store.Tx) error { return tx.InsertApproval(q.row) },
		done:   func() { s.arm(q) },
	}
}

func requested(row store.Approval) api.ApprovalRequested {
	return api.ApprovalRequested{
		ApprovalID: row.ApprovalID, CallID: row.CallID, Kind: row.Kind, Summary: row.Summary, Detail: row.Detail,
		Patterns: row.Patterns, ExpiresAt: api.Millis(row.ExpiresAt),
	}
}

// arm starts the time of a question.
func (s *Session) arm(q *question) {
	a := &s.approvals
	a.mu.Lock()
	defer a.mu.Unlock()
	if !q.claimed && a.open[q.row.ApprovalID] == q {
		q.timer = time.AfterFunc(time.Until(time.UnixMilli(q.row.ExpiresAt)), func() { s.expireQuestion(q) })
	}
}

// answeredAtOnce returns the change of a question that has its answer at once: both are in the log and the audit.
func (s *Session) answeredAtOnce(q *question, v verdict) change {
	c := change{
		drafts: []draft{{executionID: q.row.Execution, body: requested(q.row)}},
		also:   func(tx *store.Tx) error { return tx.InsertApproval(q.row) },
	}
	c.add(s.resolution(q.row, v))
	c.done = then(c.done, func() { tellAll(q.waiters, v) })
	return c
}

// resolution returns the change that writes down how a question ended.
func (s *Session) resolution(row store.Approval, v verdict) change {
	now := time.Now().UnixMilli()
	row.Decision, row.By, row.Reason, row.ResolvedAt = v.decision, v.by, v.reason, &now
	return change{
		drafts: []draft{{executionID: row.Execution, body: api.ApprovalResolved{
			ApprovalID: row.ApprovalID, Decision: v.decision, By: v.by, Reason: v.reason,
		}}},
		also: func(tx *store.Tx) error { return tx.ResolveApproval(row) },
	}
}

func tellAll(list []waiter, v verdict) {
	for _, w := range list {
		w.decide(v)
	}
}

// Decide answers a question. The first answer wins; a later one, and one after its time, is no_approval_pending. by names
// who decides.
func (s *Session) Decide(ctx context.Context, id string, answer api.ApprovalAnswer, by string) error {
	if !slices.Contains(api.ApprovalDecisions, answer.Decision) {
		return invalid("decision must be %q, %q or %q", api.DecisionOnce, api.DecisionSession, api.DecisionDeny)
	}
	if len(answer.Reason) > api.MaxApprovalReason {
		return invalid("reason has %d bytes; the limit is %d", len(answer.Reason), api.MaxApprovalReason)
	}
	a := &s.approvals
	a.mu.Lock()
	q := a.open[id]
	if q == nil || q.claimed {
		a.mu.Unlock()
		return api.Errorf(api.CodeNoApprovalPending,
			"no approval %.80q waits for an answer; it was decided, its time was up, or it was withdrawn", id)
	}
	c, claimed := s.settleQuestion(q, verdict{answer.Decision, by, shown(answer.Reason, api.MaxApprovalReason, true)})
	a.mu.Unlock()
	c.add(s.touched())
	err := s.journal.commit(context.WithoutCancel(ctx), c)
	if err != nil {
		s.release(claimed)
	}
	return err
}

// settleQuestion claims a question, and makes the change that ends it. A decision for the session also ends the others
// that it covers; one that holds once lets the first waiter go, and asks again for the rest. approvals.mu is held.
func (s *Session) settleQuestion(q *question, v verdict) (c change, claimed []*question) {
	a := &s.approvals
	claimed = []*question{q}
	if v.decision == api.DecisionSession {
		for _, other := range a.open {
			if other != q && !other.claimed && other.row.Subject == q.row.Subject {
				claimed = append(claimed, other)
			}
		}
		c.done = func() { s.grant(q.row.Subject) }
	}
	for _, one := range claimed {
		one.claim()
		c.add(s.resolution(one.row, v))
		waiters := one.waiters
		if v.decision == api.DecisionOnce && len(waiters) > 1 {
			c.add(s.askAgain(one, waiters[1:]))
			waiters = waiters[:1]
		}
		if v.decision.Approved() {
			for _, w := range waiters {
				c.also = both(c.also, w.approve)
			}
		}
		c.done = then(c.done, func() { s.forgetQuestion(one); tellAll(waiters, v) })
	}
	return c, claimed
}

// claim reserves a question, so that nothing else ends it. approvals.mu is held.
func (q *question) claim() {
	q.claimed = true
	if q.timer != nil {
		q.timer.Stop()
	}
}

// askAgain returns the change that asks a question again for those who waited for it too. approvals.mu is held.
func (s *Session) askAgain(q *question, waiters []waiter) change {
	next := &question{row: q.row, same: q.same, waiters: waiters}
	now := time.Now()
	next.row.ApprovalID, next.row.CreatedAt = newID(), now.UnixMilli()
	next.row.ExpiresAt = now.Add(s.m.approvalTimeout()).UnixMilli()
	if next.row.CallID != "" {
		next.row.CallID = waiters[0].id
	}
	q.next = next
	return s.opened(next)
}

// grant notes that a subject is approved until a reset.
func (s *Session) grant(subject string) {
	a := &s.approvals
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.granted != nil { // else it is read with the others when one is needed
		a.granted[subject] = true
	}
}

func (s *Session) forgetQuestion(q *question) {
	a := &s.approvals
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.open, q.row.ApprovalID)
}

// release returns claimed questions whose end could not be written.
func (s *Session) release(claimed []*question) {
	a := &s.approvals
	a.mu.Lock()
	for _, q := range claimed {
		q.claimed = false
		if q.next != nil {
			delete(a.open, q.next.row.ApprovalID)
			q.next = nil
		}
	}
	a.mu.Unlock()
	for _, q := range claimed {
		s.arm(q)
	}
}

// expireQuestion ends a question that nobody answered.
func (s *Session) expireQuestion(q *question) {
	if !s.retain() {
		return
	}
	defer s.Release()
	a := &s.approvals
	a.mu.Lock()
	if q.claimed {
		a.mu.Unlock()
		return
	}
	c, claimed := s.settleQuestion(q, verdict{api.DecisionExpired, "", reasonTimeUp})
	a.mu.Unlock()
	err := s.journal.commit(context.Background(), c)
	if err == nil || errors.Is(err, store.ErrClosed) || s.isGone() {
		return
	}
	s.log.Error("record that a question was not answered; trying again", "error", err)
	time.AfterFunc(retryPause, func() { s.release(claimed) }) // its time is up, so it expires then
}

// withdraw returns the change after which a waiter waits no more. Its question is cancelled if nobody else waits for it.
func (s *Session) withdraw(id string) (c change) {
	a := &s.approvals
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, q := range a.open {
		if q.claimed {
			continue
		}
		before := len(q.waiters)
		q.waiters = slices.DeleteFunc(q.waiters, func(w waiter) bool { return w.id == id })
		if before > 0 && len(q.waiters) == 0 {
			end, _ := s.settleQuestion(q, verdict{decision: api.DecisionCancelled})
			c.add(end)
		}
	}
	return c
}

// askAndWait asks a person and waits for the answer. The error is nil for an approval; ctx withdraws the question.
func (s *Session) askAndWait(ctx context.Context, p proposal) error {
	answer := make(chan verdict, 1)
	p.id, p.decide = newID(), func(v verdict) { answer <- v }
	if err := s.journal.commit(context.WithoutCancel(ctx), s.propose(ctx, p)); err != nil {
		s.unask(p.id)
		return err
	}
	select {
	case v := <-answer:
		if v.decision.Approved() {
			return nil
		}
		return api.Errorf(api.CodeApprovalDenied, "not approved: %s", v.denial())
	case <-ctx.Done():
		if err := s.journal.commit(context.WithoutCancel(ctx), s.withdraw(p.id)); err != nil {
			s.log.Debug("withdraw a question", "error", err) // the session ends
		}
		return context.Cause(ctx)
	case <-s.stopped:
		return s.ending()
	}
}

// unask forgets a waiter whose question was never written.
func (s *Session) unask(id string) {
	a := &s.approvals
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, q := range a.open {
		q.waiters = slices.DeleteFunc(q.waiters, func(w waiter) bool { return w.id == id })
		if len(q.waiters) == 0 {
			delete(a.open, q.row.ApprovalID)
		}
	}
}

// readGrants reads which subjects are approved until a reset, once.
func (s *Session) readGrants(ctx context.Context) error {
	a := &s.approvals
	a.mu.Lock()
	known := a.granted != nil
	a.mu.Unlock()
	if known {
		return nil
	}
	subjects, err := s.m.cfg.Store.ApprovedSubjects(context.WithoutCancel(ctx), s.n)
	if err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.granted == nil {
		a.granted = map[string]bool{}
		for _, subject := range subjects {
			a.granted[subject] = true
		}
	}
	return nil
}

// forgetApprovals returns the change after which no earlier decision covers anything: a reset is a fresh start.
func (s *Session) forgetApprovals() change {
	return change{
		also: func(tx *store.Tx) error { return tx.EndApprovals(s.n) },
		done: func() {
			s.approvals.mu.Lock()
			defer s.approvals.mu.Unlock()
			s.approvals.granted = map[string]bool{}
		},
	}
}

// Approvals returns a page of the session's approvals, newest first; with state "pending", all that are open, oldest first.
func (s *Session) Approvals(ctx context.Context, state string, q api.PageQuery) (api.Page[api.Approval], error) {
	switch state {
	case "":
		return page(q, func(before int64, limit int) ([]api.Approval, []int64, error) {
			rows, err := s.m.cfg.Store.Approvals(ctx, s.n, before, limit)
			items, numbers := make([]api.Approval, len(rows)), make([]int64, len(rows))
			for i, row := range rows {
				items[i], numbers[i] = approvalOf(row), row.N
			}
			return items, numbers, err
		})
	case "pending":
		rows, err := s.m.cfg.Store.OpenApprovals(ctx, s.n)
		items := make([]api.Approval, len(rows))
		for i, row := range rows {
			items[i] = approvalOf(row)
		}
		return api.Page[api.Approval]{Items: items}, err
	}
	return api.Page[api.Approval]{}, invalid("state must be %q, or absent for all", "pending")
}

func approvalOf(row store.Approval) api.Approval {
	return api.Approval{
		ApprovalID: row.ApprovalID, ExecutionID: row.Execution, CallID: row.CallID, Kind: row.Kind, Summary: row.Summary,
		Detail: row.Detail, Patterns: row.Patterns, CreatedAt: api.Millis(row.CreatedAt), ExpiresAt: api.Millis(row.ExpiresAt),
		Decision: row.Decision, By: row.By, Reason: row.Reason, ResolvedAt: millis(row.ResolvedAt),
	}
}
