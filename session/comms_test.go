package session_test

import (
	"fmt"
	"strings"
	"testing"

	"talaria/api"
	"talaria/session"
)

// comms counts the messages of comms in a log, and what it says about their limit.
func comms(t *testing.T, s *session.Session, executionID string) (messages, handled int, told string) {
	t.Helper()
	for _, e := range now(t, s) {
		e, err := e.Decoded()
		if err != nil {
			t.Fatal(err)
		}
		if e.ExecutionID != executionID {
			continue
		}
		switch b := e.Body.(type) {
		case api.CommSent:
			messages++
			if b.CommID != "w" || len(b.Buffers) != 1 || string(b.Buffers[0]) != "\x00\x01" {
				t.Errorf("a message is %+v", b)
			}
		case api.CommHandled:
			handled++
		case api.Stream:
			told += b.Text
		}
	}
	return messages, handled, told
}

func TestMessagesOfCommsAreLoggedWithinTheLimitOfDisplays(t *testing.T) {
	r := scripted(t, func(c *session.Config) { c.Defaults.DisplayBytes = 10_000 })
	s := r.session(api.SessionRequest{})
	e := execute(t, s, "comm cell 30 1000")
	if n, _, told := comms(t, s, e.ID); n < 8 || n > 9 || strings.Count(told, "limits.display_bytes (10000)") != 1 {
		t.Errorf("of a cell, %d messages are logged; it says %q", n, told)
	}
	m := session.CommMessage{ID: "m1", Action: "msg", CommID: "w", Data: api.Raw("{}")}
	if err := s.Interpreter().SendComm(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	if err := s.Interpreter().SendComm(t.Context(), m); err != nil { // given once
		t.Fatal(err)
	}
	id := m.EventID()
	execute(t, s, fmt.Sprintf("comm %s 30 1000\nhandled %s\nhandled %s\nhandled comm~other", id, id, id))
	if n, handled, told := comms(t, s, id); n < 8 || n > 9 || handled != 1 || strings.Count(told, "limits.display_bytes (10000)") != 1 {
		t.Errorf("of a message, %d are logged, it is handled %d times, and it says %q", n, handled, told)
	}
	execute(t, s, fmt.Sprintf("comm %s 3 1000", id))
	if n, _, _ := comms(t, s, id); n < 11 || n > 12 {
		t.Errorf("after the next cell has begun, %d are logged: the limit does not start over", n)
	}
}

func TestCommMessagesThatCannotBeGivenAreRefused(t *testing.T) {
	r := scripted(t, nil)
	s := r.session(api.SessionRequest{})
	deep := api.Raw(strings.Repeat("[", 201) + strings.Repeat("]", 201))
	for _, m := range []session.CommMessage{
		{ID: "m", Action: "other", CommID: "w"}, {Action: "msg", CommID: "w"}, {ID: strings.Repeat("m", 200), Action: "msg", CommID: "w"},
		{ID: "m", Action: "msg"}, {ID: "m", Action: "open", CommID: "w", Target: strings.Repeat("t", 300)},
		{ID: "m", Action: "msg", CommID: "w", Buffers: make([][]byte, 1025)},
		{ID: "m", Action: "msg", CommID: "w", Data: deep}, {ID: "m", Action: "msg", CommID: "w", Metadata: map[string]api.Raw{"d": deep}},
	} {
		if err := s.Interpreter().SendComm(t.Context(), m); code(err) != api.CodeInvalidRequest {
			t.Errorf("%+v: %v", m, err)
		}
	}
	execute(t, s, "exit 3")
	if err := s.Interpreter().SendComm(t.Context(), session.CommMessage{ID: "m", Action: "msg", CommID: "w"}); code(err) != api.CodeNoKernel {
		t.Errorf("without a kernel: %v", err)
	}
	if open, err := s.Interpreter().Comms(t.Context()); err != nil || len(open) != 0 {
		t.Errorf("without a kernel, %v are open, %v", open, err)
	}
}
