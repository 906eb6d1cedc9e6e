package session

import (
	"context"
	"slices"
	"time"

	"talaria/api"
	"talaria/store"
)

const reasonRestarted = "the server was restarted"

// expectClients counts clients as attached for a while: those of the last server come back.
func (a *Approvals) expectClients() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.expected = time.Now().Add(reconnectTime)
}

// recover takes over the questions that an earlier server left open: those for which waiterAgain finds what still waits go on
// with the time that they have left, and the change that it returns cancels the others.
func (a *Approvals) recover(ctx context.Context, waiterAgain func(store.Approval) (w waiter, waits bool)) (c change, err error) {
	rows, err := a.journal.store.OpenApprovals(ctx, a.n)
	if err != nil {
		return c, err
	}
	for _, row := range rows {
		w, waits := waiterAgain(row)
		if !waits {
			c.add(a.resolution(row, verdict{api.DecisionCancelled, "", reasonRestarted}))
			continue
		}
		q := &question{row: row, waiters: []waiter{w}}
		a.mu.Lock()
		a.open[row.ApprovalID] = q
		a.mu.Unlock()
		a.arm(q)
	}
	return c, nil
}

// recoverApprovals takes over the questions of an earlier server about cells and calls that still wait. A call that waits
// without a question of its own is denied. Executions and calls were recovered before. On the session's goroutine.
func (s *Session) recoverApprovals(ctx context.Context) error {
	c, err := s.approvals.recover(ctx, s.waiterAgain)
	if err != nil {
		return err
	}
	s.tools.denyUnasked()
	if len(c.drafts) == 0 {
		return nil
	}
	return s.journal.commit(ctx, c)
}

// waiterAgain is the cell or the call that waits for the answer to a question of an earlier server.
func (s *Session) waiterAgain(row store.Approval) (w waiter, waits bool) {
	switch row.Kind {
	case api.ApprovalCell:
		s.mu.Lock()
		defer s.mu.Unlock()
		i := slices.IndexFunc(s.queue, func(r *execution) bool { return r.row.ID == row.Execution })
		if i < 0 {
			return w, false
		}
		s.queue[i].approval = cellAsked
		return s.cellWaiter(s.queue[i]), true
	case api.ApprovalTool:
		ts := s.tools
		ts.mu.Lock()
		defer ts.mu.Unlock()
		call := ts.calls[row.CallID]
		if call == nil || !call.awaits {
			return w, false
		}
		call.awaits = false
		return s.tools.waiterOf(call), true
	}
	return w, false // the caller that waited ended with the server
}
