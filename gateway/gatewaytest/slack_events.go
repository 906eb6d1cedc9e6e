package gatewaytest

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/gorilla/websocket"
)

func (f *Slack) openConnection(slackFields) (map[string]any, string) {
	return map[string]any{"url": "ws" + f.server.URL[len("http"):] + "/socket"}, ""
}

// serveSocket is Socket Mode: it greets, then records when each envelope was acknowledged.
// A new connection replaces the one before.
func (f *Slack) serveSocket(w http.ResponseWriter, r *http.Request) {
	up := websocket.Upgrader{CheckOrigin: func(*http.Request) bool { return true }} // slack-go sends Slack's own origin
	conn, err := up.Upgrade(w, r, nil)
	if err != nil {
		return
	}
	defer conn.Close()
	f.mu.Lock()
	if f.socket != nil {
		f.socket.Close()
	}
	f.socket = conn
	_ = conn.WriteJSON(map[string]any{"type": "hello", "num_connections": 1})
	f.signal()
	f.mu.Unlock()
	defer func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.socket == conn {
			f.socket = nil
			f.signal()
		}
	}()
	for {
		var ack struct {
			ID string `json:"envelope_id"`
		}
		if err := conn.ReadJSON(&ack); err != nil {
			return
		}
		f.mu.Lock()
		if at, ok := f.sent[ack.ID]; ok {
			if _, twice := f.acks[ack.ID]; !twice {
				f.acks[ack.ID] = f.now().Sub(at)
			}
		}
		f.signal()
		f.mu.Unlock()
	}
}

// Send waits for a Socket Mode connection, sends an envelope with a payload and waits for its acknowledgement; if the connection
// ends before that, it sends the payload again over the next one. It returns an error when ctx ends, or when the acknowledgement took
// over 3 s.
func (f *Slack) Send(ctx context.Context, kind string, payload map[string]any) error {
	var id string
	var over *websocket.Conn
	for {
		f.mu.Lock()
		changed := f.changed
		took, acked := f.acks[id]
		if !acked && f.socket != nil && f.socket != over {
			over = f.socket
			id = fmt.Sprintf("envelope%d", len(f.sent)+1)
			f.sent[id] = f.now()
			_ = over.WriteJSON(map[string]any{"type": kind, "envelope_id": id, "payload": payload}) // a broken connection is replaced
		}
		f.mu.Unlock()
		if acked && took > slackAck {
			return fmt.Errorf("the acknowledgement took %s, Slack allows %s", took, slackAck)
		}
		if acked {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("wait for an acknowledgement: %w", context.Cause(ctx))
		}
	}
}

// Message records a user's message and returns the payload of its event, for Send or PostEvent.
func (f *Slack) Message(channel, user, thread, text string) map[string]any {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.channels[channel] = true
	m := &SlackMessage{Channel: channel, User: user, Thread: thread, Text: text}
	f.add(m)
	event := map[string]any{
		"type": "message", "channel": channel, "user": user, "text": text, "ts": m.TS,
		"client_msg_id": "msg" + m.TS, "channel_type": map[bool]string{true: "im", false: "channel"}[channel[0] == 'D'],
	}
	if thread != "" {
		event["thread_ts"] = thread
	}
	return map[string]any{"type": "event_callback", "team_id": "T1", "event_id": "Ev" + m.TS, "event_time": f.now().Unix(), "event": event}
}

// Upload records a message with a file of a user, and returns the payload of its event.
func (f *Slack) Upload(channel, user, thread, text string, file File) map[string]any {
	payload := f.Message(channel, user, thread, text)
	f.mu.Lock()
	defer f.mu.Unlock()
	file.ID = fmt.Sprintf("F%d", len(f.files)+1)
	f.files[file.ID] = &slackFile{File: file, length: len(file.Data), uploaded: true, shared: true}
	m := f.messages[len(f.messages)-1]
	m.Files = []File{file}
	event := payload["event"].(map[string]any)
	event["subtype"] = "file_share"
	event["files"] = []any{map[string]any{
		"id": file.ID, "name": file.Name, "size": max(file.Declared, int64(len(file.Data))), "url_private_download": f.server.URL + "/files/" + file.ID,
	}}
	return payload
}

// Press returns the payload of a press of a button of a message, and false if the message has no such button.
func (f *Slack) Press(m SlackMessage, user, label string) (map[string]any, bool) {
	for _, b := range m.Blocks {
		for _, e := range b.Elements {
			if labelOf(e.Text) != label {
				continue
			}
			f.mu.Lock()
			defer f.mu.Unlock()
			f.next++
			message := map[string]any{"ts": m.TS}
			if m.Thread != "" {
				message["thread_ts"] = m.Thread
			}
			return map[string]any{
				"type": "block_actions", "user": map[string]any{"id": user, "username": "name-of-" + user}, "channel": map[string]any{"id": m.Channel},
				"message": message, "actions": []any{map[string]any{"value": e.Value, "action_ts": fmt.Sprintf("%d.%06d", f.now().Unix(), f.next)}},
			}, true
		}
	}
	return nil, false
}

// labelOf returns the text of a button.
func labelOf(raw json.RawMessage) string {
	var text struct{ Text string }
	_ = json.Unmarshal(raw, &text)
	return text.Text
}

// Sign returns the headers of an HTTP event that was sent at a time.
func (f *Slack) Sign(body []byte, at time.Time) http.Header {
	stamp := strconv.FormatInt(at.Unix(), 10)
	mac := hmac.New(sha256.New, []byte(f.Secret))
	mac.Write([]byte("v0:" + stamp + ":"))
	mac.Write(body)
	return http.Header{
		"Content-Type":              {"application/json"},
		"X-Slack-Request-Timestamp": {stamp},
		"X-Slack-Signature":         {"v0=" + hex.EncodeToString(mac.Sum(nil))},
	}
}

// PostEvent sends a signed HTTP event and returns the status. Over 3 s is an error.
func (f *Slack) PostEvent(ctx context.Context, url string, payload map[string]any) (int, error) {
	body, err := json.Marshal(payload)
	if err != nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, slackAck, errors.New("no answer within Slack's 3 seconds"))
	defer cancel()
	q, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return 0, err
	}
	q.Header = f.Sign(body, f.now())
	r, err := http.DefaultClient.Do(q)
	if err != nil {
		return 0, err
	}
	r.Body.Close()
	return r.StatusCode, nil
}
