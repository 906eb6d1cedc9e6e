package server

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"talaria/api"
	"talaria/session"
)

const (
	// keepAlive is the interval between comments of an event stream, which keep proxies from closing it.
	keepAlive = 15 * time.Second
	// closeTimeout is how long the last bytes of an ending stream or socket may take.
	closeTimeout = time.Second
	// pieceBytes is how much of a stream is written at once.
	pieceBytes = 64 << 10
	// prefetch is how many events are fetched before they can be written, and aheadBytes how many bytes of the log.
	prefetch   = 64
	aheadBytes = 1 << 20
)

// stream answers with events until they end, ctx ends, the client goes away or lagged is closed. A stream that ends
// early is broken off, so that a client can tell.
func (s *Server) stream(ctx context.Context, c *call, f format, events iter.Seq2[api.Event, error],
	lagged <-chan struct{}) error {
	h := c.Writer.Header()
	h.Set("Content-Type", string(f))
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no")
	c.Status(http.StatusOK)
	c.Writer.Flush()
	if c.Request.Method == http.MethodHead {
		return nil
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	out := newStreamWriter(c.Writer, f)
	stop := out.watch(ctx, lagged)
	err := pump(ctx, events, out)
	stop()
	var ended *api.Error
	known := errors.As(err, &ended)
	switch {
	case known && ended.Code == api.CodeEventsExpired: // the log goes on, without the events that would have been next
	case err == nil, ctx.Err() != nil, known: // the log is closed: the session was deleted, or the server is shutting down
		out.bound(time.Time{})
		return nil
	case !errors.Is(err, session.ErrLagging) && !errors.Is(err, errWrite):
		s.log.Error("event stream failed", slog.String("request", c.FullPath()), slog.Any("error", err))
	}
	panic(http.ErrAbortHandler)
}

// feed hands over events that a goroutine fetches ahead of their writer.
type feed struct {
	events  chan api.Event // closed at the end
	waiting atomic.Int64   // bytes of the log in events
	room    chan struct{}  // has one value once waiting went down
	failure error          // why the events ended; valid once events is closed
}

// fetch runs events in a goroutine, until ctx ends or the events do.
func fetch(ctx context.Context, events iter.Seq2[api.Event, error]) *feed {
	f := &feed{events: make(chan api.Event, prefetch), room: make(chan struct{}, 1)}
	go func() {
		defer close(f.events)
		for event, err := range events {
			if err == nil {
				err = f.hand(ctx, event)
			}
			if err != nil {
				f.failure = err
				return
			}
		}
	}()
	return f
}

func (f *feed) hand(ctx context.Context, event api.Event) error {
	for f.waiting.Load() >= aheadBytes {
		select {
		case <-f.room:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	f.waiting.Add(logBytes(event))
	select {
	case f.events <- event:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// took reports that an event was taken out of events.
func (f *feed) took(event api.Event) {
	f.waiting.Add(-logBytes(event))
	select {
	case f.room <- struct{}{}:
	default:
	}
}

// drain takes the remaining events, until the goroutine has ended. The context of fetch must have ended.
func (f *feed) drain() {
	for range f.events {
	}
}

// logBytes returns the size of an event that was read from the log. A live event is in memory for all readers.
func logBytes(event api.Event) int64 {
	raw, _ := event.Body.(api.RawEvent)
	return int64(len(raw.JSON))
}

func pump(ctx context.Context, events iter.Seq2[api.Event, error], out *streamWriter) error {
	ctx, cancel := context.WithCancel(ctx)
	list := fetch(ctx, events)
	defer func() {
		cancel()
		list.drain()
	}()
	ticker := time.NewTicker(keepAlive)
	defer ticker.Stop()
	for {
		select {
		case event, more := <-list.events:
			if !more {
				return errors.Join(list.failure, out.flush())
			}
			list.took(event)
			if err := out.event(event); err != nil {
				return err
			}
		case <-ticker.C:
			if err := out.beat(); err != nil {
				return err
			}
		}
		if len(list.events) == 0 {
			if err := out.flush(); err != nil {
				return err
			}
		}
	}
}

// errWrite reports that the client accepts no more.
var errWrite = errors.New("write to the client")

// streamWriter writes events in one format; flush sends what was written.
type streamWriter struct {
	format  format
	buf     *bufio.Writer
	control *http.ResponseController
}

func newStreamWriter(w http.ResponseWriter, f format) *streamWriter {
	return &streamWriter{format: f, buf: bufio.NewWriterSize(w, pieceBytes), control: http.NewResponseController(w)}
}

// watch cuts the client off when it lags, and soon after ctx ends. The returned function ends the watch.
func (o *streamWriter) watch(ctx context.Context, lagged <-chan struct{}) (stop func()) {
	over, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		select {
		case <-lagged:
			o.bound(time.Unix(1, 0))
		case <-ctx.Done():
			o.bound(time.Now().Add(closeTimeout))
		case <-over:
		}
	}()
	return func() { close(over); <-done }
}

// bound makes all writes end at t, including one in progress; the zero time removes the bound.
func (o *streamWriter) bound(t time.Time) {
	_ = o.control.SetWriteDeadline(t) // fails only when the connection is gone
}

func (o *streamWriter) event(event api.Event) error {
	line, err := eventJSON(event)
	if err != nil {
		return err
	}
	if o.format == formatSSE {
		o.buf.WriteString("id: ")
		o.buf.WriteString(strconv.FormatInt(event.Seq, 10))
		o.buf.WriteString("\ndata: ")
		o.buf.Write(line)
		_, err = o.buf.WriteString("\n\n")
	} else {
		o.buf.Write(line)
		err = o.buf.WriteByte('\n')
	}
	return wrapWrite(err) // a bufio.Writer keeps its first error
}

// beat keeps an event stream open; NDJSON has no comments.
func (o *streamWriter) beat() error {
	if o.format != formatSSE {
		return nil
	}
	_, err := o.buf.WriteString(": \n\n")
	return wrapWrite(err)
}

func (o *streamWriter) flush() error {
	if o.buf.Buffered() > 0 {
		if err := o.buf.Flush(); err != nil {
			return wrapWrite(err)
		}
	}
	return wrapWrite(o.control.Flush())
}

func wrapWrite(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w: %w", errWrite, err)
}

// eventJSON returns an event as one line, the same for every client.
func eventJSON(event api.Event) ([]byte, error) {
	if raw, ok := event.Body.(api.RawEvent); ok {
		return raw.JSON, nil
	}
	return api.Marshal(event)
}
