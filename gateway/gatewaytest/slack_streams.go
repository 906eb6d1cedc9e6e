package gatewaytest

import (
	"encoding/json"
	"strings"
	"unicode/utf8"
)

// streamChunks reads the chunks of a streaming call: markdown and blocks.
func streamChunks(q slackFields) (text string, blocks []SlackBlock, refused string) {
	text = q["markdown_text"]
	var chunks []struct {
		Type, Text string
		Blocks     []SlackBlock
	}
	if raw := q["chunks"]; raw != "" && json.Unmarshal([]byte(raw), &chunks) != nil {
		return "", nil, "invalid_chunks"
	}
	for _, c := range chunks {
		switch c.Type {
		case "markdown_text":
			text += c.Text
		case "blocks":
			blocks = append(blocks, c.Blocks...)
		default:
			return "", nil, "invalid_chunks"
		}
	}
	if utf8.RuneCountInString(text) > slackStream {
		return "", nil, "msg_too_long"
	}
	return text, blocks, checkBlocks(blocks)
}

// startStream begins a message that grows. As apps have found out, Slack wants a thread of a direct message.
func (f *Slack) startStream(q slackFields) (map[string]any, string) {
	text, blocks, refused := streamChunks(q)
	switch {
	case refused != "":
		return nil, refused
	case !f.channels[q["channel"]]:
		return nil, "channel_not_found"
	case q["channel"][0] != 'D':
		return nil, "channel_type_not_supported"
	case q["thread_ts"] == "":
		return nil, "invalid_arguments"
	}
	m := &SlackMessage{Channel: q["channel"], Thread: q["thread_ts"], Text: text, Blocks: blocks, Streams: true, Streamed: []string{text}}
	f.add(m)
	return map[string]any{"channel": m.Channel, "ts": m.TS}, ""
}

func (f *Slack) appendStream(q slackFields) (map[string]any, string) {
	text, blocks, refused := streamChunks(q)
	m := f.find(q["channel"], q["ts"])
	switch {
	case refused != "":
		return nil, refused
	case m == nil:
		return nil, "message_not_found"
	case !m.Streams:
		return nil, "message_not_in_streaming_state"
	case text == "" && len(blocks) == 0:
		return nil, "no_text"
	}
	m.Text, m.Blocks, m.Streamed = m.Text+text, append(m.Blocks, blocks...), append(m.Streamed, text)
	return map[string]any{"channel": m.Channel, "ts": m.TS}, ""
}

func (f *Slack) stopStream(q slackFields) (map[string]any, string) {
	m := f.find(q["channel"], q["ts"])
	switch {
	case m == nil:
		return nil, "message_not_found"
	case !m.Streams:
		return nil, "message_not_in_streaming_state"
	}
	m.Streams = false
	return map[string]any{"channel": m.Channel, "ts": m.TS}, ""
}

// EndStreams ends all streams, as Slack does with those to which nothing was appended for some minutes.
func (f *Slack) EndStreams() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, m := range f.messages {
		m.Streams = false
	}
}

func (f *Slack) history(q slackFields) (map[string]any, string) {
	return f.list(q, func(m *SlackMessage) bool { return m.Thread == "" || m.Thread == m.TS })
}

func (f *Slack) replies(q slackFields) (map[string]any, string) {
	if q["ts"] == "" {
		return nil, "invalid_arguments"
	}
	return f.list(q, func(m *SlackMessage) bool { return m.Thread == q["ts"] || m.TS == q["ts"] })
}

// list shows messages of a channel that are newer than oldest.
func (f *Slack) list(q slackFields, match func(*SlackMessage) bool) (map[string]any, string) {
	if !f.channels[q["channel"]] {
		return nil, "channel_not_found"
	}
	shown := []any{}
	for _, m := range f.messages {
		if m.Channel != q["channel"] || m.Deleted || m.TS <= q["oldest"] || !match(m) {
			continue
		}
		w := map[string]any{"type": "message", "ts": m.TS, "user": m.User, "text": m.Text}
		if m.User == "" {
			w["user"], w["bot_id"] = "UBOT", "BBOT"
		}
		if m.Thread != "" {
			w["thread_ts"] = m.Thread
		}
		if len(m.Metadata) > 0 && strings.HasPrefix(q["include_all_metadata"], "1") {
			w["metadata"] = m.Metadata
		}
		var files []any
		for _, file := range m.Files {
			files = append(files, map[string]any{"id": file.ID, "name": file.Name})
		}
		if files != nil {
			w["files"] = files
		}
		shown = append(shown, w)
	}
	return map[string]any{"messages": shown, "has_more": false}, ""
}
