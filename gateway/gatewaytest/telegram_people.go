package gatewaytest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
)

type webhook struct{ url, secret string }

func asLarge(err error, target **http.MaxBytesError) bool { return errors.As(err, target) }

// Say sends a text as a user and returns the update's id. A negative chat is a group.
func (f *Telegram) Say(chat, user int64, text string) int {
	return f.Post(Message{Chat: chat, From: user, Text: text, Kind: "text"})
}

// Upload sends a document as a user, under any name, and returns the update's id.
func (f *Telegram) Upload(chat, user int64, file File, caption string) int {
	return f.Post(Message{Chat: chat, From: user, Text: caption, Kind: "document", File: file})
}

// Post sends any message as a person, or as another bot with FromBot set, and returns the update's id.
func (f *Telegram) Post(m Message) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.chats[m.Chat] == nil {
		kind := "private"
		if m.Chat < 0 {
			kind = "supergroup"
		}
		f.chats[m.Chat] = &telegramChat{id: m.Chat, kind: kind}
	}
	if m.Kind == "document" {
		m.File.ID = fmt.Sprintf("file%d", f.next)
		f.files[m.File.ID] = m.File
	}
	return f.push("message", f.add(&m))
}

// Press presses the button with the given text, and reports false when the message has none.
func (f *Telegram) Press(m Message, user int64, text string) (*Press, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	current := f.find(m.Chat, m.ID)
	if current == nil {
		return nil, false
	}
	for _, b := range slices.Concat(current.Buttons...) {
		if b.Text == text {
			p := &Press{ID: fmt.Sprintf("press%d", len(f.presses)+1)}
			f.presses[p.ID] = p
			f.push("callback_query", map[string]any{"id": p.ID, "from": person(user, false), "message": f.wire(current), "chat_instance": "1", "data": b.Data})
			return p, true
		}
	}
	return nil, false
}

// Redeliver queues a past update again under its old id, as Telegram does after a lost answer.
func (f *Telegram) Redeliver(id int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, u := range f.updates {
		if u.id == id {
			f.again = append(f.again, u)
			f.deliver(u)
			return
		}
	}
}

// Script queues faults for the next calls of a method, one each.
func (f *Telegram) Script(method string, faults ...Fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.faults[method] = append(f.faults[method], faults...)
}

// Block makes the bot's calls to a chat fail with 403 until it is unblocked.
func (f *Telegram) Block(chat int64, blocked bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.chats[chat].blocked = blocked
}

// Messages returns a copy of the record of one chat, oldest first, without deleted messages.
func (f *Telegram) Messages(chat int64) []Message {
	f.mu.Lock()
	defer f.mu.Unlock()
	var all []Message
	for _, m := range f.messages {
		if m.Chat == chat && !m.Deleted {
			all = append(all, copied(m))
		}
	}
	return all
}

// Calls returns a copy of all calls except getUpdates.
func (f *Telegram) Calls() []Call {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.calls)
}

// Wait returns the first message of the bot that matches, waiting until there is one or ctx ends.
func (f *Telegram) Wait(ctx context.Context, match func(Message) bool) (Message, error) {
	for {
		f.mu.Lock()
		changed := f.changed
		for _, m := range f.messages {
			if shown := copied(m); m.FromBot && !m.Deleted && match(shown) {
				f.mu.Unlock()
				return shown, nil
			}
		}
		f.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return Message{}, fmt.Errorf("wait for a message: %w", context.Cause(ctx))
		}
	}
}

// WaitCalls waits until the bot has made n calls of a method.
func (f *Telegram) WaitCalls(ctx context.Context, method string, n int) error {
	for {
		f.mu.Lock()
		changed, found := f.changed, 0
		for _, call := range f.calls {
			if call.Method == method {
				found++
			}
		}
		f.mu.Unlock()
		if found >= n {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("wait for %d calls of %s: %w", n, method, context.Cause(ctx))
		}
	}
}

func copied(m *Message) Message {
	c := *m
	c.Edits, c.Buttons = slices.Clone(m.Edits), slices.Clone(m.Buttons)
	return c
}

// push queues an update and returns its id. The caller holds mu.
func (f *Telegram) push(kind string, body map[string]any) int {
	id := 1000
	for _, u := range f.updates {
		id = max(id, u.id+1)
	}
	u := update{id, map[string]any{"update_id": id, kind: body}}
	f.updates = append(f.updates, u)
	f.deliver(u)
	return id
}

// deliver wakes the poll, or posts to the webhook without waiting for its answer.
func (f *Telegram) deliver(u update) {
	f.signal()
	if f.hook.url == "" {
		return
	}
	body, _ := json.Marshal(u.body)
	hook := f.hook
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		q, err := http.NewRequestWithContext(ctx, http.MethodPost, hook.url, bytes.NewReader(body))
		if err != nil {
			return
		}
		q.Header.Set("Content-Type", "application/json")
		q.Header.Set("X-Telegram-Bot-Api-Secret-Token", hook.secret)
		if r, err := http.DefaultClient.Do(q); err == nil {
			r.Body.Close()
		}
	}()
}

// getUpdates is the long poll: an offset confirms everything before it, and a second poll ends the first.
func (f *Telegram) getUpdates(ctx context.Context, q request) (any, *refusal) {
	f.mu.Lock()
	if f.hook.url != "" {
		f.mu.Unlock()
		return nil, refuse(409, "Conflict: can't use getUpdates method while webhook is active; use deleteWebhook to delete the webhook first")
	}
	if f.polling != nil {
		close(f.polling)
	}
	mine := make(chan struct{})
	f.polling = mine
	f.mu.Unlock()
	defer func() {
		f.mu.Lock()
		if f.polling == mine {
			f.polling = nil
		}
		f.mu.Unlock()
	}()
	timeout := time.NewTimer(time.Duration(q.int("timeout")) * time.Second)
	defer timeout.Stop()
	for {
		f.mu.Lock()
		pending, changed := f.pending(int(q.int("offset"))), f.changed
		f.mu.Unlock()
		if len(pending) > 0 {
			return pending, nil
		}
		select {
		case <-changed:
		case <-mine:
			return nil, refuse(409, "Conflict: terminated by other getUpdates request; make sure that only one bot instance is running")
		case <-timeout.C:
			return pending, nil
		case <-ctx.Done():
			return pending, nil
		case <-f.stop:
			return pending, nil
		}
	}
}

// pending returns what a poll at an offset gets. The caller holds mu.
func (f *Telegram) pending(offset int) []map[string]any {
	f.seen = max(f.seen, offset)
	pending := []map[string]any{}
	for _, u := range f.again {
		pending = append(pending, u.body)
	}
	f.again = nil
	for _, u := range f.updates {
		if u.id >= f.seen && len(pending) < 100 {
			pending = append(pending, u.body)
		}
	}
	return pending
}

func (f *Telegram) setWebhook(q request) (any, *refusal) {
	if strings.Trim(q.fields["secret_token"], "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") != "" {
		return nil, bad("secret token contains unallowed characters")
	}
	f.hook = webhook{q.fields["url"], q.fields["secret_token"]}
	return true, nil
}

func (f *Telegram) deleteWebhook(request) (any, *refusal) {
	f.hook = webhook{}
	return true, nil
}

func (f *Telegram) answerPress(q request) (any, *refusal) {
	p := f.presses[q.fields["callback_query_id"]]
	if p == nil || p.Answered {
		return nil, bad("query is too old and response timeout expired or query ID is invalid")
	}
	if units(q.fields["text"]) > 200 {
		return nil, bad("MESSAGE_TOO_LONG")
	}
	p.Answered, p.Toast, p.Alert = true, q.fields["text"], q.fields["show_alert"] == "true"
	return true, nil
}

func person(id int64, bot bool) map[string]any {
	return map[string]any{"id": id, "is_bot": bot, "first_name": fmt.Sprintf("User %d", id)}
}

// wire shows a message as the Bot API does.
func (f *Telegram) wire(m *Message) map[string]any {
	from := person(m.From, m.FromBot)
	if m.FromBot && m.From == 0 {
		from = map[string]any{"id": 123456, "is_bot": true, "first_name": "Talaria", "username": "talaria_bot"}
	}
	w := map[string]any{
		"message_id": m.ID, "date": m.At.Unix(), "from": from,
		"chat": map[string]any{"id": m.Chat, "type": f.chats[m.Chat].kind},
	}
	if m.Thread != 0 {
		w["message_thread_id"], w["is_topic_message"] = m.Thread, true
	}
	if to := f.find(m.Chat, m.ReplyTo); to != nil {
		short := *to
		short.ReplyTo = 0
		w["reply_to_message"] = f.wire(&short)
	}
	if m.Kind == "text" {
		w["text"] = m.Text
		if command, _, _ := strings.Cut(m.Text, " "); strings.HasPrefix(command, "/") {
			w["entities"] = []any{map[string]any{"type": "bot_command", "offset": 0, "length": units(command)}}
		} else if strings.HasPrefix(command, "@") {
			w["entities"] = []any{map[string]any{"type": "mention", "offset": 0, "length": units(command)}}
		}
		return w
	}
	file := map[string]any{"file_id": m.File.ID, "file_unique_id": m.File.ID, "file_size": m.File.size(), "file_name": m.File.Name}
	w["caption"], w[m.Kind] = m.Text, file
	if m.Kind == "photo" {
		w["photo"] = []any{file}
	}
	if m.Album != "" {
		w["media_group_id"] = m.Album
	}
	return w
}
