package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
)

// lateClient measures how many lines a client misses that connects in the middle of a cell.
func lateClient(lines int) func(context.Context, *trial) error {
	code := fmt.Sprintf("import time\nfor i in range(%d):\n    print(i, flush=True)\n    time.sleep(0.005)", lines)
	return func(ctx context.Context, t *trial) error {
		s, err := t.use(ctx, flavour{})
		if err != nil {
			return err
		}
		random := rand.New(rand.NewPCG(1, 2)) // the same moments for every driver
		return t.repeat(ctx, func(ctx context.Context) (values []float64, err error) {
			middle := lines/3 + random.IntN(lines/3)
			err = within(ctx, s, attachment{}, func(ses session, c conn) error {
				seen, err := joinAt(ctx, ses, c, code, middle)
				values = []float64{float64(lines - seen)}
				return err
			})
			return values, err
		})
	}
}

// joinAt runs a cell, lets a second client join after so many lines, and returns how many lines that one saw.
func joinAt(ctx context.Context, ses session, c conn, code string, middle int) (seen int, err error) {
	joined := make(chan error, 1)
	printed, started := 0, false
	err = cell(ctx, c, code, func(o output) {
		if o.kind == kindText {
			printed += strings.Count(o.text, "\n")
		}
		if printed >= middle && !started {
			started = true
			go func() {
				var err error
				seen, err = watchLines(ctx, ses)
				joined <- err
			}()
		}
	})
	if !started {
		return 0, errors.Join(err, errors.New("the cell printed too little"))
	}
	err = errors.Join(err, <-joined)
	return seen, err
}

// watchLines joins a running cell and counts the lines that it sees until its end.
func watchLines(ctx context.Context, ses session) (seen int, err error) {
	c, err := ses.attach(ctx, attachment{late: true})
	if err != nil {
		return 0, fmt.Errorf("join a cell: %w", err)
	}
	defer c.close()
	err = outputs(ctx, c, func(o output) {
		if o.kind == kindText {
			seen += strings.Count(o.text, "\n")
		}
	})
	return seen, err
}

// kill measures how many sessions still have their variable after the server was killed and started again.
func kill(ctx context.Context, t *trial) error {
	s, err := t.renew(ctx, flavour{})
	if err != nil {
		return err
	}
	var sessions []session
	for i := range t.n {
		ses, err := bounded(ctx, func(ctx context.Context) (session, error) { return keepVariable(ctx, s, i) })
		if err != nil {
			return err
		}
		sessions = append(sessions, ses)
	}
	if err := s.kill(); err != nil {
		return fmt.Errorf("kill the server: %w", err)
	}
	if err := s.restart(ctx); err != nil {
		return fmt.Errorf("start the server again: %w", err)
	}
	alive := 0
	for i, ses := range sessions {
		text, err := bounded(ctx, func(ctx context.Context) (string, error) { return askVariable(ctx, ses) })
		if err == nil && text == strconv.Itoa(i) {
			alive++
		}
	}
	t.add(0, 100*float64(alive)/float64(t.n))
	return ctx.Err()
}

// keepVariable makes a session with a variable.
func keepVariable(ctx context.Context, s server, v int) (session, error) {
	ses, err := s.create(ctx)
	if err != nil {
		return nil, fmt.Errorf("create a session: %w", err)
	}
	c, err := ses.attach(ctx, attachment{})
	if err != nil {
		return nil, fmt.Errorf("attach to a session: %w", err)
	}
	defer c.close()
	return ses, cell(ctx, c, fmt.Sprintf("kept = %d", v), ignore)
}

// askVariable asks a session for its variable. Any error means that it has none.
func askVariable(ctx context.Context, ses session) (string, error) {
	c, err := ses.attach(ctx, attachment{})
	if err != nil {
		return "", err
	}
	defer c.close()
	return value(ctx, c, "kept")
}
