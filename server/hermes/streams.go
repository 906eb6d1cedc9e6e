package hermes

import (
	"context"
	"errors"
	"io"
	"os"
	"time"

	"talaria/session"
	"talaria/session/processes"
)

// writePause is how long a write to a client waits before the host is told that somebody still reads: it drops output that nobody has
// read for some seconds.
const writePause = 2 * time.Second

// output reads what a program prints, in order and without loss.
type output struct {
	*session.Session
	id             string
	stdout, stderr int64 // offsets after what was passed on
}

// next returns the next piece of both streams.
func (o *output) next(ctx context.Context) (processes.ProgramOutput, error) {
	return o.Programs().Read(ctx, o.id, o.stdout, o.stderr)
}

// hold keeps the host from dropping what was not passed on.
func (o *output) hold(ctx context.Context) error {
	bounded, cancel := context.WithTimeout(ctx, writePause)
	defer cancel()
	if _, err := o.next(bounded); err != nil && bounded.Err() == nil {
		return err
	}
	return ctx.Err()
}

// writer is a file or connection whose writes can be given a deadline.
type writer interface {
	io.Writer
	SetWriteDeadline(time.Time) error
}

// pass writes a piece of a stream to w, which may take any time, and moves the offset of the stream on. Output for a w that is nil, or
// that nobody reads any more, is discarded; then open is false.
func (o *output) pass(ctx context.Context, w writer, data []byte, offset *int64) (open bool, err error) {
	for len(data) > 0 {
		_ = w.SetWriteDeadline(time.Now().Add(writePause)) // a file has none, and does not wait
		n, err := w.Write(data)
		*offset += int64(n)
		data = data[n:]
		switch {
		case err == nil:
		case ctx.Err() != nil:
			return false, context.Cause(ctx)
		case !errors.Is(err, os.ErrDeadlineExceeded):
			*offset += int64(len(data))
			return false, nil
		default:
			if err := o.hold(ctx); err != nil {
				return false, err
			}
		}
	}
	return true, nil
}

// relay carries what the program prints to the client until it has ended, and returns its exit code.
func (p *program) relay(ctx context.Context, stdout, stderr *os.File) (code int, err error) {
	o := &output{Session: p.Session, id: p.id}
	for {
		piece, err := o.next(ctx)
		if err != nil {
			return 0, err
		}
		if piece.Stdout.Offset > o.stdout || piece.Stderr.Offset > o.stderr {
			p.b.Log.Warn("output of a program of hermes is lost: the server was away for too long", "session", p.ID())
		}
		o.stdout, o.stderr = piece.Stdout.Offset, piece.Stderr.Offset
		for _, stream := range []struct {
			file   **os.File
			data   []byte
			offset *int64
		}{{&stdout, piece.Stdout.Data, &o.stdout}, {&stderr, piece.Stderr.Data, &o.stderr}} {
			if *stream.file == nil {
				*stream.offset += int64(len(stream.data))
				continue
			}
			open, err := o.pass(ctx, *stream.file, stream.data, stream.offset)
			if err != nil {
				return 0, err
			}
			if !open {
				*stream.file = nil
			}
		}
		switch {
		case piece.Ended && piece.Signal != 0:
			return -piece.Signal, nil
		case piece.Ended:
			return piece.Code, nil
		}
	}
}

// feed carries the client's input to the program, after what the program reads first, until the input ends or the program has closed
// its own. The program then sees the end, or the client does.
func (p *program) feed(ctx context.Context, stdin *os.File) {
	if len(p.input) == 0 && stdin == nil {
		return
	}
	if err := p.Programs().Write(ctx, p.id, p.input); err != nil {
		return // it has ended
	}
	if stdin != nil {
		defer stdin.Close()
		data := make([]byte, chunk)
		for {
			n, err := stdin.Read(data)
			if n > 0 {
				if p.Programs().Write(ctx, p.id, data[:n]) != nil {
					return
				}
			}
			if err != nil {
				break
			}
		}
	}
	if ctx.Err() == nil {
		_ = p.Programs().CloseInput(ctx, p.id) // it fails where the program has ended
	}
}
