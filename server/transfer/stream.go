package transfer

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"time"

	"talaria/api"
)

// ErrWrite reports that the client of a stream accepts no more.
var ErrWrite = errors.New("write to the client")

// Stream is an answer that is sent in pieces, each at once. It has one user.
type Stream struct {
	w       http.ResponseWriter
	control *http.ResponseController
	stall   time.Duration
}

// NewStream returns a stream whose client may take no byte for up to stall.
func NewStream(w http.ResponseWriter, stall time.Duration) *Stream {
	return &Stream{w: w, control: http.NewResponseController(w), stall: stall}
}

// Send sends bytes that belong together. Its error is ErrWrite.
func (s *Stream) Send(data []byte) error {
	_ = s.control.SetWriteDeadline(time.Now().Add(s.stall)) // fails only when the connection is gone
	if _, err := s.w.Write(data); err != nil {
		return fmt.Errorf("%w: %w", ErrWrite, err)
	}
	return s.Flush()
}

// SendJSON sends v as JSON with end behind it.
func (s *Stream) SendJSON(v any, end string) error {
	text, err := api.Marshal(v)
	if err != nil {
		return err
	}
	return s.Send(append(text, end...))
}

// Flush sends what was written; before anything was, the head.
func (s *Stream) Flush() error {
	if err := s.control.Flush(); err != nil {
		return fmt.Errorf("%w: %w", ErrWrite, err)
	}
	return nil
}

// Relay passes what a sequence yields to send as it comes, and calls idle whenever there was silence for that long. It returns when
// the sequence ends, ctx does, or one of them fails. The sequence must end when the context does that it is made with.
func Relay[T any](
	ctx context.Context, sequence func(context.Context) iter.Seq2[T, error], silence time.Duration, send func(T) error, idle func() error,
) error {
	ctx, cancel := context.WithCancel(ctx)
	list, failure := make(chan T), error(nil)
	go func() {
		defer close(list)
		for one, err := range sequence(ctx) {
			if err != nil {
				failure = err
				return
			}
			select {
			case list <- one:
			case <-ctx.Done():
				failure = context.Cause(ctx)
				return
			}
		}
	}()
	defer func() {
		cancel()
		for range list { // until the goroutine has ended
		}
	}()
	ticker := time.NewTicker(silence)
	defer ticker.Stop()
	for {
		select {
		case one, more := <-list:
			if !more {
				return failure
			}
			if err := send(one); err != nil {
				return err
			}
			ticker.Reset(silence)
		case <-ticker.C:
			if err := idle(); err != nil {
				return err
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
