package record

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"slices"
	"strings"
)

// Bounds of a message of a comm.
const (
	MaxCommBytes   = 16 << 20 // its data, its metadata, and its buffers in base64
	MaxCommBuffers = 1024
	MaxCommName    = 256 // bytes of an id or of the name of a target
)

// CommAction says what a message does to its comm.
type CommAction string

// The actions.
const (
	CommOpen  CommAction = "open"
	CommSend  CommAction = "msg"
	CommClose CommAction = "close"
)

// Comm is a message of a comm: a channel between an object inside a kernel and its counterpart in a front end. Target
// names the kind of object, in a message that opens a comm. The message comes from the interpreter, and is untrusted.
type Comm struct {
	Action   CommAction
	ID       string // of the comm
	Target   string
	Data     json.RawMessage // any JSON
	Metadata map[string]json.RawMessage
	Buffers  [][]byte
}

// CommHandled reports that the interpreter has handled the front end's message that the record's ExecutionID names.
type CommHandled struct{}

func (Comm) record()        {}
func (CommHandled) record() {}

// Size returns about how many bytes the message takes as JSON.
func (c Comm) Size() int {
	size := len(c.Data)
	for name, value := range c.Metadata {
		size += len(name) + len(value) + 4
	}
	for _, b := range c.Buffers {
		size += base64.StdEncoding.EncodedLen(len(b)) + 3
	}
	return size
}

// commPrefix begins the ids of front ends' messages among those of executions. No client can choose such an id for an
// execution.
const commPrefix = "comm~"

// CommMessageID returns the id under which records and events name the front end's message with that id.
func CommMessageID(message string) string { return commPrefix + message }

// CutCommMessageID is the reverse of [CommMessageID]; ok is false for the id of an execution.
func CutCommMessageID(id string) (message string, ok bool) { return strings.CutPrefix(id, commPrefix) }

var commActions = []CommAction{CommOpen, CommSend, CommClose}

// appendComm appends the body of a Comm: the index of its action, its id, its target and its data as texts, its
// metadata as a bundle, the number of its buffers, and these as texts.
func appendComm(b []byte, c Comm) []byte {
	b = slices.Grow(b, c.Size())
	b = append(b, byte(slices.Index(commActions, c.Action)))
	b = appendText(appendText(b, c.ID), c.Target)
	b = appendBytes(b, c.Data)
	b = appendBundle(b, c.Metadata)
	b = binary.AppendUvarint(b, uint64(len(c.Buffers)))
	for _, buffer := range c.Buffers {
		b = appendBytes(b, buffer)
	}
	return b
}

func appendBytes(dst, b []byte) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(b))), b...)
}

// comm reads what appendComm has appended.
func (in *input) comm() (c Comm) {
	if action := int(in.byte()); action < len(commActions) {
		c.Action = commActions[action]
	} else {
		in.bad = true
	}
	c.ID, c.Target = string(in.text()), string(in.text())
	c.Data = in.value()
	c.Metadata = in.bundle()
	count := in.uvarint()
	if count > MaxCommBuffers {
		in.bad = true
		return c
	}
	for range count {
		c.Buffers = append(c.Buffers, in.value())
	}
	return c
}
