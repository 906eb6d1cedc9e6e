package jupyter

import (
	"encoding/binary"
	"encoding/json"
	"fmt"

	"github.com/google/uuid"

	"talaria/api"
	"talaria/api/kernelwire"
)

// protocolVersion is the version of the messages.
const protocolVersion = "5.3"

// binaryProtocol is the subprotocol of the newer framing; without it messages are text, or binary where they have buffers.
const binaryProtocol = kernelwire.Subprotocol

// Channels of a kernel. Control has only requests, whose replies go where they came from.
const (
	shell = "shell"
	stdin = "stdin"
	iopub = "iopub"
)

// header names a message. Clients leave fields out, and reject messages in which we do.
type header struct {
	MsgID    string `json:"msg_id"`
	Session  string `json:"session"`
	Username string `json:"username"`
	Date     string `json:"date"`
	MsgType  string `json:"msg_type"`
	Version  string `json:"version"`
}

// message is one message of a kernel, either way.
type message struct {
	channel  string
	header   header
	parent   api.Raw // the whole header of the request that it answers or belongs to; nil: none
	metadata api.Raw
	content  api.Raw
	buffers  [][]byte
	head     api.Raw // of a request: its header as it came
}

// maxHeader bounds the header of a request, which every answer repeats.
const maxHeader = 2 << 10

// maxBuffers bounds the number of buffers of a message.
const maxBuffers = 1024

var errFrame = kernelwire.ErrFrame

// wireMessage is a message as the text framing has it.
type wireMessage struct {
	Header       api.Raw `json:"header"`
	MsgID        string  `json:"msg_id,omitempty"`
	MsgType      string  `json:"msg_type,omitempty"`
	ParentHeader api.Raw `json:"parent_header"`
	Metadata     api.Raw `json:"metadata"`
	Content      api.Raw `json:"content"`
	Buffers      api.Raw `json:"buffers"` // text has none: always empty; AutoGen writes {} for it
	Channel      string  `json:"channel"`
}

// decode reads a message in the framing that the socket speaks.
func decode(v1, binary bool, data []byte) (m message, err error) {
	var w wireMessage
	switch {
	case v1 && !binary:
		return m, fmt.Errorf("%w: %s has binary frames only", errFrame, binaryProtocol)
	case v1:
		if w, m.buffers, err = splitV1(data); err != nil {
			return m, err
		}
	case binary:
		var text []byte
		if text, m.buffers, err = splitBinary(data); err != nil {
			return m, err
		}
		data = text
		fallthrough
	default:
		if err := json.Unmarshal(data, &w); err != nil {
			return m, fmt.Errorf("%w: %v", errFrame, err)
		}
	}
	if len(w.Header) > maxHeader {
		return m, fmt.Errorf("%w: its header has more than %d bytes", errFrame, maxHeader)
	}
	var named struct { // what else a header has is as the client likes: a date, for example, text or a number
		MsgID   string `json:"msg_id"`
		Session string `json:"session"`
		MsgType string `json:"msg_type"`
	}
	if err := json.Unmarshal(w.Header, &named); err != nil {
		return m, fmt.Errorf("%w: its header: %v", errFrame, err)
	}
	m.header = header{MsgID: named.MsgID, Session: named.Session, MsgType: named.MsgType}
	if m.header.MsgID == "" || m.header.MsgType == "" {
		return m, fmt.Errorf("%w: its header has no msg_id or no msg_type", errFrame)
	}
	m.channel, m.head, m.parent, m.metadata, m.content = w.Channel, w.Header, w.ParentHeader, w.Metadata, w.Content
	if m.channel == "" { // some clients say none
		m.channel = shell
	}
	return m, nil
}

// splitBinary splits a binary frame of the older framing: the number of parts, their offsets, the JSON, and the buffers.
func splitBinary(data []byte) (text []byte, buffers [][]byte, err error) {
	if len(data) < 4 {
		return nil, nil, errFrame
	}
	n := int64(binary.BigEndian.Uint32(data))
	if n < 1 || n > maxBuffers || 4*(n+1) > int64(len(data)) {
		return nil, nil, errFrame
	}
	offsets := make([]uint64, 0, n+1)
	for i := range n {
		offsets = append(offsets, uint64(binary.BigEndian.Uint32(data[4*(i+1):])))
	}
	parts, err := kernelwire.Cut(data, append(offsets, uint64(len(data))))
	if err != nil {
		return nil, nil, err
	}
	return parts[0], parts[1:], nil
}

// splitV1 splits a frame of the newer framing.
func splitV1(data []byte) (w wireMessage, buffers [][]byte, err error) {
	parts, err := kernelwire.Split(data, maxBuffers)
	if err != nil {
		return w, nil, err
	}
	w = wireMessage{Channel: string(parts[0]), Header: parts[1], ParentHeader: parts[2], Metadata: parts[3], Content: parts[4]}
	return w, parts[kernelwire.Parts:], nil
}

// orEmpty is JSON, or an empty object.
func orEmpty(raw api.Raw) api.Raw {
	if len(raw) == 0 {
		return api.Raw("{}")
	}
	return raw
}

// encode writes a message in the framing that the socket speaks. A message without buffers is text in the older one: some
// clients take every frame for text.
func (m message) encode(v1 bool) (data []byte, binary bool, err error) {
	head, err := api.Marshal(m.header)
	if err != nil {
		return nil, false, err
	}
	if v1 {
		return kernelwire.Join(append([][]byte{[]byte(m.channel), head, orEmpty(m.parent), orEmpty(m.metadata), orEmpty(m.content)}, m.buffers...)), true, nil
	}
	data, err = api.Marshal(wireMessage{Header: head, MsgID: m.header.MsgID, MsgType: m.header.MsgType, ParentHeader: orEmpty(m.parent),
		Metadata: orEmpty(m.metadata), Content: orEmpty(m.content), Buffers: api.Raw("[]"), Channel: m.channel})
	if err != nil || len(m.buffers) == 0 {
		return data, false, err
	}
	return joinBinary(append([][]byte{data}, m.buffers...)), true, nil
}

// joinBinary is the reverse of splitBinary.
func joinBinary(parts [][]byte) []byte {
	at := 4 * uint32(len(parts)+1)
	size := int(at)
	for _, part := range parts {
		size += len(part)
	}
	data := make([]byte, 0, size)
	data = binary.BigEndian.AppendUint32(data, uint32(len(parts)))
	for _, part := range parts {
		data = binary.BigEndian.AppendUint32(data, at)
		at += uint32(len(part))
	}
	for _, part := range parts {
		data = append(data, part...)
	}
	return data
}

func newID() string { return uuid.NewString() }
