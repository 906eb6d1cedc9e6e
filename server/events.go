package server

import (
	"iter"

	"talaria/api"
	"talaria/session"
)

// position returns where a client wants the log to begin: Last-Event-ID, which a browser sends by itself, has
// precedence over after. given is false if it named neither. A position that the log no longer has, or does not have
// yet, is an error.
func position(c *call, sess *session.Session) (after int64, given bool, err error) {
	if after, given, err = c.after(); err != nil {
		return 0, false, err
	}
	logID, named, err := c.value("log_id")
	if err != nil {
		return 0, false, err
	}
	if named && logID != sess.Journal().ID() {
		return 0, false, api.Errorf(api.CodeLogChanged, "the log was replaced; start again from after=0")
	}
	if !given {
		return 0, false, nil
	}
	if last := sess.Journal().LastSeq(); after > last {
		return 0, false, api.Errorf(api.CodeInvalidRequest, "after is %d, beyond last_seq %d", after, last)
	}
	if first := sess.Journal().FirstSeq(); after < first-1 {
		return 0, false, api.Errorf(api.CodeEventsExpired, "the log begins at seq %d; ask for after=%d", first, first-1)
	}
	return after, true, nil
}

// after returns the position that a client names, by Last-Event-ID or after. given is false if it named neither.
func (c *call) after() (after int64, given bool, err error) {
	after, given, err = c.seq("after")
	if last := c.Request.Header.Get("Last-Event-ID"); err == nil && last != "" {
		if after, given = parseSeq(last); !given {
			return 0, false, api.Errorf(api.CodeInvalidRequest, "Last-Event-ID is not a seq")
		}
	}
	return after, given, err
}

// start is position, with the beginning of the log as the default.
func start(c *call, sess *session.Session) (int64, error) {
	after, given, err := position(c, sess)
	if err == nil && !given {
		after = max(sess.Journal().FirstSeq()-1, 0)
	}
	return after, err
}

func (s *Server) getEvents(c *call, sess *session.Session) error {
	answer, err := negotiate(c, formatSSE, formatNDJSON)
	if err != nil {
		return err
	}
	follow, err := c.flag("follow", true)
	if err != nil {
		return err
	}
	after, err := start(c, sess)
	if err != nil {
		return err
	}
	ctx, cancel := s.untilDrain(c.ctx())
	defer cancel()
	if !follow {
		return s.stream(ctx, c, answer, upTo(sess.Journal().Events(ctx, after), after, sess.Journal().LastSeq()), nil)
	}
	detach := c.attach(sess)
	defer detach()
	reader := sess.Journal().Follow(after)
	return s.stream(ctx, c, answer, reader.Events(ctx), reader.Lagged())
}

// upTo ends a sequence, which begins after first, with last.
func upTo(events iter.Seq2[api.Event, error], first, last int64) iter.Seq2[api.Event, error] {
	return func(yield func(api.Event, error) bool) {
		if first >= last {
			return
		}
		for event, err := range events {
			if !yield(event, err) || err != nil || event.Seq >= last {
				return
			}
		}
	}
}

// streamExecution answers with the events of one execution after a position. An ended execution is read from its
// start, so that the stream ends even if its last event is before the position.
func (s *Server) streamExecution(c *call, sess *session.Session, answer format, id string, after int64, ended bool) error {
	ctx, cancel := s.untilDrain(c.ctx())
	defer cancel()
	if ended {
		return s.stream(ctx, c, answer, beyond(sess.Journal().ExecutionEvents(ctx, id, 0), after), nil)
	}
	return s.stream(ctx, c, answer, sess.Journal().ExecutionEvents(ctx, id, after), nil)
}

// beyond skips the events up to a position.
func beyond(events iter.Seq2[api.Event, error], after int64) iter.Seq2[api.Event, error] {
	return func(yield func(api.Event, error) bool) {
		for event, err := range events {
			if err == nil && event.Seq <= after {
				continue
			}
			if !yield(event, err) {
				return
			}
		}
	}
}
