package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// fromNothing measures from the wish for a session to the first output of a kind.
func fromNothing(f flavour, code string, want kind) func(context.Context, *trial) error {
	return func(ctx context.Context, t *trial) error {
		s, err := t.use(ctx, f)
		if err != nil {
			return err
		}
		return t.repeat(ctx, func(ctx context.Context) (values []float64, err error) {
			if err := s.settle(ctx); err != nil {
				return nil, err
			}
			begin := time.Now()
			err = within(ctx, s, attachment{}, func(_ session, c conn) error {
				at, err := timed(ctx, c, code, want, begin)
				values = []float64{ms(at)}
				return err
			})
			return values, err
		})
	}
}

// firstSession measures the start of a server, and how long its first session then takes.
func firstSession(ctx context.Context, t *trial) error {
	return t.repeat(ctx, func(ctx context.Context) (values []float64, err error) {
		if err := t.clear(); err != nil {
			return nil, err
		}
		begin := time.Now()
		s, err := t.use(ctx, flavour{})
		if err != nil {
			return nil, err
		}
		answered := time.Now()
		err = within(ctx, s, attachment{}, func(_ session, c conn) error {
			at, err := timed(ctx, c, "1 + 1", kindResult, answered)
			values = []float64{ms(answered.Sub(begin)), ms(at)}
			return err
		})
		return values, err
	})
}

// inOneSession takes all samples in one session that answers already.
func inOneSession(ctx context.Context, t *trial, a attachment,
	sample func(context.Context, session, conn) ([]float64, error)) error {
	return inOneSessionOf(ctx, t, flavour{}, a, sample)
}

func inOneSessionOf(ctx context.Context, t *trial, f flavour, a attachment,
	sample func(context.Context, session, conn) ([]float64, error)) error {
	s, err := t.use(ctx, f)
	if err != nil {
		return err
	}
	return within(ctx, s, a, func(ses session, c conn) error {
		return t.repeat(ctx, func(ctx context.Context) ([]float64, error) { return sample(ctx, ses, c) })
	})
}

// warm measures a small cell to its end, when the next one could be sent.
func warm(f flavour, a attachment) func(context.Context, *trial) error {
	return func(ctx context.Context, t *trial) error {
		return inOneSessionOf(ctx, t, f, a, func(ctx context.Context, _ session, c conn) ([]float64, error) {
			begin := time.Now()
			text, err := value(ctx, c, "1 + 1")
			took := time.Since(begin)
			if err == nil && text != "2" {
				err = fmt.Errorf("1 + 1 gave %q", text)
			}
			return []float64{ms(took)}, err
		})
	}
}

// busyTime is how long the sessions of a sample of together run cells.
const busyTime = time.Second

// together measures how many cells several sessions run, each waiting for the end of its last cell.
func together(sessions int) func(context.Context, *trial) error {
	return func(ctx context.Context, t *trial) error {
		s, err := t.use(ctx, flavour{})
		if err != nil {
			return err
		}
		return withSeveral(ctx, s, sessions, nil, func(all []conn) error {
			return t.repeat(ctx, func(ctx context.Context) ([]float64, error) { return cellsPerSecond(ctx, all) })
		})
	}
}

// withSeveral makes sessions until there are n that have run a cell, and deletes them when use is done.
func withSeveral(ctx context.Context, s server, n int, open []conn, use func([]conn) error) error {
	if len(open) == n {
		return use(open)
	}
	return within(ctx, s, attachment{}, func(_ session, c conn) error {
		if err := cell(ctx, c, "1 + 1", ignore); err != nil {
			return err
		}
		return withSeveral(ctx, s, n, append(open, c), use)
	})
}

func cellsPerSecond(ctx context.Context, conns []conn) ([]float64, error) {
	counts, errs := make([]int, len(conns)), make([]error, len(conns))
	var all sync.WaitGroup
	begin := time.Now()
	for i, c := range conns {
		all.Go(func() {
			for ; time.Since(begin) < busyTime && errs[i] == nil; counts[i]++ {
				errs[i] = cell(ctx, c, "1 + 1", ignore)
			}
		})
	}
	all.Wait()
	took := time.Since(begin)
	total := 0
	for _, n := range counts {
		total += n
	}
	return []float64{float64(total) / took.Seconds()}, errors.Join(errs...)
}

func ignore(output) {}

// firstByte measures when text is seen that was printed without a flush by a cell that goes on.
func firstByte(ctx context.Context, t *trial) error {
	return inOneSession(ctx, t, attachment{}, func(ctx context.Context, _ session, c conn) ([]float64, error) {
		at, err := timed(ctx, c, "import time\nprint('x', end='')\ntime.sleep(0.4)", kindText, time.Now())
		return []float64{ms(at)}, err
	})
}

// steadyLines measures how long lines take that are printed at a low rate. Each has the time at which it was printed: the cell and
// this program read the same clock.
func steadyLines(ctx context.Context, t *trial) error {
	return inOneSession(ctx, t, attachment{}, func(ctx context.Context, _ session, c conn) ([]float64, error) {
		const lines = 100
		var took []float64
		var failed error
		err := cell(ctx, c, fmt.Sprintf("import time\nfor _ in range(%d): print(time.time_ns(), flush=True); time.sleep(0.02)", lines), func(o output) {
			now := time.Now()
			if o.kind != kindText {
				return
			}
			for _, line := range strings.Fields(o.text) {
				printed, err := strconv.ParseInt(line, 10, 64)
				failed = cmp.Or(failed, err)
				took = append(took, ms(now.Sub(time.Unix(0, printed))))
			}
		})
		if err = cmp.Or(err, failed); err != nil {
			return nil, err
		}
		if len(took) != lines {
			return nil, fmt.Errorf("%d of %d lines came", len(took), lines)
		}
		slices.Sort(took)
		return []float64{took[lines/2], took[lines*95/100]}, nil
	})
}

// interrupt measures from the wish to interrupt a busy loop until the exception is shown.
func interrupt(ctx context.Context, t *trial) error {
	return inOneSession(ctx, t, attachment{}, func(ctx context.Context, ses session, c conn) ([]float64, error) {
		return interrupted(ctx, ses, c, "while True: pass")
	})
}

// interrupted runs code, and measures from the request to interrupt it to the KeyboardInterrupt.
func interrupted(ctx context.Context, ses session, c conn, code string) ([]float64, error) {
	var begin, shown time.Time
	var failed error
	err := cell(ctx, c, "print('running', flush=True)\n"+code, func(o output) {
		switch {
		case o.kind == kindText && strings.Contains(o.text, "running"):
			begin = time.Now()
			failed = ses.interrupt(ctx)
		case o.kind == kindFailure && o.text == "KeyboardInterrupt":
			shown = time.Now()
		}
	})
	if failed != nil {
		return nil, fmt.Errorf("interrupt: %w", failed)
	}
	if !errors.Is(err, errCell) || shown.IsZero() {
		return nil, fmt.Errorf("the interrupted cell showed no KeyboardInterrupt (%w)", err)
	}
	return []float64{ms(shown.Sub(begin))}, nil
}

// reset measures from the wish for a fresh kernel to the result of its first cell.
func reset(ctx context.Context, t *trial) error {
	return inOneSession(ctx, t, attachment{}, func(ctx context.Context, ses session, c conn) ([]float64, error) {
		if err := t.server.settle(ctx); err != nil {
			return nil, err
		}
		if err := cell(ctx, c, "before = 1", ignore); err != nil {
			return nil, err
		}
		begin := time.Now()
		if err := ses.reset(ctx); err != nil {
			return nil, fmt.Errorf("reset: %w", err)
		}
		at, err := timed(ctx, c, libraries, kindResult, begin)
		if err != nil {
			return nil, err
		}
		text, err := value(ctx, c, "'before' in globals()")
		if err == nil && text != "False" {
			err = errors.New("the variables outlived the reset")
		}
		return []float64{ms(at)}, err
	})
}
