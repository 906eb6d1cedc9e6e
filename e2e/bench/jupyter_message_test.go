package main

import (
	"reflect"
	"testing"
)

func TestMessagesComeBackFromBothFramings(t *testing.T) {
	m := message{
		channel: "shell", header: messageHeader{ID: "1", Type: "execute_request", Session: "s", Username: "u", Version: "5.3"},
		parent: messageHeader{ID: "0"}, content: []byte(`{"code":"é"}`),
	}
	for _, asBinary := range []bool{false, true} {
		frame, err := m.encode(asBinary)
		if err != nil {
			t.Fatal(err)
		}
		got, err := decodeMessage(frame, asBinary)
		if err != nil || !reflect.DeepEqual(got, m) {
			t.Errorf("binary %v: %+v (%v)", asBinary, got, err)
		}
	}
}

func TestCutFramesAreErrors(t *testing.T) {
	m := message{channel: "iopub", content: []byte("{}")}
	frame, err := m.encode(true)
	if err != nil {
		t.Fatal(err)
	}
	for n := range frame {
		if _, err := decodeMessage(frame[:n], true); err == nil {
			t.Errorf("%d of %d bytes were taken for a message", n, len(frame))
		}
	}
	frame[0] = 255
	if _, err := decodeMessage(frame, true); err == nil {
		t.Error("a frame with 255 offsets was taken for a message")
	}
}
