package main

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// cell runs a cell to its end and shows each output as it comes. A cell that fails is an error, unless it is expected.
func cell(ctx context.Context, c conn, code string, see func(output)) error {
	if err := c.execute(ctx, code); err != nil {
		return fmt.Errorf("send a cell: %w", err)
	}
	return outputs(ctx, c, see)
}

// errCell is a cell that did not end well.
var errCell = errors.New("the cell failed")

// outputs shows what comes until the end of the running cell.
func outputs(ctx context.Context, c conn, see func(output)) error {
	for {
		o, err := c.next(ctx)
		if err != nil {
			return fmt.Errorf("wait for output: %w", err)
		}
		see(o)
		if o.kind == kindEnd && o.text != "ok" {
			return fmt.Errorf("%w: %s", errCell, o.text)
		}
		if o.kind == kindEnd {
			return nil
		}
	}
}

// timed runs a cell to its end and returns how long after begin the first output of a kind came.
func timed(ctx context.Context, c conn, code string, want kind, begin time.Time) (at time.Duration, err error) {
	err = cell(ctx, c, code, func(o output) {
		if o.kind == want && at == 0 {
			at = time.Since(begin)
		}
	})
	if err == nil && at == 0 {
		err = fmt.Errorf("the cell gave no %s", want)
	}
	return at, err
}

// value runs a cell and returns the value of its last expression.
func value(ctx context.Context, c conn, code string) (text string, err error) {
	err = cell(ctx, c, code, func(o output) {
		if o.kind == kindResult {
			text = o.text
		}
	})
	return text, err
}

// within makes a session, attaches to it, and deletes it when use is done.
func within(ctx context.Context, s server, a attachment, use func(session, conn) error) (err error) {
	ses, err := s.create(ctx)
	if err != nil {
		return fmt.Errorf("create a session: %w", err)
	}
	defer func() { err = errors.Join(err, ses.delete(ctx)) }()
	c, err := ses.attach(ctx, a)
	if err != nil {
		return fmt.Errorf("attach to a session: %w", err)
	}
	defer func() { err = errors.Join(err, c.close()) }()
	return use(ses, c)
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
