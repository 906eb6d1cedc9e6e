package frame

import (
	"encoding/base64"
	"encoding/json"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"talaria/api"
	"talaria/kernel/command"
	"talaria/kernel/record"
)

// Comm is a message of a comm from code inside. ID is the execution, or the front end's message, that sent it.
type Comm struct {
	ID   string
	Body record.Comm
	Mark uint64
}

// CommEnd reports that the front end's message with that id has been handled.
type CommEnd struct{ ID string }

func (Comm) frame()    {}
func (CommEnd) frame() {}

// commOut is the frame that passes on a front end's message. A frame is a line of JSON, so that half a frame spoils no
// other; buffers therefore travel in base64, which both sides encode and decode in C or assembly, far faster than the
// escapes of any other text.
type commOut struct {
	Type     string             `json:"type"`
	ID       string             `json:"id"`
	Action   string             `json:"action"`
	Comm     string             `json:"comm"`
	Target   string             `json:"target"`
	Data     api.Raw            `json:"data"`
	Metadata map[string]api.Raw `json:"metadata"`
	Buffers  [][]byte           `json:"buffers"`
}

// ForComm returns the frame for a front end's message.
func ForComm(c command.CommMessage) any {
	out := commOut{
		Type: "comm", ID: record.CommMessageID(c.ID), Action: string(c.Action), Comm: c.Comm, Target: c.Target,
		Data: api.Raw(c.Data), Metadata: map[string]api.Raw{}, Buffers: append([][]byte{}, c.Buffers...),
	}
	if len(c.Data) == 0 {
		out.Data = api.Raw("{}")
	}
	for name, value := range c.Metadata {
		out.Metadata[name] = api.Raw(value)
	}
	return out
}

func decodeComm(f *fields) Comm {
	c := Comm{ID: f.name("id"), Mark: f.mark()}
	c.Body.Action = record.CommAction(f.oneOf("action", string(record.CommOpen), string(record.CommSend), string(record.CommClose)))
	c.Body.ID = f.name("comm")
	c.Body.Target = f.name("target")
	value, ok := f.take("data")
	if !ok || len(c.Body.ID) == 0 {
		f.fail("data", "there is none, or no comm")
		return c
	}
	c.Body.Data = json.RawMessage(value)
	c.Body.Metadata = f.object("metadata")
	c.Body.Buffers = f.buffers("buffers")
	if c.Body.Size() > record.MaxCommBytes {
		f.fail("data", "too long")
	}
	return c
}

// buffers returns an array of at most record.MaxCommBuffers buffers in base64.
func (f *fields) buffers(name string) (list [][]byte) {
	f.each(name, func(value jsontext.Value) {
		if len(list) == record.MaxCommBuffers {
			f.fail(name, "too many")
			return
		}
		list = append(list, f.base64(name, value))
	})
	return list
}

// base64 decodes a string in which no character is escaped, as in all that the runner sends.
func (f *fields) base64(name string, v jsontext.Value) []byte {
	if v.Kind() != '"' {
		f.fail(name, "not a string")
		return nil
	}
	encoded := v[1 : len(v)-1]
	if slices.Contains(encoded, '\\') {
		f.fail(name, "not base64")
		return nil
	}
	decoded := make([]byte, base64.StdEncoding.DecodedLen(len(encoded)))
	n, err := base64.StdEncoding.Strict().Decode(decoded, encoded)
	if err != nil {
		f.fail(name, "not base64")
	}
	return decoded[:n]
}
