package e2b

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"testing"

	"talaria/api"
)

func framed(t *testing.T, flags byte, v any) []byte {
	t.Helper()
	data, err := envelope(flags, v)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// readOne reads the next message without bounds of a caller.
func readOne(r io.Reader) ([]byte, error) {
	body, release, err := readEnvelope(r, func(r io.Reader) ([]byte, func(), error) {
		data, err := io.ReadAll(r)
		return data, func() {}, err
	})
	release()
	return body, err
}

func TestMessagesOfAStreamAreReadOneByOne(t *testing.T) {
	stream := append(framed(t, 0, object{"a": 1}), framed(t, 0, object{})...)
	stream = append(stream, framed(t, flagEnd, object{})...)
	r := bytes.NewReader(stream)
	for _, want := range []string{`{"a":1}`, "{}"} {
		body, err := readOne(r)
		if err != nil || string(body) != want {
			t.Errorf("the message is %s (%v), want %s", body, err, want)
		}
	}
	if _, err := readOne(r); !errors.Is(err, io.EOF) {
		t.Errorf("after the last message comes %v", err)
	}
}

func TestAMessageThatAnnouncesTooMuchIsRefusedBeforeItIsRead(t *testing.T) {
	head := []byte{0, 0xff, 0xff, 0xff, 0xff}
	_, err := readOne(io.MultiReader(bytes.NewReader(head), readsNever{t}))
	if known := new(api.Error); !errors.As(err, &known) || known.Code != api.CodePayloadTooLarge {
		t.Errorf("the error is %v", err)
	}
	for name, data := range map[string][]byte{
		"cut off": {0, 0, 0, 0, 9, '{'}, "head cut off": {0, 0}, "compressed": framed(t, flagCompressed, object{}),
	} {
		if body, err := readOne(bytes.NewReader(data)); err == nil {
			t.Errorf("%s: %q is a message", name, body)
		}
	}
}

type readsNever struct{ t *testing.T }

func (r readsNever) Read([]byte) (int, error) {
	r.t.Error("the body was read")
	return 0, io.EOF
}

func FuzzEnvelopes(f *testing.F) {
	f.Add([]byte{0, 0, 0, 0, 2, '{', '}'})
	f.Add([]byte{2, 0, 0, 0, 2, '{', '}'})
	f.Add([]byte{0, 0xff, 0xff, 0xff, 0xff, 1})
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, data []byte) {
		flags, body, rest, err := cutEnvelope(data)
		if err == nil && (len(body)+len(rest)+5 != len(data) || int(binary.BigEndian.Uint32(data[1:])) != len(body)) {
			t.Errorf("%q is cut into %q and %q", data, body, rest)
		}
		one, readErr := readOne(bytes.NewReader(data))
		if err == nil && flags == 0 && (readErr != nil || !bytes.Equal(one, body)) {
			t.Errorf("%q read as a stream is %q (%v), not %q", data, one, readErr, body)
		}
		if err != nil && readErr == nil {
			t.Errorf("%q is cut off, and read as %q", data, one)
		}
	})
}
