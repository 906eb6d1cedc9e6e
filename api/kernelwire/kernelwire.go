// Package kernelwire has what both ends of the WebSocket of a Jupyter kernel agree on: the name of its binary framing, the frames, and
// the ids of kernels and of messages.
package kernelwire

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"talaria/api"
)

// Subprotocol names the framing of Join and Split.
const Subprotocol = "v1.kernel.websocket.jupyter.org"

// Parts is the number of parts that each frame has: the channel, and header, parent header, metadata and content as JSON. Buffers
// follow.
const Parts = 5

// ErrFrame reports what is not a frame of a kernel message.
var ErrFrame = errors.New("the frame is not a kernel message")

// Join makes a frame: the number of offsets, the offsets of the parts and of the end, and the parts. Integers have 64 bits, the lowest
// byte first.
func Join(parts [][]byte) []byte {
	at := 8 * uint64(len(parts)+2)
	size := at
	for _, part := range parts {
		size += uint64(len(part))
	}
	data := make([]byte, 0, size)
	data = binary.LittleEndian.AppendUint64(data, uint64(len(parts)+1))
	data = binary.LittleEndian.AppendUint64(data, at)
	for _, part := range parts {
		at += uint64(len(part))
		data = binary.LittleEndian.AppendUint64(data, at)
	}
	for _, part := range parts {
		data = append(data, part...)
	}
	return data
}

// Split is the reverse of Join. It returns ErrFrame if there are fewer than Parts, or more offsets than most. The parts share the
// memory of data.
func Split(data []byte, most uint64) ([][]byte, error) {
	if len(data) < 8 {
		return nil, ErrFrame
	}
	n := binary.LittleEndian.Uint64(data)
	if n < Parts+1 || n > most || 8*(n+1) > uint64(len(data)) {
		return nil, ErrFrame
	}
	offsets := make([]uint64, n)
	for i := range offsets {
		offsets[i] = binary.LittleEndian.Uint64(data[8*(i+1):])
	}
	return Cut(data, offsets)
}

// Cut returns what is between each offset and the next one, or ErrFrame if the offsets do not ascend within data.
func Cut(data []byte, offsets []uint64) ([][]byte, error) {
	parts := make([][]byte, len(offsets)-1)
	for i := range parts {
		if offsets[i] > offsets[i+1] || offsets[i+1] > uint64(len(data)) {
			return nil, ErrFrame
		}
		parts[i] = data[offsets[i]:offsets[i+1]]
	}
	return parts, nil
}

// Clients take an id for a kernel's only in the form of a UUID: five words with hyphens between them. Another session's id is
// written in hexadecimal as the fifth word.
var uuidLike = regexp.MustCompile(`^\w+-\w+-\w+-\w+-\w+$`)

const encodedID = "session-id-in-hex-"

// KernelID returns the id of a session's kernel.
func KernelID(session string) string {
	if uuidLike.MatchString(session) && !strings.HasPrefix(session, encodedID) {
		return session
	}
	return encodedID + hex.EncodeToString([]byte(session))
}

// SessionID is the reverse of KernelID; ok is false if there can be no such session.
func SessionID(kernel string) (id string, ok bool) {
	if word, encoded := strings.CutPrefix(kernel, encodedID); encoded {
		b, err := hex.DecodeString(word)
		return string(b), err == nil && api.ValidID(string(b))
	}
	return kernel, api.ValidID(kernel)
}

// Position is a message's place among those that a session's log becomes: its event, and which one of the event's messages it is,
// from 0. The zero value is before all of them.
type Position struct {
	Seq   int64
	Index int
}

// After reports whether p comes later than other.
func (p Position) After(other Position) bool {
	return p.Seq > other.Seq || p.Seq == other.Seq && p.Index > other.Index
}

// MessageID returns the id of the message at a position of a log. It is the same whenever the message is sent, so that a client that
// gets it twice can tell.
func MessageID(logID string, p Position) string {
	return fmt.Sprintf("%s.%d.%d", logID, p.Seq, p.Index)
}

// ParseMessageID is the reverse of MessageID; ok is false for the ids of other messages.
func ParseMessageID(id string) (logID string, p Position, ok bool) {
	logID, rest, _ := strings.Cut(id, ".")
	if _, err := fmt.Sscanf(rest, "%d.%d", &p.Seq, &p.Index); err != nil || id != MessageID(logID, p) {
		return "", Position{}, false
	}
	return logID, p, true
}
