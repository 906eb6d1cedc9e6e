package zmqkernel

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
)

// delimiter ends the route of a message, and comes before its signature.
const delimiter = "<IDS|MSG>"

// jsonParts is the number of parts of a message that are JSON: header, parent header, metadata and content. Buffers follow.
const jsonParts = 4

const (
	partHeader = iota
	partParent
)

var (
	errMessage   = errors.New("not a kernel message")
	errSignature = errors.New("the signature of a message is wrong; it was not sent by a client with this connection file")
)

// key signs messages. An empty one signs nothing.
type key []byte

func (k key) sign(parts [][]byte) []byte {
	if len(k) == 0 {
		return []byte{}
	}
	mac := hmac.New(sha256.New, k)
	for _, part := range parts {
		mac.Write(part)
	}
	return hex.AppendEncode(nil, mac.Sum(nil))
}

// open splits a message of a ZeroMQ socket into its route and its parts, and checks its signature.
func (k key) open(frames [][]byte) (route, parts [][]byte, err error) {
	for i, frame := range frames {
		if !bytes.Equal(frame, []byte(delimiter)) {
			continue
		}
		if len(frames) < i+2+jsonParts {
			return nil, nil, errMessage
		}
		route, parts = frames[:i], frames[i+2:]
		if !hmac.Equal(frames[i+1], k.sign(parts[:jsonParts])) {
			return nil, nil, errSignature
		}
		return route, parts, nil
	}
	return nil, nil, errMessage
}

// seal makes a message for a ZeroMQ socket.
func (k key) seal(route, parts [][]byte) [][]byte {
	frames := append(make([][]byte, 0, len(route)+2+len(parts)), route...)
	frames = append(frames, []byte(delimiter), k.sign(parts[:jsonParts]))
	return append(frames, parts...)
}

// header is what a kernel reads of the header of a message.
type header struct {
	ID   string `json:"msg_id"`
	Type string `json:"msg_type"`
}

func readHeader(part []byte) (h header) {
	_ = json.Unmarshal(part, &h) // the server refuses what is not a header
	return h
}

// subprotocol is the framing of WebSockets that is made here: the number of offsets, the offsets of the parts and of the end, all
// as integers of 64 bits with the lowest byte first, and the parts: the channel, and those of the message.
const subprotocol = "v1.kernel.websocket.jupyter.org"

// pack makes a frame of a WebSocket.
func pack(channel string, parts [][]byte) []byte {
	all := append([][]byte{[]byte(channel)}, parts...)
	at := 8 * uint64(len(all)+2)
	frame := binary.LittleEndian.AppendUint64(nil, uint64(len(all)+1))
	frame = binary.LittleEndian.AppendUint64(frame, at)
	for _, part := range all {
		at += uint64(len(part))
		frame = binary.LittleEndian.AppendUint64(frame, at)
	}
	return append(frame, bytes.Join(all, nil)...)
}

// unpack splits a frame of a WebSocket.
func unpack(frame []byte) (channel string, parts [][]byte, err error) {
	size := uint64(len(frame))
	if size < 8 {
		return "", nil, errMessage
	}
	n := binary.LittleEndian.Uint64(frame)
	if n < 2+jsonParts || n > size/8-1 {
		return "", nil, errMessage
	}
	offset := func(i uint64) uint64 { return binary.LittleEndian.Uint64(frame[8*(i+1):]) }
	for i := range n - 1 {
		from, to := offset(i), offset(i+1)
		if from > to || to > size {
			return "", nil, errMessage
		}
		parts = append(parts, frame[from:to])
	}
	return string(parts[0]), parts[1:], nil
}
