package link

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"
)

// errBroken reports that a connection ended before the reply to a request arrived.
var errBroken = errors.New("the connection to the host broke")

// caller is the server's end of a connection: it sends requests and matches their replies. run must be called once;
// everything else is safe for concurrent use.
type caller struct {
	*conn
	records func([]byte) // takes the records that arrive and owns them; nil: there are none
	broken  chan struct{}

	mu      sync.Mutex // guards the fields below
	last    uint64
	waiting map[uint64]chan reply // nil if the connection is broken
}

func newCaller(c *conn, records func([]byte)) *caller {
	return &caller{conn: c, records: records, broken: make(chan struct{}), waiting: map[uint64]chan reply{}}
}

// run reads until the connection ends. Then all waiting callers get errBroken.
func (c *caller) run() error {
	var err error
	for err == nil {
		err = c.next()
	}
	_ = c.Close()
	c.mu.Lock()
	c.waiting = nil
	c.mu.Unlock()
	close(c.broken)
	if errors.Is(err, io.EOF) {
		return errBroken
	}
	return fmt.Errorf("%w: %w", errBroken, err)
}

func (c *caller) next() error {
	t, payload, err := c.read()
	if err != nil {
		return err
	}
	switch {
	case t == frameReply:
		var r reply
		if err := json.Unmarshal(payload, &r); err != nil {
			return fmt.Errorf("read a reply: %w", err)
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		if ch := c.waiting[r.N]; ch != nil {
			delete(c.waiting, r.N)
			ch <- r // it has room
		}
		return nil
	case t == frameRecords && c.records != nil:
		c.records(payload)
		return nil
	}
	return fmt.Errorf("a message of type %d where a reply was due", t)
}

// call sends a request and waits for the reply, whose body goes to out unless that is nil. ctx bounds the wait. An
// error of the host is a remoteError; if the connection ends first, the error is errBroken, and the host may have
// obeyed.
func (c *caller) call(ctx context.Context, op string, in, out any, files ...*os.File) error {
	n, replied := c.expect()
	if replied == nil {
		return errBroken
	}
	b, err := newRequest(ctx, n, op, in)
	if err == nil {
		err = c.send(ctx, b, files...)
		if err != nil && ctx.Err() == nil && len(b) <= maxFrame {
			err = fmt.Errorf("%w: %w", errBroken, err)
		}
	}
	if err != nil {
		c.forget(n)
		return err
	}
	select {
	case r := <-replied:
		return r.result(op, out)
	case <-ctx.Done():
		c.forget(n)
		return context.Cause(ctx)
	case <-c.broken:
	}
	select {
	case r := <-replied:
		return r.result(op, out)
	default:
		return errBroken
	}
}

// send writes a request. ctx bounds only the wait: a frame that a host is slow to accept is never cut short.
func (c *caller) send(ctx context.Context, request []byte, files ...*os.File) error {
	if ctx.Done() == nil {
		return c.write(frameRequest, request, files...)
	}
	if len(files) == 0 && c.writeAtOnce(frameRequest, request) { // usually, and without a goroutine
		return nil
	}
	written := make(chan error, 1)
	go func() { written <- c.write(frameRequest, request, files...) }()
	select {
	case err := <-written:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (c *caller) expect() (n uint64, replied chan reply) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.waiting == nil {
		return 0, nil
	}
	c.last++
	replied = make(chan reply, 1)
	c.waiting[c.last] = replied
	return c.last, replied
}

func (c *caller) forget(n uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.waiting, n)
}

func (r reply) result(op string, out any) error {
	if out != nil && len(r.Body) > 0 {
		if err := json.Unmarshal(r.Body, out); err != nil {
			return fmt.Errorf("reply to %s: %w", op, err)
		}
	}
	if r.Error != nil {
		return r.Error
	}
	return nil
}

// open sends the first request of a connection and waits for its reply, before run. ctx bounds both.
func (c *caller) open(ctx context.Context, op string, in, out any) error {
	stop := context.AfterFunc(ctx, func() { _ = c.unix.SetDeadline(time.Unix(1, 0)) })
	n, replied := c.expect()
	b, err := newRequest(ctx, n, op, in)
	if err == nil {
		err = c.write(frameRequest, b)
	}
	for err == nil && len(replied) == 0 {
		err = c.next()
	}
	if !stop() && err == nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		return fmt.Errorf("%w: %w", errBroken, err)
	}
	return (<-replied).result(op, out)
}
