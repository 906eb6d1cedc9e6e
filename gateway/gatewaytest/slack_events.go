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

// Send waits for a Socket Mode connection, sends an envelope with a payload and waits for its
// acknowledgement. It returns an error when ctx ends, or when the acknowledgement took over 3 s.
func (f *Slack) Send(ctx context.Context, kind string, payload map[string]any) error {
	var id string
	for {
		f.mu.Lock()
		changed := f.changed
		if id == "" && f.socket != nil {
			id = fmt.Sprintf("envelope%d", len(f.sent)+1)
			f.sent[id] = f.now()
			err := f.socket.WriteJSON(map[string]any{"type": kind, "envelope_id": id, "payload": payload})
			if err != nil {
				f.mu.Unlock()
				return fmt.Errorf("send an envelope: %w", err)
			}
		}
		took, acked := f.acks[id]
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

// serveFile is url_private: it needs the bot's token.
func (f *Slack) serveFile(w http.ResponseWriter, r *http.Request, id string) {
	f.mu.Lock()
	file := f.files[id]
	f.mu.Unlock()
	if file == nil || r.Header.Get("Authorization") != "Bearer "+f.BotToken {
		http.Error(w, "not allowed", http.StatusForbidden)
		return
	}
	_, _ = w.Write(file.Data)
}
