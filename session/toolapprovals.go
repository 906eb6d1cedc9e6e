package session

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"
	"unicode"

	"talaria/api"
	"talaria/session/hazard"
	"talaria/session/settings"
	"talaria/store"
)

// workspaceInside is where cells see their workspace.
const workspaceInside = "/workspace"

// asks reports whether a person has to approve a call of a tool, and returns the question.
func (ts *Tools) asks(c *toolCall) (p proposal, ask bool) {
	mode := ts.approving()
	switch {
	case c.kind == api.ProviderBuiltin:
		if mode != api.ApprovalsOff {
			p.patterns, p.forbidden = c.hazards(writable(ts.mounts))
		}
		ask = len(p.patterns) > 0
	case c.tool.RequiresApproval, mode == api.ApprovalsAll:
		ask = true
	default:
		ask = mode == api.ApprovalsDestructive && !c.tool.ReadOnly
	}
	if ask {
		p.kind, p.execution, p.call, p.subject = api.ApprovalTool, c.execution, c.id, "tool "+string(c.kind)+" "+c.name
		p.summary, p.detail, p.waiter = "call "+c.name, string(c.arguments), ts.waiterOf(c)
	}
	return p, ask
}

// hazards names what a call of a built-in tool may destroy in these folders outside the sandbox.
func (c *toolCall) hazards(targets []string) (patterns []string, never bool) {
	if len(targets) == 0 {
		return nil, false
	}
	var given struct {
		Command string  `json:"command"`
		Path    *string `json:"path"`
		Patch   string  `json:"patch"`
	}
	if json.Unmarshal(c.arguments, &given) != nil { // the tool will refuse it
		return nil, false
	}
	switch c.name {
	case "terminal":
		found := hazard.Shell(given.Command, targets)
		return found.Patterns, found.Never
	case "write_file", "patch":
		names := patchedFiles(given.Patch)
		if given.Path != nil {
			names = append(names, *given.Path)
		}
		for _, name := range names {
			full := path.Join(workspaceInside, name)
			if path.IsAbs(name) {
				full = path.Clean(name)
			}
			if slices.ContainsFunc(targets, func(target string) bool { return settings.Beneath(full, target) }) {
				return []string{"write to a mount"}, false
			}
		}
	}
	return nil, false
}

// patchedFiles returns the files that a patch in the V4A format names, as the runner reads it
// (talaria_runner/tools/patches.py).
func patchedFiles(patch string) (names []string) {
	// Python's white space includes four separators that Go's does not.
	trim := func(text string) string {
		return strings.TrimFunc(text, func(c rune) bool { return unicode.IsSpace(c) || '\x1c' <= c && c <= '\x1f' })
	}
	for line := range strings.SplitSeq(patch, "\n") {
		for _, head := range []string{"*** Add File: ", "*** Update File: ", "*** Delete File: ", "*** Move to: "} {
			if name, ok := strings.CutPrefix(line, head); ok {
				names = append(names, trim(name))
			}
		}
		if both, ok := strings.CutPrefix(line, "*** Move File: "); ok {
			from, to, _ := strings.Cut(both, "->")
			names = append(names, trim(from), trim(to))
		}
	}
	return names
}

// waiterOf is the call that waits for a verdict.
func (ts *Tools) waiterOf(c *toolCall) waiter {
	return waiter{
		id: c.id,
		approve: func(tx *store.Tx) error {
			return tx.ApproveToolCall(ts.n, c.id, time.Now().Add(c.timeout()).UnixMilli())
		},
		decide: func(v verdict) { ts.decided(c, v) },
	}
}

// decided applies the verdict on a call.
func (ts *Tools) decided(c *toolCall, v verdict) {
	if v.decision.Approved() {
		ts.handOver(c)
		return
	}
	ts.mu.Lock()
	var work toolWork
	if !c.ended {
		work.fail(c, &api.ToolError{Code: codeDenied, Message: c.name + " was not approved: " + v.denial()})
	}
	ts.mu.Unlock()
	ts.carryOut(work)
}

// askFor asks a person what the provider of a tool asks during a call. The error is nil for a yes. A decision for
// the session covers only the same question of the same tool. It is not tied to the call, which was made already: after a
// restart its answer must not make the call again.
func (ts *Tools) askFor(ctx context.Context, r api.ToolRequest, question string) error {
	return ts.approvals.askAndWait(ctx, proposal{
		kind: api.ApprovalTool, execution: r.ExecutionID,
		subject: fmt.Sprintf("question of %s %x", r.Tool, sha256.Sum256([]byte(question))),
		summary: r.Tool + " asks for confirmation", detail: question,
	})
}

// denyUnasked fails the calls of an earlier server that were not approved and for which no question is open.
func (ts *Tools) denyUnasked() {
	ts.mu.Lock()
	var work toolWork
	for _, call := range ts.calls {
		if call.awaits {
			work.fail(call, &api.ToolError{Code: codeDenied, Message: call.name + " was not approved: " + reasonRestarted})
		}
	}
	ts.mu.Unlock()
	ts.carryOut(work)
}
