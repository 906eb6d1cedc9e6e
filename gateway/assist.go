package gateway

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"unicode/utf16"

	"talaria/api"
	"talaria/gateway/assistant"
	"talaria/gateway/render"
	"talaria/store/chats"
)

const (
	maxSteps        = 12        // answers of the model to one message of a person
	maxConversation = 200 << 10 // bytes
	maxWaiting      = 20        // messages of people while the assistant is at work
)

// talk is the conversation of a chat with the assistant. It is stored after each step, so that a restart repeats none.
type talk struct {
	Messages []assistant.Message `json:"messages,omitzero"`
	Turn     string              `json:"turn,omitzero"` // the update that is being answered; "" for none
	By       Person              `json:"by,omitzero"`
	Step     int                 `json:"step,omitzero"` // messages of the model and results so far
	Asked    int                 `json:"asked,omitzero"`
	Stopped  bool                `json:"stopped,omitzero"`
	Waiting  []remark            `json:"waiting,omitzero"`
	Last     string              `json:"last,omitzero"` // the update of the newest remark
}

// remark is what a person wrote in plain words.
type remark struct {
	Update string `json:"update"`
	By     Person `json:"by"`
	Text   string `json:"text"`
}

// changeTalk changes the conversation, together with what is said.
func (c *chat) changeTalk(ctx context.Context, change func(*chats.Tx, *talk) error) error {
	return c.do(ctx, func(tx *chats.Tx) error {
		kept, _, err := tx.Chat(c.key)
		if err != nil {
			return err
		}
		r := decoded[record](kept.Body)
		if err := change(tx, &r.Talk); err != nil {
			return err
		}
		return tx.PutChat(c.key, encoded(r), r.Talk.Turn != "" || len(r.Talk.Waiting) > 0)
	})
}

// remark queues a message in plain words for the assistant.
func (c *chat) remark(ctx context.Context, u Update, text string) ([]saying, error) {
	full := false
	err := c.changeTalk(ctx, func(_ *chats.Tx, t *talk) error {
		if t.Last == u.ID { // it got this far before a restart
			return nil
		}
		if full = len(t.Waiting) >= maxWaiting; !full {
			t.Last, t.Waiting = u.ID, append(t.Waiting, remark{Update: u.ID, By: u.From, Text: text})
		}
		return nil
	})
	c.thoughts.wake()
	if full {
		return []saying{c.bot.words("The assistant is still working on earlier messages. Try again later, or send {/}stop")}, err
	}
	return nil, err
}

// think has the assistant answer one message after another.
func (c *chat) think(ctx context.Context) {
	var retry backoff
	for ctx.Err() == nil {
		var now talk
		if c.changeTalk(ctx, func(_ *chats.Tx, t *talk) error {
			if t.Turn == "" && len(t.Waiting) > 0 {
				next := t.Waiting[0]
				t.Turn, t.By, t.Waiting, t.Step, t.Asked, t.Stopped = next.Update, next.By, t.Waiting[1:], 0, 0, false
				t.Messages = assistant.Trim(append(t.Messages, assistant.User(next.Text)), maxConversation)
			}
			now = *t
			return nil
		}) != nil {
			return
		}
		if now.Turn == "" {
			select {
			case <-c.thoughts:
			case <-ctx.Done():
			}
			continue
		}
		if err := c.step(ctx, now); err != nil && ctx.Err() == nil {
			c.log.WarnContext(ctx, "the assistant could not continue; trying again", "error", err)
			retry.wait(ctx, err)
			continue
		}
		retry = 0
	}
}

// step makes one step of a turn: it runs a cell that the model wants, or asks the model. An error is temporary.
func (c *chat) step(ctx context.Context, t talk) error {
	calls := assistant.Open(t.Messages)
	switch {
	case t.Stopped:
		return c.endTurn(ctx, t, calls, nil)
	case len(calls) > 0:
		return c.carryOut(ctx, t, calls[0])
	case t.Asked >= maxSteps:
		s := plain("The assistant stopped after %d steps. Send it a message to continue.", maxSteps)
		return c.endTurn(ctx, t, nil, []saying{s})
	}
	stop := c.typeMeanwhile(ctx)
	m, err := c.bot.Assistant.Next(ctx, t.Messages)
	stop()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		return c.endTurn(ctx, t, nil, []saying{plain("%s.", strings.TrimSuffix(err.Error(), "."))})
	}
	return c.changeTalk(ctx, func(tx *chats.Tx, now *talk) error {
		now.Messages, now.Step, now.Asked = append(now.Messages, m), now.Step+1, now.Asked+1
		if len(m.ToolCalls) == 0 {
			now.Turn = ""
		}
		return c.say(tx, fmt.Sprintf("assistant:%s:%d", t.Turn, t.Step), texts(c.bot.Platform.Target(), m.Content)...)
	})
}

// endTurn ends a turn. Calls that were not carried out are answered, as the model's interface demands.
func (c *chat) endTurn(ctx context.Context, t talk, calls []assistant.Call, all []saying) error {
	return c.changeTalk(ctx, func(tx *chats.Tx, now *talk) error {
		for _, call := range calls {
			now.Messages = append(now.Messages, assistant.Problem(call.ID, errors.New("the person stopped it")))
		}
		now.Turn, now.Stopped = "", false
		return c.say(tx, "assistant-end:"+t.Turn, all...)
	})
}

// carryOut runs the code of a call as a cell of the chat, after showing it, and waits for its end.
func (c *chat) carryOut(ctx context.Context, t talk, call assistant.Call) error {
	answer := func(m assistant.Message) error {
		return c.changeTalk(ctx, func(_ *chats.Tx, now *talk) error {
			now.Messages, now.Step = append(now.Messages, m), now.Step+1
			return nil
		})
	}
	source, err := call.Code()
	if err != nil {
		return answer(assistant.Problem(call.ID, err))
	}
	if err := c.do(ctx, func(tx *chats.Tx) error {
		return c.say(tx, fmt.Sprintf("code:%s:%d", t.Turn, t.Step), code(c.bot.Platform.Target(), source))
	}); err != nil {
		return err
	}
	id := executionID("assistant:"+t.Turn, t.Step)
	if _, err := c.run(ctx, id, t.By, source); err != nil {
		if refused := refusal(err); refused != nil {
			return answer(assistant.Problem(call.ID, errors.New(refused.Detail)))
		}
		return err
	}
	stdin := true
	e, err := c.bot.Client.Execute(ctx, c.session, api.ExecutionRequest{ID: &id, Code: &source, AllowStdin: &stdin})
	switch refused := refusal(err); {
	case refused != nil:
		return answer(assistant.Problem(call.ID, errors.New(refused.Detail)))
	case err != nil:
		return err
	case !e.Status.Final():
		return errors.New("the server shuts down")
	}
	if err := c.awaitResult(ctx, id); err != nil {
		return err
	}
	return answer(assistant.Result(call.ID, e))
}

// awaitResult waits until the result of a cell is planned, so that what the model says of it comes later.
func (c *chat) awaitResult(ctx context.Context, id string) error {
	for {
		var kept chats.Cell
		var known bool
		if err := c.do(ctx, func(tx *chats.Tx) (err error) { kept, known, err = tx.Cell(id); return err }); err != nil || !known || kept.Done {
			return err
		}
		select {
		case <-c.results:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// stopThinking ends the turn of the assistant, if there is one.
func (c *chat) stopThinking(ctx context.Context) (was bool, err error) {
	if c.bot.Assistant == nil {
		return false, nil
	}
	return was, c.changeTalk(ctx, func(_ *chats.Tx, t *talk) error {
		was = t.Turn != "" || len(t.Waiting) > 0
		t.Stopped, t.Waiting = t.Turn != "", nil
		return nil
	})
}

// forgetTalk is the command /new.
func (c *chat) forgetTalk(ctx context.Context, _ Update, _ string) ([]saying, error) {
	if c.bot.Assistant == nil {
		return []saying{plain("This bot has no assistant: it runs code only.")}, nil
	}
	busy := false
	err := c.changeTalk(ctx, func(_ *chats.Tx, t *talk) error {
		if busy = t.Turn != ""; !busy {
			t.Messages = nil
		}
		return nil
	})
	if busy {
		return []saying{c.bot.words("The assistant is working. Send {/}stop first.")}, err
	}
	return []saying{c.bot.words("The assistant has forgotten the conversation. Variables and files are still there; {/}reset all deletes them.")}, err
}

// typeMeanwhile shows that the bot is at work until stop is called. Run waits for it.
func (c *chat) typeMeanwhile(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	c.bot.work.Go(func() {
		for ; ctx.Err() == nil; sleep(ctx, typingEvery) {
			c.showTyping(ctx)
		}
	})
	return cancel
}

// texts cuts a text for messages of the target, at the ends of lines where it can.
func texts(t api.RenderTarget, text string) (all []saying) {
	limit := render.LimitsOf(t).Text * 3 / 4 // platforms may show some characters as several
	text = strings.TrimSpace(strings.ToValidUTF8(text, "\uFFFD"))
	for text != "" {
		end, units, line := len(text), 0, 0
		for i, r := range text {
			if units += utf16.RuneLen(r); units > limit {
				end = i
				break
			}
			if r == '\n' {
				line = i + 1
			}
		}
		if end < len(text) && line > 0 {
			end = line
		}
		if piece := strings.TrimSpace(text[:end]); piece != "" {
			all = append(all, plain("%s", piece))
		}
		text = text[end:]
	}
	return all
}
