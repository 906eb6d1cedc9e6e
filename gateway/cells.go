package gateway

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"talaria/api"
	"talaria/client"
	"talaria/gateway/render"
	"talaria/store/chats"
)

const (
	progressAfter = time.Second      // a cell that ends sooner has no message with its progress
	elapsedAfter  = 30 * time.Second // then the message says how long it has been running
	elapsedEvery  = 30 * time.Second
	typingEvery   = 4 * time.Second
	typingTime    = 5 * time.Second // that showing it may take
	maxPreviews   = 3               // that fail in a row; then only the result is sent
	attachTime    = 10 * time.Second
	previewSpare  = 200 // UTF-16 units for the lines around a preview
)

// cell is what the store has about a cell until its result is in the outbox.
type cell struct {
	By      Person    `json:"by"`
	Started time.Time `json:"started,omitzero"`
	// Waits: it was not submitted yet, so that no session lacks it.
	Waits bool `json:"waits,omitzero"`
	// Question is what input() asks, while it waits.
	Question string `json:"question,omitzero"`
}

// executionID is the id of the nth cell of an update: the same when the update is handled again.
func executionID(update string, n int) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s/%d", update, n))
	return "chat-" + hex.EncodeToString(sum[:12])
}

// ensure creates the chat's session if it does not exist.
func (c *chat) ensure(ctx context.Context) error {
	_, _, err := c.bot.Client.EnsureSession(ctx, c.session, c.bot.Session, api.IfExistsKeep)
	return err
}

// run starts a cell and says so if it has to wait. It may be called again for the same id.
func (c *chat) run(ctx context.Context, id string, by Person, code string) (queued bool, err error) {
	if err := c.ensure(ctx); err != nil {
		return false, err
	}
	var kept chats.Cell
	if err := c.do(ctx, func(tx *chats.Tx) (err error) {
		var known bool
		if kept, known, err = tx.Cell(id); known || err != nil {
			return err
		}
		return tx.PutCell(c.key, chats.Cell{Execution: id, Body: encoded(cell{By: by, Waits: true})})
	}); err != nil {
		return false, err
	}
	if kept.Done { // it ended before it was known to have begun, and the session may not be followed any more
		return false, nil
	}
	c.cells.wake()
	if !c.attached.wait(ctx, attachTime) { // nobody could answer the cell's questions
		return false, errors.New("the session cannot be attached to")
	}
	if err := c.update(ctx, id, nil, func(k *cell) { k.Waits = false }); err != nil {
		return false, err
	}
	stdin := true
	e, err := c.bot.Client.ExecuteWait(ctx, c.session, api.ExecutionRequest{ID: &id, Code: &code, AllowStdin: &stdin}, 0)
	if refusal(err) != nil {
		return false, errors.Join(err, c.do(ctx, func(tx *chats.Tx) error { return tx.DeleteCell(id) }))
	}
	if err != nil {
		return false, err
	}
	// The cell itself may have begun in the meantime.
	return e.Status == api.StatusQueued && c.busyWithOther(id), nil
}

// busy reports whether a cell of the chat runs.
func (c *chat) busy() bool { return c.busyWithOther("") }

// busyWithOther reports whether a cell of the chat runs that is not the given one.
func (c *chat) busyWithOther(id string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for running := range c.running {
		if running != id {
			return true
		}
	}
	return false
}

// followCells handles the events of the session while cells of the chat are under way.
func (c *chat) followCells(ctx context.Context) {
	var retry backoff
	for ctx.Err() == nil {
		open, err := c.open(ctx)
		if err != nil {
			return
		}
		if len(open) == 0 {
			select {
			case <-c.cells:
			case <-ctx.Done():
			}
			continue
		}
		began := time.Now()
		err = c.follow(ctx)
		if err == nil || ctx.Err() != nil {
			continue
		}
		if time.Since(began) > maxRetry {
			retry = 0
		}
		c.log.WarnContext(ctx, "the session's events cannot be read; trying again", "error", err)
		retry.wait(ctx, err)
	}
}

func (c *chat) open(ctx context.Context) (cells []chats.Cell, err error) {
	return cells, c.do(ctx, func(tx *chats.Tx) (err error) { cells, err = tx.OpenCells(c.key); return err })
}

// follow handles events after the last one that was handled, until no cell of the chat is open. Meanwhile the bot is attached to
// the session, so that cells can ask.
func (c *chat) follow(ctx context.Context) error {
	var from chats.Chat
	if err := c.do(ctx, func(tx *chats.Tx) (err error) { from, _, err = tx.Chat(c.key); return err }); err != nil {
		return err
	}
	socket, err := c.bot.Client.Attach(ctx, c.session, client.AttachOptions{After: &from.Seq, LogID: from.LogID, Reconnect: true})
	if err != nil {
		return c.lost(ctx, err)
	}
	defer socket.Close()
	logID := socket.Hello().Session.LogID
	if from.LogID == "" {
		if err := c.do(ctx, func(tx *chats.Tx) error { return tx.PutCursor(c.key, logID, from.Seq) }); err != nil {
			return err
		}
	}
	following, cancel := context.WithCancel(ctx)
	defer cancel()
	c.bot.work.Go(func() { c.typing(following) })
	c.attached.set(true)
	defer c.attached.set(false)
	for {
		event, err := socket.Next(ctx)
		if err != nil {
			return c.lost(ctx, err)
		}
		left, err := c.handleEvent(ctx, logID, event)
		if err == nil && !left { // run puts a cell first, and then waits for the gate
			c.attached.set(false)
			if left, err = c.anyOpen(ctx); left {
				c.attached.set(true)
			}
		}
		if err != nil || !left {
			return err
		}
	}
}

func (c *chat) anyOpen(ctx context.Context) (bool, error) {
	open, err := c.open(ctx)
	return len(open) > 0, err
}

// lost finds out what became of the open cells if the events cannot say: they expired, the session was deleted or recreated, or the
// server has lost its last ones, which makes the position an invalid request.
func (c *chat) lost(ctx context.Context, why error) error {
	var closed *client.CloseError
	switch codeOf(why) {
	case api.CodeSessionNotFound, api.CodeEventsExpired, api.CodeLogChanged, api.CodeInvalidRequest:
	default:
		if !errors.As(why, &closed) || closed.Reason != "session_deleted" {
			return why
		}
	}
	open, err := c.open(ctx)
	if err != nil {
		return err
	}
	for _, one := range open {
		e, err := c.bot.Client.Execution(ctx, c.session, one.Execution)
		switch code := codeOf(err); {
		case code == api.CodeExecutionNotFound && decoded[cell](one.Body).Waits:
			continue
		case code == api.CodeSessionNotFound || code == api.CodeExecutionNotFound:
			err = c.finish(ctx, one.Execution, []saying{plain("This chat's session was deleted, and this cell with it.")}, nil)
		case err == nil && e.Status.Final():
			err = c.deliver(ctx, e, nil)
		}
		if err != nil {
			return err
		}
	}
	s, err := c.bot.Client.Session(ctx, c.session)
	if codeOf(err) == api.CodeSessionNotFound {
		return c.do(ctx, func(tx *chats.Tx) error { return tx.PutCursor(c.key, "", 0) })
	}
	if err != nil {
		return err
	}
	var kept chats.Chat
	if err := c.do(ctx, func(tx *chats.Tx) (err error) { kept, _, err = tx.Chat(c.key); return err }); err != nil {
		return err
	}
	if codeOf(why) == api.CodeInvalidRequest && kept.Seq <= s.LastSeq { // for another reason
		return why
	}
	// The events that are left report what is still running.
	return c.do(ctx, func(tx *chats.Tx) error { return tx.PutCursor(c.key, s.LogID, s.FirstSeq-1) })
}

// handleEvent does what an event asks for. left reports whether cells are still open.
func (c *chat) handleEvent(ctx context.Context, logID string, e api.Event) (left bool, err error) {
	if approval, ok := e.Body.(api.ApprovalRequested); ok {
		return true, c.askApproval(ctx, e, approval)
	}
	if resolved, ok := e.Body.(api.ApprovalResolved); ok {
		return true, c.tellApproval(ctx, resolved)
	}
	if e.ExecutionID == "" {
		return true, nil
	}
	switch body := e.Body.(type) {
	case api.ExecutionStarted:
		err = c.started(ctx, e)
	case api.ExecutionFinished:
		err = c.finished(ctx, logID, e, body.Execution)
		left, failed := c.anyOpen(ctx)
		return left, errors.Join(err, failed)
	case api.InputRequested:
		err = c.ask(ctx, e.ExecutionID, body)
	case api.InputClosed:
		err = c.update(ctx, e.ExecutionID, nil, func(k *cell) { k.Question = "" })
	case api.Stream, api.DisplayData, api.UpdateDisplayData, api.ExecuteResult, api.ClearOutput, api.ErrorEvent:
		c.touch(e.ExecutionID)
	}
	return true, err
}

// update changes what is stored of an open cell, together with more if that is given. Cells that the chat did not start are
// ignored.
func (c *chat) update(ctx context.Context, id string, more func(*chats.Tx) error, change func(*cell)) error {
	return c.do(ctx, func(tx *chats.Tx) error {
		kept, ok, err := tx.Cell(id)
		if err != nil || !ok || kept.Done {
			return err
		}
		k := decoded[cell](kept.Body)
		change(&k)
		kept.Body = encoded(k)
		if more != nil {
			err = more(tx)
		}
		return errors.Join(err, tx.PutCell(c.key, kept))
	})
}

// started makes the progress of a cell visible after a while.
func (c *chat) started(ctx context.Context, e api.Event) error {
	return c.update(ctx, e.ExecutionID, nil, func(k *cell) {
		k.Started = e.Time.Time
		c.mu.Lock()
		defer c.mu.Unlock()
		c.running[e.ExecutionID] = &progress{since: e.Time.Time, due: time.Now().Add(progressAfter), dirty: true}
		c.outbox.wake()
		c.began.wake()
	})
}

// touch records that there is something new to show.
func (c *chat) touch(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if p := c.running[id]; p != nil && !p.dirty {
		p.dirty = true
		c.outbox.wake()
	}
}

// forget ends the previews of a cell.
func (c *chat) forget(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.running, id)
}

// finished plans the result of a cell of this chat.
func (c *chat) finished(ctx context.Context, logID string, e api.Event, execution api.Execution) error {
	open, err := c.open(ctx)
	if err != nil {
		return err
	}
	cursor := func(tx *chats.Tx) error { return tx.PutCursor(c.key, logID, e.Seq) }
	for _, one := range open {
		if one.Execution == e.ExecutionID {
			return c.deliver(ctx, execution, cursor)
		}
	}
	return c.do(ctx, cursor) // somebody else started it, for example on the page
}

// deliver plans the result of a cell.
func (c *chat) deliver(ctx context.Context, e api.Execution, more func(*chats.Tx) error) error {
	rendering, err := c.bot.Client.Render(ctx, c.session, e.ID, c.bot.Platform.Target())
	if err != nil {
		return err
	}
	large, err := c.largeFiles(ctx, e)
	if err != nil {
		return err
	}
	return c.finish(ctx, e.ID, append(c.sayings(e, rendering), large...), more)
}

// sayings returns the messages of a rendering. The first text replaces the progress message; without a text, that is deleted.
func (c *chat) sayings(e api.Execution, r api.Rendering) []saying {
	var all []saying
	for _, p := range r.Parts {
		s := saying{Artifacts: p.Artifacts, AsPhotos: p.Kind == api.RenderPhoto || p.Kind == api.RenderAlbum}
		s.Text, s.Format = p.Caption, api.RenderUnformatted
		switch {
		case p.Kind == api.RenderText && p.Caption != "":
			s.Text, s.Format = p.Text+"\n"+render.Text(c.bot.Platform.Target(), p.Caption), p.Format
		case p.Kind == api.RenderText:
			s.Text, s.Format = p.Text, p.Format
		}
		all = append(all, s)
	}
	for i := range all {
		if len(all[i].Artifacts) == 0 {
			all[i].Cell, all[i].Result = e.ID, true
			return all
		}
	}
	return append([]saying{{Cell: e.ID, Result: true, Removes: true}}, all...)
}

// elapsed formats a duration for people.
func elapsed(d time.Duration) string {
	switch {
	case d < 10*time.Second:
		return fmt.Sprintf("%.1f s", d.Seconds())
	case d < 2*time.Minute:
		return fmt.Sprintf("%.0f s", d.Seconds())
	}
	return fmt.Sprintf("%.0f min", d.Minutes())
}

// finish plans the messages about a cell that has ended.
func (c *chat) finish(ctx context.Context, id string, all []saying, more func(*chats.Tx) error) error {
	c.forget(id)
	defer c.results.wake()
	return c.do(ctx, func(tx *chats.Tx) error {
		kept, ok, err := tx.Cell(id)
		if err != nil || !ok {
			return err
		}
		kept.Done = true
		err = errors.Join(tx.PutCell(c.key, kept), c.say(tx, "result:"+id, all...))
		if more != nil {
			err = errors.Join(err, more(tx))
		}
		return err
	})
}

// typing shows that the bot is at work until ctx ends, while a cell runs that takes longer than a moment.
func (c *chat) typing(ctx context.Context) {
	for ctx.Err() == nil {
		select {
		case <-c.began:
		case <-ctx.Done():
			return
		}
		for sleep(ctx, progressAfter); c.busy() && ctx.Err() == nil; sleep(ctx, typingEvery) {
			c.showTyping(ctx)
		}
	}
}

// showTyping shows it once. The end of ctx does not break a request off in the middle.
func (c *chat) showTyping(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), typingTime)
	defer cancel()
	if err := c.bot.Platform.Typing(ctx, c.at); err != nil {
		c.log.DebugContext(ctx, "typing cannot be shown", "error", err)
	}
}

// codeOf returns the code of a refusal, "" for other errors.
func codeOf(err error) api.Code {
	var refused *api.Error
	if errors.As(err, &refused) {
		return refused.Code
	}
	return ""
}
