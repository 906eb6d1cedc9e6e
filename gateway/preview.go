package gateway

import (
	"context"
	"errors"
	"time"

	"talaria/api"
	"talaria/gateway/render"
	"talaria/store/chats"
)

// maxKeep is the longest pause after which previews go on. After a longer one, the cell's next message is its result.
const maxKeep = 45 * time.Second

// progress is a running cell, as this process has seen it.
type progress struct {
	since  time.Time
	due    time.Time // when to show it next
	dirty  bool      // there is something new to show
	shown  string    // the text that was shown last
	failed int       // previews that failed in a row
}

func progressKey(cell string) string { return "progress:" + cell + "/0" }

// park records that the platform wants nothing to be sent to the chat for a while, and returns the pace to store.
func (c *chat) park(pause time.Duration) pace {
	if pause > maxKeep {
		c.mu.Lock()
		for _, p := range c.running {
			p.failed = maxPreviews
		}
		c.mu.Unlock()
	}
	return c.bot.paces.park(c.at, pause)
}

// preview waits until there is something to send, or until the progress of a cell is due, which it then shows.
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

// nextPreview returns the cell whose progress is to be shown next, and when.
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
		p.failed++ // park counts the others
	}
	p.dirty = true
	if ctx.Err() == nil {
		c.log.InfoContext(ctx, "a preview was skipped", "execution", id, "error", err)
	}
}

// progressMessage says what a cell has printed last, and how long it has been running.
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
	return Message{
		Text: text, Format: render.FormatOf(target), Buttons: []Button{{Label: "Stop", Data: stopData(id)}}, Live: true, Printed: e.Text,
		Key: messageKey(progressKey(id), 0),
	}, nil
}

// showMessage sends or edits the message with the progress of a cell, if the chat's turn has come.
func (c *chat) showMessage(ctx context.Context, id string, m Message) error {
	var row chats.Row
	var known bool
	if err := c.do(ctx, func(tx *chats.Tx) (err error) { row, known, err = tx.RowByKey(progressKey(id)); return err }); err != nil {
		return err
	}
	if known && row.Message == "" {
		return nil // whether it arrived is unknown, so the result will be a message of its own
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
		parked := c.park(retry.After)
		return errors.Join(err, c.do(kept, func(tx *chats.Tx) error {
			if !known { // it was not sent
				return errors.Join(tx.DeleteRow(row.N), tx.PutPace(c.at.ID, encoded(parked)))
			}
			return tx.PutPace(c.at.ID, encoded(parked))
		}))
	case errors.Is(err, ErrNoMessage):
		return errors.Join(err, c.do(kept, func(tx *chats.Tx) error { return tx.SetRow(row.N, chats.GivenUp, "") }))
	}
	return err // if the answer to the first message was lost, its row is on its way, and send looks for it
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
		if c.turn(ctx, 1, func(*chats.Tx) error { return nil }) != nil {
			c.log.Warn("there was no time for the last edit", "execution", id)
			continue
		}
		m := Message{Text: "Still running. The bot is restarting; the result follows.", Format: api.RenderUnformatted}
		if err := c.bot.Platform.Edit(ctx, c.at, row.Message, m); err != nil {
			c.log.Warn("a last edit failed", "error", err)
		}
	}
}
