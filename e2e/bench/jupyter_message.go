package main

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
)

// jupyterProtocol is the binary framing of messages on a WebSocket: a table of offsets, then the channel, the header,
// the parent's header, the metadata and the content.
const jupyterProtocol = "v1.kernel.websocket.jupyter.org"

// message is one message of a kernel's channels.
type message struct {
	channel        string
	header, parent messageHeader
	content        json.RawMessage
}

type messageHeader struct {
	ID       string `json:"msg_id,omitempty"`
	Type     string `json:"msg_type,omitempty"`
	Session  string `json:"session,omitempty"`
	Username string `json:"username,omitempty"`
	Date     string `json:"date,omitempty"`
	Version  string `json:"version,omitempty"`
}

// textMessage is a message in the older framing.
type textMessage struct {
	Channel  string          `json:"channel"`
	Header   messageHeader   `json:"header"`
	Parent   messageHeader   `json:"parent_header"`
	Metadata struct{}        `json:"metadata"`
	Content  json.RawMessage `json:"content"`
}

func (m message) encode(asBinary bool) ([]byte, error) {
	if !asBinary {
		return json.Marshal(textMessage{Channel: m.channel, Header: m.header, Parent: m.parent, Content: m.content})
	}
	header, err := json.Marshal(m.header)
	if err != nil {
		return nil, err
	}
	parent, err := json.Marshal(m.parent)
	if err != nil {
		return nil, err
	}
	parts := [][]byte{[]byte(m.channel), header, parent, []byte("{}"), m.content}
	frame := binary.LittleEndian.AppendUint64(nil, uint64(len(parts)+1))
	offset := 8 * (len(parts) + 2)
	for _, p := range parts {
		frame = binary.LittleEndian.AppendUint64(frame, uint64(offset))
		offset += len(p)
	}
	frame = binary.LittleEndian.AppendUint64(frame, uint64(offset))
	for _, p := range parts {
		frame = append(frame, p...)
	}
	return frame, nil
}

var errFrame = errors.New("the server sent an invalid message")

func decodeMessage(frame []byte, isBinary bool) (message, error) {
	if !isBinary {
		var t textMessage
		if err := json.Unmarshal(frame, &t); err != nil {
			return message{}, fmt.Errorf("%w: %w", errFrame, err)
		}
		return message{t.Channel, t.Header, t.Parent, t.Content}, nil
	}
	parts, err := split(frame)
	if err != nil {
		return message{}, err
	}
	m := message{channel: string(parts[0]), content: parts[4]}
	if err := errors.Join(json.Unmarshal(parts[1], &m.header), json.Unmarshal(parts[2], &m.parent)); err != nil {
		return message{}, fmt.Errorf("%w: %w", errFrame, err)
	}
	return m, nil
}

// split cuts a binary frame into its parts, five at least.
func split(frame []byte) ([][]byte, error) {
	if len(frame) < 8 {
		return nil, errFrame
	}
	n := binary.LittleEndian.Uint64(frame)
	if n < 6 || n > 1000 || uint64(len(frame)) < 8*(n+1) {
		return nil, errFrame
	}
	offset := func(i uint64) uint64 { return binary.LittleEndian.Uint64(frame[8*(i+1):]) }
	var parts [][]byte
	for i := range n - 1 {
		from, to := offset(i), offset(i+1)
		if from > to || to > uint64(len(frame)) {
			return nil, errFrame
		}
		parts = append(parts, frame[from:to])
	}
	return parts, nil
}
