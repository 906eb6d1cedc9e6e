package gateway

import (
	"context"
	"errors"
	"time"

	"talaria/api"
	"talaria/gateway/render"
	"talaria/store/chats"
)

// preview waits until there is something to send, or until the progress of a cell is due, and then shows that.
func (c *chat) preview(ctx context.Context) {
	id, at := c.nextPreview()
	if id != "" {
		at = later(at, c.bot.paces.ready(c.at, 1, true))
	}
	wait := time.Until(at)
	if id == "" {
		wait = time.Hour // until the bell rings
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-c.outbox:
	case <-timer.C:
		if id != "" {
			c.show(ctx, id)
		}
	}
}

// nextPreview is the cell whose progress is to be shown next, and when.
func (c *chat) nextPreview() (id string, at time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for cell, p := range c.running {
		due := p.due
		if !p.dirty { // only the time has changed
			due = later(due, p.due.Add(elapsedEvery))
		}
		if p.failed < maxPreviews && (id == "" || due.Before(at)) {
			id, at = cell, due
		}
	}
	return id, at
}

// show shows how far a cell is, in a message that is edited from then on.
func (c *chat) show(ctx context.Context, id string) {
	c.mu.Lock()
	p := c.running[id]
	if p == nil {
		c.mu.Unlock()
		return
	}
	p.dirty = false
	p.due = time.Now().Add(c.bot.tempo.preview)
	since, shown := p.since, p.shown
	c.mu.Unlock()

	m, err := c.progressMessage(ctx, id, since)
	if err == nil && m.Text != shown {
		err = c.showMessage(ctx, id, m)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err == nil {
		p.shown, p.failed = m.Text, 0
		return
	}
	if retry := (*RetryError)(nil); !errors.As(err, &retry) {
		p.failed++
	}
	p.dirty = true
	if ctx.Err() == nil {
		c.log.InfoContext(ctx, "a preview was left out", "execution", id, "error", err)
	}
}

// progressMessage is what a cell has printed last, and how long it has been running.
func (c *chat) progressMessage(ctx context.Context, id string, since time.Time) (Message, error) {
	e, err := c.bot.Client.Execution(ctx, c.session, id)
	if err != nil {
		return Message{}, err
	}
	target := c.bot.Platform.Target()
	text := render.Preview(target, e.Text, previewSpare)
	if text != "" {
		text += "\n"
	}
	text += "Running"
	if ran := time.Since(since); ran >= elapsedAfter {
		text += " for " + elapsed(ran.Truncate(10*time.Second))
	} else {
		text += " …"
	}
	return Message{Text: text, Format: render.FormatOf(target), Buttons: []Button{{Label: "Stop", Data: stopData(id)}}}, nil
}

// showMessage sends or edits the message with the progress of a cell, if the chat's turn has come.
func (c *chat) showMessage(ctx context.Context, id string, m Message) error {
	var row chats.Row
	var known bool
	if err := c.do(ctx, func(tx *chats.Tx) (err error) { row, known, err = tx.RowByKey(progressKey(id)); return err }); err != nil {
		return err
	}
	if known && row.Message == "" {
		return nil // whether it arrived is unknown; the result comes as a message of its own
	}
	p, ok := c.bot.paces.take(c.at, 1, true)
	if !ok {
		return nil // the next attempt is later
	}
	if err := c.do(ctx, func(tx *chats.Tx) (err error) {
		if !known {
			if _, err = tx.Say(c.key, progressKey(id), encoded(saying{Message: m, Cell: id, Progress: true})); err == nil {
				if row, _, err = tx.RowByKey(progressKey(id)); err == nil {
					err = tx.SetRow(row.N, chats.Sending, "")
				}
			}
		}
		return errors.Join(err, tx.PutPace(c.at.ID, encoded(p)))
	}); err != nil {
		return err
	}
	message, err := row.Message, error(nil)
	if known {
		err = c.bot.Platform.Edit(ctx, c.at, message, m)
	} else {
		message, err = c.sendNew(ctx, m)
	}
	kept := context.WithoutCancel(ctx)
	switch retry := (*RetryError)(nil); {
	case err == nil && !known:
		return c.do(kept, func(tx *chats.Tx) error {
			return errors.Join(tx.SetRow(row.N, chats.Sent, message), tx.PutLast(c.key, message))
		})
	case errors.As(err, &retry):
		parked := c.bot.paces.park(c.at, retry.After)
		return errors.Join(err, c.do(kept, func(tx *chats.Tx) error {
			if !known { // it was not sent
				return errors.Join(tx.DeleteRow(row.N), tx.PutPace(c.at.ID, encoded(parked)))
			}
			return tx.PutPace(c.at.ID, encoded(parked))
		}))
	case errors.Is(err, ErrNoMessage):
		return errors.Join(err, c.do(kept, func(tx *chats.Tx) error { return tx.SetRow(row.N, chats.GivenUp, "") }))
	}
	return err // a first message whose answer was lost is a row on its way, which is looked for
}

// part says in the messages of running cells that the bot is away.
func (c *chat) part() {
	ctx, cancel := context.WithTimeout(context.Background(), partingTime)
	defer cancel()
	c.mu.Lock()
	ids := make([]string, 0, len(c.running))
	for id := range c.running {
		ids = append(ids, id)
	}
	c.mu.Unlock()
	for _, id := range ids {
		var row chats.Row
		err := c.bot.Store.Do(ctx, func(tx *chats.Tx) (err error) { row, _, err = tx.RowByKey(progressKey(id)); return err })
		if err != nil || row.Message == "" {
			continue
		}
		sleep(ctx, time.Until(c.bot.paces.ready(c.at, 1, false)))
		if _, ok := c.bot.paces.take(c.at, 1, false); !ok {
			continue
		}
		m := Message{Text: "Still running. The bot is being restarted; the result follows then.", Format: api.RenderUnformatted}
		if err := c.bot.Platform.Edit(ctx, c.at, row.Message, m); err != nil {
			c.log.Warn("a last edit failed", "error", err)
		}
	}
}
