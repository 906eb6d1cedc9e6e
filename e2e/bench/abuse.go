package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// abusers are cells that take all that they can get of one thing, for as long as they are let. Each prints first.
var abusers = map[string]string{
	"a fork bomb": `import os
print("on", flush=True)
while True:
    try:
        os.fork()
    except OSError:
        pass`,
	"a memory bomb": `print("on", flush=True)
held = []
while True:
    try:
        held.append(b"x" * (16 << 20))
    except MemoryError:
        held.clear()`,
	"a full disk": `import os
print("on", flush=True)
n = 0
while True:
    n += 1
    try:
        with open(f"inode{n}", "w"): pass
        with open("bytes", "ab") as f: f.write(bytes(8 << 20))
    except OSError:
        for name in os.listdir(): os.unlink(name)`,
	"a flood of output": `import sys
while True:
    sys.stdout.write("flood" * 20 + "\n")`,
	"a busy loop on all CPUs": `import os
for _ in range(2 * os.cpu_count()):
    if os.fork() == 0: break
else:
    print("on", flush=True)
while True: pass`,
}

// abuseTime is how long the abusers have been at it when the first sample is taken.
const abuseTime = 3 * time.Second

// besideAbusers measures the cells of a session while others abuse the machine, and what that costs the server.
func besideAbusers(ctx context.Context, t *trial) error {
	s, err := t.renew(ctx, flavour{})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	return within(ctx, s, attachment{}, func(_ session, c conn) error {
		if err := cell(ctx, c, "1 + 1", ignore); err != nil {
			return err
		}
		memory, err := watchPeak(s.own())
		if err != nil {
			return err
		}
		var all, started sync.WaitGroup
		defer all.Wait()
		over, stop := context.WithCancel(ctx)
		defer stop()
		for what, code := range abusers {
			started.Add(1)
			on := sync.OnceFunc(started.Done)
			all.Go(func() {
				defer on()
				if err := rerun(over, s, code, on); over.Err() == nil {
					cancel(fmt.Errorf("%s came to an end: %w", what, err))
				}
			})
		}
		started.Wait()
		select {
		case <-time.After(abuseTime):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		err = t.repeat(ctx, func(ctx context.Context) ([]float64, error) {
			begin := time.Now()
			err := cell(ctx, c, "1 + 1", ignore)
			return []float64{ms(time.Since(begin))}, err
		})
		if err != nil {
			return errors.Join(err, context.Cause(ctx))
		}
		grown, err := memory.growth()
		t.add(1, float64(grown)/mib)
		return err
	})
}

// rerun runs a cell in a session of its own, and again whenever it was ended, until ctx is done. It calls on when the
// cell has printed.
func rerun(ctx context.Context, s server, code string, on func()) (err error) {
	ses, err := s.create(ctx)
	if err != nil {
		return fmt.Errorf("create a session: %w", err)
	}
	defer func() { err = errors.Join(err, ses.delete(context.WithoutCancel(ctx))) }()
	for ctx.Err() == nil {
		err := attached(ctx, ses, func(c conn) error {
			return cell(ctx, c, code, func(o output) {
				if o.kind == kindText {
					on()
				}
			})
		})
		if err == nil {
			return errors.New("the cell gave up")
		}
	}
	return ctx.Err()
}

func attached(ctx context.Context, ses session, use func(conn) error) error {
	c, err := ses.attach(ctx, attachment{})
	if err != nil {
		return fmt.Errorf("attach to a session: %w", err)
	}
	return errors.Join(use(c), c.close())
}
