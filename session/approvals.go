package session

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"talaria/api"
	"talaria/session/transcript"
	"talaria/store"
)

// reconnectTime is how long after its start a server counts on clients to come back that can decide.
const reconnectTime = 30 * time.Second

// The reasons of decisions that no person made.
const (
	reasonUnattended = "no client that can decide is attached"
	reasonTimeUp     = "nobody answered in time"
	reasonTooMany    = "too many questions are open"
	reasonForbidden  = "this command cannot be approved"
	reasonDenied     = "denied" // of an execution that was not approved
)

// byPolicy decides what people are not asked for.
const byPolicy = "policy"

// Approvals are the questions of a session to people, and the decisions that stand until its reset. It is safe for concurrent
// use.
type Approvals struct {
	n       int64 // the number of the session
	journal *Journal
	redact  *transcript.Redactor
	log     *slog.Logger
	timeout time.Duration   // of a question
	touched func() change   // records that the session was used
	stopped <-chan struct{} // closed when the session's goroutine has ended
	ending  func() error    // why it has
	isGone  func() bool     // the session is being deleted

	mu        sync.Mutex // guards what follows; not held across I/O
	approvers int        // attached clients that can decide
	expected  time.Time  // until then clients count as attached: the server was restarted
	open      map[string]*question
	granted   map[string]bool // subjects that are approved until a reset; nil until they are read
}

func newApprovals(s *Session) *Approvals {
	return &Approvals{
		n: s.n, journal: s.journal, redact: s.redact, log: s.log, touched: s.touched, stopped: s.stopped, ending: s.ending, isGone: s.isGone,
		timeout: cmp.Or(s.m.cfg.ApprovalTimeout, api.ApprovalTimeoutS*time.Second), open: map[string]*question{},
	}
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

// Attach registers a client that sees the session's log and can decide on approvals, until detach is called.
func (a *Approvals) Attach() (detach func()) {
	a.mu.Lock()
	a.approvers++
	a.mu.Unlock()
	return sync.OnceFunc(func() {
		a.mu.Lock()
		a.approvers--
		a.mu.Unlock()
	})
}

// propose returns the change that asks a person. Its waiter gets the verdict once, unless it is withdrawn: at the latest when
// the time is up, and with the change itself where nobody needs to be asked, or can be.
func (a *Approvals) propose(ctx context.Context, p proposal) change {
	if err := a.readGrants(ctx); err != nil {
		a.log.Error("read the approvals given for a session; they are asked for again", "error", err)
	}
	q := a.newQuestion(p)
	a.mu.Lock()
	defer a.mu.Unlock()
	attended := a.approvers > 0 || time.Now().Before(a.expected)
	switch {
	case p.forbidden:
		return a.answeredAtOnce(q, verdict{api.DecisionDeny, byPolicy, reasonForbidden})
	case a.granted[p.subject]:
		return change{also: p.approve, done: func() { p.decide(verdict{decision: api.DecisionSession}) }}
	case !attended:
		return a.answeredAtOnce(q, verdict{api.DecisionExpired, "", reasonUnattended})
	}
	for _, other := range a.open {
		if other.same == q.same && !other.claimed {
			other.waiters = append(other.waiters, p.waiter)
			return change{}
		}
	}
	if len(a.open) >= api.MaxApprovals {
		return a.answeredAtOnce(q, verdict{api.DecisionDeny, byPolicy, reasonTooMany})
	}
	return a.opened(q)
}

// newQuestion makes a question that nobody has seen yet.
func (a *Approvals) newQuestion(p proposal) *question {
	now := time.Now()
	q := &question{waiters: []waiter{p.waiter}, row: store.Approval{
		Session: a.n, ApprovalID: newID(), Kind: p.kind, Execution: p.execution, CallID: p.call, Subject: p.subject,
		Summary:   shown(a.redact.Text(p.summary), maxSummary, false),
		Detail:    shown(a.redact.Text(p.detail), api.MaxApprovalDetail, true),
		Patterns:  p.patterns,
		CreatedAt: now.UnixMilli(), ExpiresAt: now.Add(a.timeout).UnixMilli(),
	}}
	h := sha256.New()
	fmt.Fprintf(h, "%q %q %q %q", p.kind, p.subject, p.execution, p.detail) // never fails
	h.Sum(q.same[:0])
	return q
}

// opened returns the change that opens a question. mu is held.
func (a *Approvals) opened(q *question) change {
	a.open[q.row.ApprovalID] = q
	return change{
		drafts: []draft{{executionID: q.row.Execution, body: requested(q.row)}},
		also:   func(tx *store.Tx) error { return tx.InsertApproval(q.row) },
		done:   func() { a.arm(q) },
	}
}

func requested(row store.Approval) api.ApprovalRequested {
	return api.ApprovalRequested{
		ApprovalID: row.ApprovalID, CallID: row.CallID, Kind: row.Kind, Summary: row.Summary, Detail: row.Detail,
		Patterns: row.Patterns, ExpiresAt: api.Millis(row.ExpiresAt),
	}
}

// arm starts the time of a question.
func (a *Approvals) arm(q *question) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !q.claimed && a.open[q.row.ApprovalID] == q {
		q.timer = time.AfterFunc(time.Until(time.UnixMilli(q.row.ExpiresAt)), func() { a.expire(q) })
	}
}

// answeredAtOnce returns the change of a question that has its answer at once: both are in the log and the audit.
func (a *Approvals) answeredAtOnce(q *question, v verdict) change {
	c := change{
		drafts: []draft{{executionID: q.row.Execution, body: requested(q.row)}},
		also:   func(tx *store.Tx) error { return tx.InsertApproval(q.row) },
	}
	c.add(a.resolution(q.row, v))
	c.done = then(c.done, func() { tellAll(q.waiters, v) })
	return c
}

// resolution returns the change that writes down how a question ended.
func (a *Approvals) resolution(row store.Approval, v verdict) change {
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
func (a *Approvals) Decide(ctx context.Context, id string, answer api.ApprovalAnswer, by string) error {
	if !slices.Contains(api.ApprovalDecisions, answer.Decision) {
		return api.Invalid("decision must be %q, %q or %q", api.DecisionOnce, api.DecisionSession, api.DecisionDeny)
	}
	if len(answer.Reason) > api.MaxApprovalReason {
		return api.Invalid("reason has %d bytes; the limit is %d", len(answer.Reason), api.MaxApprovalReason)
	}
	a.mu.Lock()
	q := a.open[id]
	if q == nil || q.claimed {
		a.mu.Unlock()
		return api.Errorf(api.CodeNoApprovalPending,
			"no approval %.80q waits for an answer; it was decided, expired, or was withdrawn", id)
	}
	c, claimed := a.settle(q, verdict{answer.Decision, by, shown(answer.Reason, api.MaxApprovalReason, true)})
	a.mu.Unlock()
	c.add(a.touched())
	err := a.journal.commit(context.WithoutCancel(ctx), c)
	if err != nil {
		a.release(claimed)
	}
	return err
}

// settle claims a question, and makes the change that ends it. A decision for the session also ends the others
// that it covers; one that holds once lets the first waiter go, and asks again for the rest. mu is held.
func (a *Approvals) settle(q *question, v verdict) (c change, claimed []*question) {
	claimed = []*question{q}
	if v.decision == api.DecisionSession {
		for _, other := range a.open {
			if other != q && !other.claimed && other.row.Subject == q.row.Subject {
				claimed = append(claimed, other)
			}
		}
		c.done = func() { a.grant(q.row.Subject) }
	}
	for _, one := range claimed {
		one.claim()
		c.add(a.resolution(one.row, v))
		waiters := one.waiters
		if v.decision == api.DecisionOnce && len(waiters) > 1 {
			c.add(a.askAgain(one, waiters[1:]))
			waiters = waiters[:1]
		}
		if v.decision.Approved() {
			for _, w := range waiters {
				c.also = both(c.also, w.approve)
			}
		}
		c.done = then(c.done, func() { a.forget(one); tellAll(waiters, v) })
	}
	return c, claimed
}

// claim reserves a question, so that nothing else ends it. Approvals.mu is held.
func (q *question) claim() {
	q.claimed = true
	if q.timer != nil {
		q.timer.Stop()
	}
}

// askAgain returns the change that asks a question again for those who waited for it too. mu is held.
func (a *Approvals) askAgain(q *question, waiters []waiter) change {
	next := &question{row: q.row, same: q.same, waiters: waiters}
	now := time.Now()
	next.row.ApprovalID, next.row.CreatedAt = newID(), now.UnixMilli()
	next.row.ExpiresAt = now.Add(a.timeout).UnixMilli()
	if next.row.CallID != "" {
		next.row.CallID = waiters[0].id
	}
	q.next = next
	return a.opened(next)
}

// grant notes that a subject is approved until a reset.
func (a *Approvals) grant(subject string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.granted != nil { // else it is read with the others when one is needed
		a.granted[subject] = true
	}
}

func (a *Approvals) forget(q *question) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.open, q.row.ApprovalID)
}

// release returns claimed questions whose end could not be written.
func (a *Approvals) release(claimed []*question) {
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
		a.arm(q)
	}
}

// expire ends a question that nobody answered.
func (a *Approvals) expire(q *question) {
	if !a.journal.retain() {
		return
	}
	defer a.journal.release()
	a.mu.Lock()
	if q.claimed {
		a.mu.Unlock()
		return
	}
	c, claimed := a.settle(q, verdict{api.DecisionExpired, "", reasonTimeUp})
	a.mu.Unlock()
	err := a.journal.commit(context.Background(), c)
	if err == nil || errors.Is(err, store.ErrClosed) || a.isGone() {
		return
	}
	a.log.Error("record that a question was not answered; trying again", "error", err)
	time.AfterFunc(retryPause, func() { a.release(claimed) }) // its time is up, so it expires then
}

// withdraw returns the change after which a waiter waits no more. Its question is cancelled if nobody else waits for it.
func (a *Approvals) withdraw(id string) (c change) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, q := range a.open {
		if q.claimed {
			continue
		}
		before := len(q.waiters)
		q.waiters = slices.DeleteFunc(q.waiters, func(w waiter) bool { return w.id == id })
		if before > 0 && len(q.waiters) == 0 {
			end, _ := a.settle(q, verdict{decision: api.DecisionCancelled})
			c.add(end)
		}
	}
	return c
}

// askAndWait asks a person and waits for the answer. The error is nil for an approval; ctx withdraws the question.
func (a *Approvals) askAndWait(ctx context.Context, p proposal) error {
	answer := make(chan verdict, 1)
	p.id, p.decide = newID(), func(v verdict) { answer <- v }
	if err := a.journal.commit(context.WithoutCancel(ctx), a.propose(ctx, p)); err != nil {
		a.unask(p.id)
		return err
	}
	select {
	case v := <-answer:
		if v.decision.Approved() {
			return nil
		}
		return api.Errorf(api.CodeApprovalDenied, "not approved: %s", v.denial())
	case <-ctx.Done():
		if err := a.journal.commit(context.WithoutCancel(ctx), a.withdraw(p.id)); err != nil {
			a.log.Debug("withdraw a question", "error", err) // the session ends
		}
		return context.Cause(ctx)
	case <-a.stopped:
		return a.ending()
	}
}

// unask forgets a waiter whose question was never written.
func (a *Approvals) unask(id string) {
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
func (a *Approvals) readGrants(ctx context.Context) error {
	a.mu.Lock()
	known := a.granted != nil
	a.mu.Unlock()
	if known {
		return nil
	}
	subjects, err := a.journal.store.ApprovedSubjects(context.WithoutCancel(ctx), a.n)
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

// forgetAll returns the change after which no earlier decision covers anything: a reset is a fresh start.
func (a *Approvals) forgetAll() change {
	return change{
		also: func(tx *store.Tx) error { return tx.EndApprovals(a.n) },
		done: func() {
			a.mu.Lock()
			defer a.mu.Unlock()
			a.granted = map[string]bool{}
		},
	}
}

// List returns a page of the session's approvals, newest first; with state "pending", all that are open, oldest first.
func (a *Approvals) List(ctx context.Context, state string, q api.PageQuery) (api.Page[api.Approval], error) {
	switch state {
	case "":
		return PageOf(q, func(before int64, limit int) ([]api.Approval, []int64, error) {
			rows, err := a.journal.store.Approvals(ctx, a.n, before, limit)
			items, numbers := make([]api.Approval, len(rows)), make([]int64, len(rows))
			for i, row := range rows {
				items[i], numbers[i] = approvalOf(row), row.N
			}
			return items, numbers, err
		})
	case "pending":
		rows, err := a.journal.store.OpenApprovals(ctx, a.n)
		items := make([]api.Approval, len(rows))
		for i, row := range rows {
			items[i] = approvalOf(row)
		}
		return api.Page[api.Approval]{Items: items}, err
	}
	return api.Page[api.Approval]{}, api.Invalid("state must be %q; leave it out for all", "pending")
}

func approvalOf(row store.Approval) api.Approval {
	return api.Approval{
		ApprovalID: row.ApprovalID, ExecutionID: row.Execution, CallID: row.CallID, Kind: row.Kind, Summary: row.Summary,
		Detail: row.Detail, Patterns: row.Patterns, CreatedAt: api.Millis(row.CreatedAt), ExpiresAt: api.Millis(row.ExpiresAt),
		Decision: row.Decision, By: row.By, Reason: row.Reason, ResolvedAt: millis(row.ResolvedAt),
	}
}
