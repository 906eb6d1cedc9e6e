package session

import (
	"context"
	"slices"
	"strings"

	"talaria/api"
	"talaria/kernel/record"
	"talaria/session/hazard"
	"talaria/session/packages"
	"talaria/session/settings"
)

// approving returns what the session asks people to approve.
func (s *Session) approving() api.ApprovalMode {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.approvalMode
}

// asksCell reports whether a person has to approve a cell before it starts, and returns the question.
func (s *Session) asksCell(r *execution) (p proposal, ask bool) {
	mode := s.approving()
	if mode == api.ApprovalsOff || r.installsItsOwn(s.packages.Requirements()) {
		return p, false
	}
	p = proposal{
		kind: api.ApprovalCell, execution: r.row.ID, subject: "cell", summary: "run a cell", detail: r.row.Code,
		waiter: s.cellWaiter(r),
	}
	if targets := writable(s.mounts); len(targets) > 0 {
		found := hazard.Cell(r.row.Code, targets)
		p.patterns, p.forbidden = found.Patterns, found.Never
	}
	if len(p.patterns) > 0 {
		p.summary += " with " + strings.Join(p.patterns, ", ")
	}
	return p, mode == api.ApprovalsAll || len(p.patterns) > 0
}

// installsItsOwn reports whether an execution installs the packages that its session was created with: whoever created it chose both
// them and the approvals.
func (r *execution) installsItsOwn(own []string) bool {
	return len(own) > 0 && r.row.Silent && r.row.Code == packages.InstallCode(own)
}

// writable lists the folders in the sandbox that are the host's and can be written to.
func writable(mounts []api.Mount) (targets []string) {
	for _, m := range mounts {
		if m.Mode == settings.MountWritable {
			targets = append(targets, m.Target)
		}
	}
	return targets
}

// askCell asks about the cell at the head of the queue, if a person has to approve it. On the session's goroutine.
func (s *Session) askCell(ctx context.Context, r *execution) {
	p, ask := s.asksCell(r)
	s.mu.Lock()
	r.approval = cellApproved
	if ask {
		r.approval = cellAsked
	}
	s.mu.Unlock()
	if !ask {
		return
	}
	s.mustCommit(ctx, s.approvals.propose(ctx, p))
	s.mu.Lock()
	waits := slices.Contains(s.queue, r)
	s.mu.Unlock()
	if !waits { // it was cancelled when there was no question to withdraw yet
		s.mustCommit(ctx, s.approvals.withdraw(r.row.ID))
	}
}

// cellWaiter is the cell that waits for a verdict.
func (s *Session) cellWaiter(r *execution) waiter {
	return waiter{id: r.row.ID, decide: func(v verdict) { s.decidedCell(r, v) }}
}

// decidedCell applies the verdict on a cell.
func (s *Session) decidedCell(r *execution, v verdict) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r.approval = cellApproved
	if !v.decision.Approved() {
		r.cancel = reasonDenied
	}
	s.wakeUp()
}

// endDenied ends the cell that was taken from the queue and was not approved. On the session's goroutine.
func (s *Session) endDenied(ctx context.Context, r *execution) {
	c := s.ended(r, outcome{status: api.StatusCancelled, reason: reasonDenied, state: api.VariablesKept})
	if r.row.StopOnError {
		c.add(s.stopQueue())
	}
	s.settle(ctx, c)
	s.rest(ctx)
}

// approveInstall asks for an installation if a person has to approve it. The error is nil for a yes.
func (s *Session) approveInstall(ctx context.Context, executionID string, asked record.PackageChange) error {
	own := !asked.Remove && !asked.Upgrade && !asked.Reinstall && slices.Equal(asked.Requirements, s.packages.Requirements())
	if s.approving() == api.ApprovalsOff || own {
		return nil
	}
	verb := "install "
	if asked.Remove {
		verb = "remove "
	}
	return s.approvals.askAndWait(ctx, proposal{
		kind: api.ApprovalPackages, execution: executionID, subject: "packages",
		summary: verb + strings.Join(asked.Requirements, " "), detail: strings.Join(asked.Requirements, "\n"),
	})
}

// approveNetwork asks for a change of the network if it opens more than is open, and a person has to approve that.
func (s *Session) approveNetwork(ctx context.Context, asked *api.Network) error {
	if asked == nil || s.approving() == api.ApprovalsOff {
		return nil
	}
	var wanted api.Network
	if err := s.m.operator.CheckNetwork(*asked, &wanted); err != nil {
		return err
	}
	s.mu.Lock()
	present := s.network
	s.mu.Unlock()
	if !opens(present, wanted) {
		return nil
	}
	summary, detail := "let the session reach the whole network", "mode "+string(wanted.Mode)
	if wanted.Mode == api.NetworkAllow {
		summary = "let the session reach " + strings.Join(wanted.Allow, " ")
	}
	return s.approvals.askAndWait(ctx, proposal{
		kind: api.ApprovalNetwork, subject: "network", summary: summary, detail: strings.Join(append([]string{detail}, wanted.Allow...), "\n"),
	})
}

// opens reports whether a network reaches more than another.
func opens(present, wanted api.Network) bool {
	rank := map[api.NetworkMode]int{api.NetworkNone: 0, api.NetworkAllow: 1, api.NetworkFull: 2}
	return rank[wanted.Mode] > rank[present.Mode] ||
		slices.ContainsFunc(wanted.Allow, func(rule string) bool { return !slices.Contains(present.Allow, rule) })
}
