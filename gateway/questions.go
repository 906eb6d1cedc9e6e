package gateway

import (
	"context"
	"fmt"
	"strings"

	"talaria/api"
	"talaria/gateway/render"
	"talaria/store/chats"
)

// maxDetail is how much of what is to be approved a message shows, in bytes.
const maxDetail = 1500

// ask asks what a cell asks with input().
func (c *chat) ask(ctx context.Context, id string, q api.InputRequested) error {
	target := c.bot.Platform.Target()
	prompt := strings.TrimSpace(q.Prompt)
	s := plain("The cell is waiting for an answer. Send it as the next message.")
	if prompt != "" {
		s.Text = render.Inline(target, short(prompt, maxDetail)) + "\n" + render.Text(target, s.Text)
		s.Format = render.FormatOf(target)
	}
	if q.Password {
		s.Text += " It is a password: everybody in this chat can read what you send, so delete it afterwards."
	}
	s.Cell, s.Asks = id, true
	return c.update(ctx, id, func(tx *chats.Tx) error { return c.say(tx, "input:"+id+":"+q.RequestID, s) }, func(k *cell) {
		k.Question = q.RequestID
	})
}

// question is the open question of a cell of the chat, if there is one.
func (c *chat) question(ctx context.Context) (execution, request string, err error) {
	open, err := c.open(ctx)
	for _, one := range open {
		if k := decoded[cell](one.Body); k.Question != "" {
			return one.Execution, k.Question, err
		}
	}
	return "", "", err
}

// askApproval asks for an approval with buttons.
func (c *chat) askApproval(ctx context.Context, e api.Event, a api.ApprovalRequested) error {
	target := c.bot.Platform.Target()
	text := render.Text(target, "Approval needed: "+short(a.Summary, 300))
	if a.Detail != "" && a.Detail != a.Summary {
		text += "\n" + render.Code(target, short(a.Detail, maxDetail))
	}
	s := saying{Message: Message{Text: text, Format: render.FormatOf(target)}, Cell: e.ExecutionID}
	for _, d := range []struct {
		label    string
		decision api.ApprovalDecision
	}{{"Allow once", api.DecisionOnce}, {"Allow for this session", api.DecisionSession}, {"Deny", api.DecisionDeny}} {
		s.Buttons = append(s.Buttons, Button{Label: d.label, Data: "a:" + string(d.decision) + ":" + a.ApprovalID})
	}
	return c.do(ctx, func(tx *chats.Tx) error { return c.say(tx, "approval:"+a.ApprovalID, s) })
}

// tellApproval replaces the buttons by what was decided.
func (c *chat) tellApproval(ctx context.Context, a api.ApprovalResolved) error {
	words := map[api.ApprovalDecision]string{
		api.DecisionOnce: "Allowed once", api.DecisionSession: "Allowed for this session", api.DecisionDeny: "Denied",
		api.DecisionExpired: "Denied, because nobody answered in time", api.DecisionCancelled: "No longer needed",
	}[a.Decision]
	if a.Reason != "" {
		words += " (" + short(a.Reason, 200) + ")"
	}
	return c.do(ctx, func(tx *chats.Tx) error {
		asked, ok, err := tx.RowByKey("approval:" + a.ApprovalID + "/0")
		if err != nil || !ok {
			return err
		}
		before := decoded[saying](asked.Body)
		target := c.bot.Platform.Target()
		question, _, _ := strings.Cut(before.Text, "\n")
		s := saying{
			Message:  Message{Text: question + "\n" + render.Text(target, words+"."), Format: before.Format},
			Replaces: asked.Key,
		}
		return c.say(tx, "approved:"+a.ApprovalID, s)
	})
}

func stopData(execution string) string { return "s:" + execution }

// pressed does what a button says.
func (c *chat) pressed(ctx context.Context, u Update) error {
	notice, err := c.press(ctx, u)
	if err != nil {
		return err
	}
	if err := c.bot.Platform.Acknowledge(ctx, *u.Press, notice); err != nil && ctx.Err() == nil {
		c.log.InfoContext(ctx, "the press of a button was not acknowledged", "error", err) // it is too old, for example
	}
	return nil
}

func (c *chat) press(ctx context.Context, u Update) (notice string, err error) {
	if execution, ok := strings.CutPrefix(u.Press.Data, "s:"); ok {
		err := c.bot.Client.Interrupt(ctx, c.session, execution)
		if refused := refusal(err); refused != nil {
			return "This cell is no longer running.", nil
		}
		return "Interrupting", err
	}
	answer, ok := strings.CutPrefix(u.Press.Data, "a:")
	decision, id, cut := strings.Cut(answer, ":")
	if !ok || !cut {
		return "This button no longer works.", nil
	}
	allowed, err := c.mayDecide(ctx, id, u.From.ID)
	if err != nil {
		return "", err
	}
	if !allowed {
		return "Only the person who ran the cell, or an admin, may decide this.", nil
	}
	err = c.bot.Client.Approve(ctx, c.session, id, api.ApprovalAnswer{
		Decision: api.ApprovalDecision(decision), Reason: fmt.Sprintf("by %s on %s", short(u.From.Name, 60), c.bot.title()),
	})
	switch refused := refusal(err); {
	case refused != nil && refused.Code == api.CodeNoApprovalPending:
		return "This question is no longer open.", nil
	case refused != nil:
		return short(refused.Detail, 190), nil
	}
	return "", err
}

// mayDecide reports whether somebody may answer an approval: an admin, or whoever ran the cell, if anybody did.
func (c *chat) mayDecide(ctx context.Context, approval, person string) (allowed bool, err error) {
	return allowed, c.do(ctx, func(tx *chats.Tx) error {
		asked, ok, err := tx.RowByKey("approval:" + approval + "/0")
		if err != nil || !ok {
			return err
		}
		if allowed, err = c.bot.admin(tx, person); allowed || err != nil {
			return err
		}
		kept, ok, err := tx.Cell(decoded[saying](asked.Body).Cell)
		allowed = ok && decoded[cell](kept.Body).By.ID == person
		return err
	})
}
