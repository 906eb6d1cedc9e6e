package session

import (
	"context"

	"talaria/api"
	"talaria/kernel/command"
	"talaria/kernel/record"
)

// toolWork is work to do once Tools.mu is free.
type toolWork struct {
	again   []*toolCall // to be handed to their clients
	cancels []toolCancel
	answers []toolAnswer
}

type toolCancel struct {
	client ToolClient
	frame  api.ToolCancel
}

type toolAnswer struct {
	key    record.Key
	answer command.AnswerTool
}

// fail answers a call with a failure, unless it is answered. Tools.mu is held.
func (w *toolWork) fail(c *toolCall, failure *api.ToolError) {
	if c.answered {
		return
	}
	c.answered, c.failure = true, failure
	c.stopTimer()
	w.answers = append(w.answers, toolAnswer{c.key, command.AnswerTool{RequestID: c.id, Error: failureOf(failure)}})
}

// cancel tells the client of a call that nobody waits for it any more. Tools.mu is held.
func (w *toolWork) cancel(c *toolCall, reason string) {
	if c.handed && c.provider != nil && c.provider.client != nil {
		w.cancels = append(w.cancels, toolCancel{c.provider.client, api.ToolCancel{Type: "tool_cancel", CallID: c.id, Reason: reason}})
	}
}

func failureOf(e *api.ToolError) *command.ToolFailure {
	return &command.ToolFailure{Code: e.Code, Message: e.Message}
}

// carryOut does the work. mu is not held.
func (ts *Tools) carryOut(w toolWork) {
	if len(w.again)+len(w.cancels)+len(w.answers) == 0 {
		return
	}
	ts.mu.Lock()
	type request struct {
		client ToolClient
		frame  api.ToolRequest
	}
	var requests []request
	for _, c := range w.again {
		if c.provider != nil && c.provider.client != nil && !c.answered && !c.ended {
			requests = append(requests, request{c.provider.client, c.request()})
		}
	}
	ts.mu.Unlock()
	for _, r := range requests {
		r.client.Request(r.frame)
	}
	for _, c := range w.cancels {
		c.client.Cancel(c.frame)
	}
	for _, a := range w.answers {
		ts.answerSoon(a.key, a.answer)
	}
}

// answerSoon answers a call in the background, however long the host takes.
func (ts *Tools) answerSoon(key record.Key, answer command.AnswerTool) {
	ts.task(func(ctx context.Context) {
		if err := ts.answerCall(ctx, key, answer); err != nil {
			ts.log.Debug("answer a tool call", "error", err) // nobody waits for it now
		}
	})
}

// task runs f in the background, until the session ends.
func (ts *Tools) task(f func(context.Context)) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	if !ts.closed {
		ts.tasks.Go(func() { f(ts.ctx) })
	}
}

func (ts *Tools) answerCall(ctx context.Context, key record.Key, answer command.AnswerTool) error {
	return insist(ctx, func() error { return command.Tell(ctx, ts.host, key, answer) })
}
