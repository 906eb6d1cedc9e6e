package client

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"talaria/api"
)

// EventsQuery selects events of a session's log.
type EventsQuery struct {
	After int64 // the position after which they start; 0 is the start of the log
	// LogID is the id of the log that After is a position in. With it, a log that was restarted is an error,
	// log_changed, and not a wrong continuation.
	LogID string
	// Past ends the events at the present. Otherwise they continue live.
	Past bool
}

// Events returns the events of a session's log, each once and in order. A broken connection is resumed where it was,
// until the outage lasts longer than the client allows. The sequence ends with the first error, such as the end of
// ctx, or session_not_found once the session is deleted.
func (c *Client) Events(ctx context.Context, session string, q EventsQuery) iter.Seq2[api.Event, error] {
	return c.stream(ctx, stream{
		open: func(ctx context.Context, after int64) (*http.Response, error) {
			query := url.Values{"after": {strconv.FormatInt(after, 10)}}
			if q.LogID != "" {
				query.Set("log_id", q.LogID)
			}
			if q.Past {
				query.Set("follow", "false")
			}
			return c.send(ctx, request{
				method: http.MethodGet, path: path("sessions", session, "events"), query: query, accept: typeNDJSON,
			})
		},
		after: q.After,
		dense: true,
		ends:  q.Past,
	})
}

// stream is a sequence of events over one connection after the other.
type stream struct {
	open  func(ctx context.Context, after int64) (*http.Response, error)
	after int64
	last  func(api.Event) bool // the event that ends the sequence; nil for none
	ends  bool                 // a connection that ends properly ends the sequence
	dense bool                 // each event's position is the one after the last
}

var (
	// ErrGap: the server left out an event. It is a fault of the server.
	ErrGap = errors.New("an event is missing")

	errMalformed = errors.New("the server sent something that is not an event")
	errEnded     = errors.New("the server ended the stream")
)

func (c *Client) stream(ctx context.Context, s stream) iter.Seq2[api.Event, error] {
	return func(yield func(api.Event, error) bool) {
		after := s.after
		retry := backoff{outage: c.Outage}
		for first := true; ; first = false {
			done := false
			resp, err := s.open(ctx, after)
			opened := err == nil
			if opened {
				retry.connected()
				err = readEvents(resp, func(e api.Event) (more bool, err error) {
					if e.Seq <= after {
						return true, nil
					}
					if s.dense && e.Seq != after+1 {
						return false, fmt.Errorf("%w: %d came after %d", ErrGap, e.Seq, after)
					}
					after = e.Seq
					retry.reset()
					done = !yield(e, nil) || s.last != nil && s.last(e)
					return !done, nil
				})
				if done || err == nil && s.ends {
					return
				}
			}
			if err == nil {
				err = errEnded
			}
			if first && !opened && !broke(err) || isFatal(err) {
				yield(api.Event{}, err)
				return
			}
			if err := retry.wait(ctx, err); err != nil {
				yield(api.Event{}, fmt.Errorf("events after %d: %w", after, err))
				return
			}
		}
	}
}

// broke reports whether a connection existed and then broke.
func broke(err error) bool {
	var op *net.OpError
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.As(err, &op) && op.Op != "dial"
}

// isFatal reports whether another attempt would not help.
func isFatal(err error) bool {
	for _, fatal := range []error{errMalformed, ErrGap, bufio.ErrTooLong} {
		if errors.Is(err, fatal) {
			return true
		}
	}
	return isRefusal(err)
}

// readEvents calls each with one event after the other, until it wants no more or the body ends. A body that ends
// properly is not an error.
func readEvents(resp *http.Response, each func(api.Event) (more bool, err error)) error {
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(make([]byte, 0, 64<<10), api.MaxServerFrame)
	for lines.Scan() {
		line := bytes.TrimSpace(lines.Bytes())
		if len(line) == 0 {
			continue
		}
		if !json.Valid(line) { // the connection broke within it
			return io.ErrUnexpectedEOF
		}
		var e api.Event
		if err := json.Unmarshal(line, &e); err != nil {
			return fmt.Errorf("%w: %w", errMalformed, err)
		}
		if e.Seq == 0 { // not of the log
			continue
		}
		if more, err := each(e); !more || err != nil {
			return err
		}
	}
	return lines.Err()
}

// postForEvents posts a body and asks for a stream.
func (c *Client) postForEvents(ctx context.Context, path string, in any) (*http.Response, error) {
	body, err := api.Marshal(in)
	if err != nil {
		return nil, fmt.Errorf("encode the request: %w", err)
	}
	return c.send(ctx, request{
		method: http.MethodPost, path: path, accept: typeNDJSON, body: bytes.NewReader(body), kind: typeJSON,
	})
}

const (
	firstPause   = 20 * time.Millisecond
	longestPause = 3 * time.Second
)

// backoff spaces the attempts to reconnect, and ends them after an outage of that length.
type backoff struct {
	outage time.Duration
	since  time.Time // start of the outage; zero while there is none
	up     time.Time // when the current connection was made
	pause  time.Duration
}

// connected reports that there is a connection. The outage is over only once the connection has lasted, or has been of
// use.
func (b *backoff) connected() { b.up = time.Now() }

// reset reports that the connection is of use.
func (b *backoff) reset() { b.since, b.pause = time.Time{}, 0 }

// wait returns nil when it is time for the next attempt, or the reason to give up: the end of ctx, or cause, which
// ended the connection, once the outage has lasted too long.
func (b *backoff) wait(ctx context.Context, cause error) error {
	now := time.Now()
	if !b.up.IsZero() && now.Sub(b.up) > longestPause {
		b.reset()
	}
	b.up = time.Time{}
	if b.since.IsZero() {
		b.since = now
	}
	if now.Sub(b.since) > b.outage {
		return fmt.Errorf("gave up after %v: %w", b.outage, cause)
	}
	b.pause = min(max(2*b.pause, firstPause), longestPause)
	timer := time.NewTimer(b.pause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
