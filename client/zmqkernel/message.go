package zmqkernel

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"math"

	"talaria/api/kernelwire"
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

// pack makes a frame of a WebSocket.
func pack(channel string, parts [][]byte) []byte {
	return kernelwire.Join(append([][]byte{[]byte(channel)}, parts...))
}

// unpack splits a frame of a WebSocket.
func unpack(frame []byte) (channel string, parts [][]byte, err error) {
	all, err := kernelwire.Split(frame, math.MaxUint64/16)
	if err != nil {
		return "", nil, err
	}
	return string(all[0]), all[1:], nil
}
