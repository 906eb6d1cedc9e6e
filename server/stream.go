package server

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"talaria/api"
	"talaria/session"
)

const (
	// beat is the time between comments of an event stream, which keep proxies from closing it.
	beat = 15 * time.Second
	// goodbye is how long the last bytes of a stream or socket that ends may take.
	goodbye = time.Second
	// ahead is how many events are fetched before they can be written.
	ahead = 64
)

// stream answers with events until they end, ctx ends, the client goes away or lagged is closed. A stream that ends
// before its time is broken off, so that a client can tell.
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
	var ended *api.Error // the log is closed: the session was deleted, or the server shuts down
	switch {
	case err == nil, ctx.Err() != nil, errors.As(err, &ended):
		return out.pace.bound(time.Time{})
	case !errors.Is(err, session.ErrLagging) && !errors.Is(err, errWrite):
		s.log.Error("event stream failed", slog.String("request", c.FullPath()), slog.Any("error", err))
	}
	panic(http.ErrAbortHandler)
}

// fetch runs events in a goroutine and hands them over; the channel closes at their end, and failed tells then why.
// It runs until ctx ends or the events do.
func fetch(ctx context.Context, events iter.Seq2[api.Event, error]) (list <-chan api.Event, failed func() error) {
	ch := make(chan api.Event, ahead)
	var failure error
	go func() {
		defer close(ch)
		for event, err := range events {
			if err != nil {
				failure = err
				return
			}
			select {
			case ch <- event:
			case <-ctx.Done():
				failure = ctx.Err()
				return
			}
		}
	}()
	return ch, func() error { return failure }
}

func pump(ctx context.Context, events iter.Seq2[api.Event, error], out *streamWriter) error {
	ctx, cancel := context.WithCancel(ctx)
	list, failed := fetch(ctx, events)
	defer func() {
		cancel()
		for range list { // until fetch has ended
		}
	}()
	ticker := time.NewTicker(beat)
	defer ticker.Stop()
	for {
		select {
		case event, more := <-list:
			if !more {
				return errors.Join(failed(), out.flush())
			}
			if err := out.event(event); err != nil {
				return err
			}
		case <-ticker.C:
			if err := out.beat(); err != nil {
				return err
			}
		}
		if len(list) == 0 {
			if err := out.flush(); err != nil {
				return err
			}
		}
	}
}

// errWrite tells that the client takes no more.
var errWrite = errors.New("write to the client")

// streamWriter writes events in one format; what is written goes out with flush.
type streamWriter struct {
	format format
	pace   *pacer
	http   http.ResponseWriter
	buf    *bufio.Writer
	push   func() error
}

func newStreamWriter(w http.ResponseWriter, f format) *streamWriter {
	control := http.NewResponseController(w)
	out := &streamWriter{format: f, http: w, push: control.Flush}
	out.pace = &pacer{setDeadline: control.SetWriteDeadline}
	out.buf = bufio.NewWriterSize(out, piece)
	return out
}

// Write implements [io.Writer] below the buffer.
func (o *streamWriter) Write(p []byte) (int, error) { return o.pace.write(o.http.Write, p) }

var _ io.Writer = (*streamWriter)(nil)

// watch cuts the client off when it lags, and soon after ctx ends. The function returned ends the watch.
func (o *streamWriter) watch(ctx context.Context, lagged <-chan struct{}) (stop func()) {
	over, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		select {
		case <-lagged:
			o.pace.cut()
		case <-ctx.Done():
			_ = o.pace.bound(time.Now().Add(goodbye)) // fails only when the connection is gone
		case <-over:
		}
	}()
	return func() { close(over); <-done }
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
	if err := o.pace.extend(); err != nil {
		return wrapWrite(err)
	}
	return wrapWrite(o.push())
}

func wrapWrite(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w: %w", errWrite, err)
}

// eventJSON is the one line of an event, the same for every client.
func eventJSON(event api.Event) ([]byte, error) {
	if raw, ok := event.Body.(api.RawEvent); ok {
		return raw.JSON, nil
	}
	return api.Marshal(event)
}
