package gateway

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"talaria/api"
	"talaria/client"
	"talaria/gateway/render"
	"talaria/store/chats"
)

const (
	uploadTries = 3                       // of one file
	uploadPause = 1500 * time.Millisecond // after the first try; after the second, twice as long
	partingTime = 3 * time.Second         // when the bot ends: for what is being sent, and then for the last edits
)

// saying is a row of the outbox: a message, and what it is for.
type saying struct {
	Message
	// Cell is the cell that this is about. Progress is the message that shows how far the cell is; a Result replaces it.
	Cell     string `json:"cell,omitzero"`
	Progress bool   `json:"progress,omitzero"`
	Result   bool   `json:"result,omitzero"`
	// Removes: it has no text; the message that it would replace is deleted, if there is one.
	Removes bool `json:"removes,omitzero"`
	// Replaces is the key of a row whose message this one replaces.
	Replaces string `json:"replaces,omitzero"`

	// Where the files come from: one of these.
	Artifacts []api.RenderArtifact `json:"artifacts,omitzero"`
	File      string               `json:"file,omitzero"` // of the session's workspace
	Notebook  bool                 `json:"notebook,omitzero"`
	AsPhotos  bool                 `json:"as_photos,omitzero"`
	// Done counts the files that were sent one by one.
	Done int `json:"done,omitzero"`
	// Notice: it stands for a message that the platform rejected.
	Notice bool `json:"notice,omitzero"`
}

// plain returns a message without markup.
func plain(format string, args ...any) saying {
	return saying{Message: Message{Text: fmt.Sprintf(format, args...), Format: api.RenderUnformatted}}
}

// say adds messages to the outbox as part of a change. Their keys are the given one with a number.
func (c *chat) say(tx *chats.Tx, key string, all ...saying) error {
	for i, s := range all {
		if _, err := tx.Say(c.key, fmt.Sprintf("%s/%d", key, i), encoded(s)); err != nil {
			return err
		}
	}
	c.outbox.wake() // its next read waits for this change
	return nil
}

// sendAll sends what is planned, in order, and previews while nothing is planned.
func (c *chat) sendAll(ctx context.Context) {
	for ctx.Err() == nil {
		var next chats.Row
		var found bool
		if c.do(ctx, func(tx *chats.Tx) (err error) { next, found, err = tx.NextRow(c.key); return err }) != nil {
			break
		}
		if found {
			c.send(ctx, next)
			continue
		}
		c.preview(ctx)
	}
	c.part()
}

// sending is one row on its way.
type sending struct {
	row     chats.Row
	saying  saying
	message string // to edit; "" for a new one
	plain   bool   // the markup was rejected
	unknown bool   // it may have arrived already
	tries   int
	// unopened is why the server did not give a file in the last attempt, which then sent nothing.
	unopened error
}

// send sends a row, and tries again until the row is settled.
func (c *chat) send(ctx context.Context, row chats.Row) {
	s := &sending{row: row, saying: decoded[saying](row.Body), unknown: row.State == chats.Sending}
	var retry backoff
	for ctx.Err() == nil {
		if c.target(ctx, s) != nil {
			return
		}
		if s.saying.Removes && s.message == "" {
			_ = c.do(ctx, func(tx *chats.Tx) error { return tx.SetRow(row.N, chats.Sent, "") })
			return
		}
		m, err := c.compose(s)
		if err == nil && s.unknown {
			var found bool
			if found, err = c.find(ctx, s, m); found {
				return
			}
		}
		if err == nil {
			err = c.attempt(ctx, s, m)
		}
		if err == nil || ctx.Err() != nil || c.settle(ctx, s, err) {
			return
		}
		switch r := (*RetryError)(nil); {
		case errors.As(err, &r): // the pace has it
		case s.tries > 0 && s.files():
			sleep(ctx, time.Duration(s.tries)*uploadPause)
		default:
			retry.wait(ctx, err)
		}
	}
}

// target finds which message a row replaces.
func (c *chat) target(ctx context.Context, s *sending) error {
	return c.do(ctx, func(tx *chats.Tx) error {
		s.message = ""
		key := s.saying.Replaces
		if s.saying.Result {
			key = progressKey(s.saying.Cell)
		}
		if key == "" {
			return nil
		}
		r, ok, err := tx.RowByKey(key)
		if ok {
			s.message = r.Message
		}
		return err
	})
}

// messageKey returns the key of a message of a row that has several.
func messageKey(row string, n int) string { return fmt.Sprintf("%s.%d", row, n) }

// compose makes the message of a row.
func (c *chat) compose(s *sending) (Message, error) {
	s.unopened = nil
	m := s.saying.Message
	m.Key = messageKey(s.row.Key, s.saying.Done)
	if s.plain {
		m.Text, m.Format = render.Unmarked(c.bot.Platform.Target(), m.Text), api.RenderUnformatted
	}
	m.Photos = s.saying.AsPhotos
	switch {
	case len(s.saying.Artifacts) > 0:
		for _, a := range s.saying.Artifacts {
			m.Files = append(m.Files, c.artifact(a))
		}
		if !m.Photos && len(m.Files) > 1 {
			m.Files = m.Files[s.saying.Done : s.saying.Done+1]
		}
	case s.saying.File != "":
		m.Files = []File{{Name: base(s.saying.File), Size: -1, Open: func(ctx context.Context) (io.ReadCloser, error) {
			return body(c.bot.Client.GetFile(ctx, c.session, s.saying.File))
		}}}
	case s.saying.Notebook:
		m.Files = []File{{Name: c.session + ".ipynb", MediaType: "application/x-ipynb+json", Size: -1,
			Open: func(ctx context.Context) (io.ReadCloser, error) {
				notebook, err := c.bot.Client.Notebook(ctx, c.session)
				return io.NopCloser(bytes.NewReader(notebook)), err
			}}}
	}
	limit := render.LimitsOf(c.bot.Platform.Target()).FileBytes
	for i, f := range m.Files {
		if f.Size > limit {
			return m, ErrTooLarge
		}
		m.Files[i].Open = func(ctx context.Context) (io.ReadCloser, error) {
			opened, err := f.Open(ctx)
			s.unopened = err
			return opened, err
		}
	}
	return m, nil
}

func (c *chat) artifact(a api.RenderArtifact) File {
	f := File{Name: base(a.FileName), MediaType: a.MediaType, Size: -1, Open: func(ctx context.Context) (io.ReadCloser, error) {
		return body(c.bot.Client.RenderedFile(ctx, a))
	}}
	if a.Size != nil {
		f.Size = *a.Size
	}
	return f
}

// body keeps a nil *Download from becoming a non-nil interface.
func body(d *client.Download, err error) (io.ReadCloser, error) {
	if err != nil {
		return nil, err
	}
	return d, nil
}

// attempt waits for the turn of the chat and sends a message once.
func (c *chat) attempt(ctx context.Context, s *sending, m Message) error {
	if err := c.turn(ctx, max(1, len(m.Files)), func(tx *chats.Tx) error {
		return tx.SetRow(s.row.N, chats.Sending, s.row.Message)
	}); err != nil {
		return err
	}
	id, err := s.message, error(nil)
	switch {
	case s.saying.Removes:
		err = c.bot.Platform.Delete(ctx, c.at, s.message)
	case s.message != "" && len(m.Files) == 0:
		err = c.bot.Platform.Edit(ctx, c.at, s.message, m)
	default:
		id, err = c.sendNew(ctx, m)
	}
	if err != nil {
		return err
	}
	return c.sent(ctx, s, id)
}

// sendNew sends a message. If ctx ends meanwhile, the request gets partingTime to finish, since nobody would know whether a
// message arrived whose answer was not read.
func (c *chat) sendNew(ctx context.Context, m Message) (string, error) {
	going, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(partingTime, cancel) })()
	return c.bot.Platform.Send(going, c.at, m)
}

// turn waits until a message, or an album of n, may be sent to the chat, and records that one is, together with more.
func (c *chat) turn(ctx context.Context, n int, more func(*chats.Tx) error) error {
	for ctx.Err() == nil {
		p, ok := c.bot.paces.take(c.at, n, false)
		if ok {
			return c.do(ctx, func(tx *chats.Tx) error { return errors.Join(more(tx), tx.PutPace(c.at.ID, encoded(p))) })
		}
		sleep(ctx, time.Until(c.bot.paces.ready(c.at, n, false)))
	}
	return ctx.Err()
}

// find looks for a message that may have arrived. It reports whether that settles the row.
func (c *chat) find(ctx context.Context, s *sending, m Message) (settled bool, err error) {
	finder, can := c.bot.Platform.(Finder)
	if s.message != "" || !can { // an edit can be repeated
		if s.unknown = false; !s.saying.Progress {
			return false, nil
		}
		// The result comes as a new message.
		return true, c.do(ctx, func(tx *chats.Tx) error { return tx.SetRow(s.row.N, chats.GivenUp, "") })
	}
	var last string
	if err := c.do(ctx, func(tx *chats.Tx) (err error) { last, err = tx.Last(c.key); return err }); err != nil {
		return false, err
	}
	id, err := finder.Find(ctx, c.at, last, m, func(ctx context.Context) error {
		return c.turn(ctx, 1, func(*chats.Tx) error { return nil })
	})
	if err != nil {
		return false, err
	}
	if s.unknown = false; id != "" {
		return true, c.sent(ctx, s, id)
	}
	if s.saying.Progress { // the cell may be over by now
		return true, c.do(ctx, func(tx *chats.Tx) error { return tx.DeleteRow(s.row.N) })
	}
	return false, nil
}

// sent records that a row, or one file of it, has arrived.
func (c *chat) sent(ctx context.Context, s *sending, id string) error {
	state := chats.Sent
	if n := len(s.saying.Artifacts); n > 1 && !s.saying.AsPhotos && s.saying.Done < n-1 {
		s.saying.Done++
		s.saying.Text = "" // the caption is below the first
		state = chats.Planned
	}
	// The platform has it: this must be recorded even if ctx has ended.
	return c.do(context.WithoutCancel(ctx), func(tx *chats.Tx) (err error) {
		if id != "" && id != s.message {
			err = tx.PutLast(c.key, id)
		}
		if state == chats.Planned {
			return errors.Join(err, tx.SetRowBody(s.row.N, encoded(s.saying)), tx.SetRow(s.row.N, state, ""))
		}
		return errors.Join(err, tx.SetRow(s.row.N, state, id))
	})
}

// settle handles an error. It reports whether the row is settled; otherwise there is another attempt.
func (c *chat) settle(ctx context.Context, s *sending, err error) (settled bool) {
	log := c.log.With("row", s.row.Key, "error", err)
	retry := (*RetryError)(nil)
	switch {
	case errors.As(err, &retry):
		log.InfoContext(ctx, "the platform asks to wait")
		p := c.park(retry.After)
		state := chats.Planned
		if s.unknown { // it was being looked for
			state = chats.Sending
		}
		return c.do(ctx, func(tx *chats.Tx) error {
			return errors.Join(tx.SetRow(s.row.N, state, s.row.Message), tx.PutPace(c.at.ID, encoded(p)))
		}) != nil
	case errors.Is(err, ErrSignedOut):
		c.bot.fatal(err)
		return true
	case errors.Is(err, ErrForbidden):
		log.WarnContext(ctx, "the bot may not write to the chat; its messages there are dropped")
		return c.do(ctx, func(tx *chats.Tx) error { return tx.GiveUp(c.key) }) == nil
	case errors.Is(err, ErrNoMessage):
		return c.change(ctx, s, func() { s.saying.Result, s.saying.Replaces = false, "" })
	case errors.Is(err, ErrMarkup) && !s.plain:
		s.plain = true
		return false
	case errors.Is(err, ErrMedia) && s.saying.AsPhotos:
		return c.change(ctx, s, func() { s.saying.AsPhotos = false })
	case errors.Is(err, ErrTooLarge):
		return c.change(ctx, s, func() { c.withoutFile(s, "is too large for "+c.bot.title()) })
	case refusal(err) != nil:
		return c.change(ctx, s, func() { c.withoutFile(s, "cannot be sent: "+strings.TrimSuffix(refusal(err).Detail, ".")) })
	case errors.Is(err, ErrRefused), errors.Is(err, ErrMarkup), errors.Is(err, ErrMedia):
		log.ErrorContext(ctx, "the platform rejects a message")
		switch {
		case s.files():
			return c.change(ctx, s, func() { c.withoutFile(s, "was rejected by "+c.bot.title()) })
		case !s.saying.Notice && !s.saying.Removes:
			return c.change(ctx, s, func() { c.instead(s) })
		}
		return c.do(ctx, func(tx *chats.Tx) error { return tx.SetRow(s.row.N, chats.GivenUp, "") }) == nil
	case s.unopened != nil && away(s.unopened):
		log.WarnContext(ctx, "a file waits for the server")
		s.tries = 0
		return false
	}
	s.tries++
	s.unknown = true
	log.WarnContext(ctx, "a message could not be sent; trying again", "attempt", s.tries)
	if s.tries >= uploadTries && s.files() {
		return c.change(ctx, s, func() { c.withoutFile(s, "could not be uploaded") })
	}
	return false
}

// away reports whether an error says that the server is not there at the moment. An error of the server itself may be there to stay.
func away(err error) bool {
	var answer *api.Error
	return !errors.As(err, &answer) || answer.Status >= 500 && answer.Code != api.CodeInternal
}

func (s *sending) files() bool {
	return len(s.saying.Artifacts) > 0 || s.saying.File != "" || s.saying.Notebook
}

// change changes a row, which is then tried again. It reports whether that failed.
func (c *chat) change(ctx context.Context, s *sending, how func()) (settled bool) {
	how()
	s.tries, s.unknown = 0, false
	return c.do(ctx, func(tx *chats.Tx) error { return tx.SetRowBody(s.row.N, encoded(s.saying)) }) != nil
}

// withoutFile puts words in the place of a file, or, of several, of the one whose turn it is.
func (c *chat) withoutFile(s *sending, why string) {
	target := c.bot.Platform.Target()
	var names string
	for i, a := range s.saying.Artifacts {
		if i >= s.saying.Done {
			names += render.Inline(target, base(a.FileName)) + " "
		}
	}
	switch {
	case s.saying.File != "":
		names = render.Inline(target, s.saying.File) + " "
	case s.saying.Notebook:
		names = "The notebook "
	}
	m := Message{Text: names + render.Text(target, why+"."), Format: render.FormatOf(target)}
	s.saying = saying{Message: m, Cell: s.saying.Cell}
}

// instead puts a notice in the place of a text that the platform rejects, so that its loss is visible.
func (c *chat) instead(s *sending) {
	notice := plain("A message is missing here: %s rejected it.", c.bot.title())
	notice.Cell, notice.Result, notice.Replaces = s.saying.Cell, s.saying.Result, s.saying.Replaces
	notice.Notice = true
	s.saying, s.plain = notice, false
}
