package jupyter

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"talaria/api"
)

func sample(buffers ...[]byte) message {
	return message{channel: iopub, header: header{MsgID: "m1", Session: "s", MsgType: "stream", Version: protocolVersion},
		parent: api.Raw(`{"msg_id":"p1"}`), content: api.Raw(`{"name":"stdout","text":"ü"}`), buffers: buffers}
}

// fields returns what a decoded message has in the form of a map, to be compared.
func fields(t *testing.T, m message) map[string]string {
	t.Helper()
	return map[string]string{"channel": m.channel, "type": m.header.MsgType, "id": m.header.MsgID, "parent": string(m.parent),
		"content": string(m.content), "buffers": string(bytes.Join(m.buffers, []byte("|")))}
}

func TestAMessageIsTheSameInBothFramings(t *testing.T) {
	for _, v1 := range []bool{false, true} {
		data, isBinary, err := sample().encode(v1)
		if err != nil {
			t.Fatal(err)
		}
		if isBinary != v1 {
			t.Errorf("v1 %t: a message without buffers is binary: %t", v1, isBinary)
		}
		m, err := decode(v1, isBinary, data)
		if err != nil {
			t.Fatal(err)
		}
		got, want := fields(t, m), fields(t, sample())
		for name := range want {
			if got[name] != want[name] {
				t.Errorf("v1 %t: %s is %q, want %q", v1, name, got[name], want[name])
			}
		}
	}
}

func TestAHeaderMayHaveADateOfAnyKind(t *testing.T) {
	for _, date := range []string{`"2026-11-24T20:00:00Z"`, `1795548719.275771`, `null`, `{}`} {
		m, err := decode(false, false, []byte(`{"header":{"msg_id":"m","msg_type":"kernel_info_request","session":"s","date":`+date+`}}`))
		if err != nil || m.header.MsgID != "m" || m.header.MsgType != "kernel_info_request" || m.header.Session != "s" || m.channel != shell {
			t.Errorf("date %s: %+v (%v)", date, m, err)
		}
	}
}

func TestTextMayHaveBuffersOfAnyKind(t *testing.T) {
	for _, buffers := range []string{`[]`, `{}`, `null`, `[""]`} { // AutoGen writes an object
		m, err := decode(false, false, []byte(`{"header":{"msg_id":"m","msg_type":"execute_request"},"content":{"code":"1"},"buffers":`+buffers+`}`))
		if err != nil || string(m.content) != `{"code":"1"}` || len(m.buffers) > 0 {
			t.Errorf("buffers %s: %+v (%v)", buffers, m, err)
		}
	}
}

func TestBuffersOfAnyBytesComeThroughBothFramings(t *testing.T) {
	sent := sample([]byte{0, '\n', 255}, nil, bytes.Repeat([]byte("x"), 70_000))
	for _, v1 := range []bool{false, true} {
		data, isBinary, err := sent.encode(v1)
		if err != nil || !isBinary {
			t.Fatalf("v1 %t: binary %t, %v", v1, isBinary, err)
		}
		m, err := decode(v1, true, data)
		if err != nil {
			t.Fatal(err)
		}
		if got, want := fields(t, m), fields(t, sent); got["buffers"] != want["buffers"] || got["content"] != want["content"] || len(m.buffers) != 3 {
			t.Errorf("v1 %t: %d buffers, content %s", v1, len(m.buffers), got["content"])
		}
	}
}

func TestTheTextFramingRepeatsTheTypeForClientsThatReadNoHeader(t *testing.T) {
	data, _, err := sample().encode(false)
	if err != nil {
		t.Fatal(err)
	}
	var m map[string]any
	if err := json.Unmarshal(data, &m); err != nil {
		t.Fatal(err)
	}
	if m["msg_type"] != "stream" || m["msg_id"] != "m1" || m["channel"] != "iopub" || m["buffers"] == nil || m["metadata"] == nil {
		t.Errorf("the message is %s", data)
	}
}

func TestBuffersComeInBothFramings(t *testing.T) {
	data, _, err := sample([]byte{0, 1}, []byte("two")).encode(true)
	if err != nil {
		t.Fatal(err)
	}
	if m, err := decode(true, true, data); err != nil || len(m.buffers) != 2 || string(m.buffers[0]) != "\x00\x01" || string(m.buffers[1]) != "two" {
		t.Errorf("the buffers are %q (%v)", m.buffers, err)
	}
	text := []byte(`{"header":{"msg_id":"m","msg_type":"comm_msg"},"content":{}}`)
	var frame []byte
	for _, n := range []int{3, 16, 16 + len(text), 16 + len(text) + 1} {
		frame = binary.BigEndian.AppendUint32(frame, uint32(n))
	}
	frame = append(append(frame, text...), "abcd"...)
	if m, err := decode(false, true, frame); err != nil || len(m.buffers) != 2 || string(m.buffers[0]) != "a" || string(m.buffers[1]) != "bcd" || m.channel != shell {
		t.Errorf("the message is %+v (%v)", m, err)
	}
}

func TestFramesThatAreNoMessagesAreRefused(t *testing.T) {
	long := `{"header":{"msg_id":"m","msg_type":"t","username":"` + strings.Repeat("u", maxHeader) + `"}}`
	for name, c := range map[string]struct {
		v1, binary bool
		data       string
	}{
		"no JSON":                     {false, false, "{"},
		"no header":                   {false, false, `{}`},
		"no id":                       {false, false, `{"header":{"msg_type":"t"}}`},
		"a long header":               {false, false, long},
		"a header of another type":    {false, false, `{"header":7}`},
		"an empty binary frame":       {false, true, ""},
		"many parts":                  {false, true, "\xff\xff\xff\xff"},
		"an offset outside":           {false, true, "\x00\x00\x00\x01\x7f\xff\xff\xff"},
		"text where binary is spoken": {true, false, `{"header":{"msg_id":"m","msg_type":"t"}}`},
		"a short v1 frame":            {true, true, "1234567"},
		"many v1 parts":               {true, true, strings.Repeat("\xff", 64)},
		"v1 offsets that go back":     {true, true, "\x06\x00\x00\x00\x00\x00\x00\x00" + strings.Repeat("\x40\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00", 3) + strings.Repeat("x", 64)},
	} {
		t.Run(name, func(t *testing.T) {
			if m, err := decode(c.v1, c.binary, []byte(c.data)); !errors.Is(err, errFrame) {
				t.Errorf("it was taken for %+v (%v)", m, err)
			}
		})
	}
}

func FuzzDecode(f *testing.F) {
	for _, v1 := range []bool{false, true} {
		data, isBinary, err := sample([]byte("b")).encode(v1)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(v1, isBinary, data)
	}
	f.Add(false, true, []byte("\x00\x00\x00\x01\x00\x00\x00\x08{}"))
	f.Fuzz(func(t *testing.T, v1, isBinary bool, data []byte) {
		m, err := decode(v1, isBinary, data)
		if err != nil {
			return
		}
		size := len(m.content) + len(m.parent) + len(m.metadata) + len(m.head)
		for _, b := range m.buffers {
			size += len(b)
		}
		if limit := len(data) * (1 + maxBuffers); size > limit {
			t.Errorf("%d bytes came out of %d", size, len(data))
		}
	})
}
