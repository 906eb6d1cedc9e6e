package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"time"

	"talaria/api"
	"talaria/client"
)

// The metrics of scale.
const (
	scaleCreate = iota
	scaleAsk
	scaleErrors
	scaleMemory
	scaleSwap
	scaleList
	scaleListAll
)

const (
	makers   = 4  // clients that make sessions at once
	listings = 20 // how often sessions are listed
	spare    = 10 // one part in so many of the machine's memory must stay free
)

// scale measures many sessions that have loaded the libraries, each with a variable, all idle, and then all asked for
// it in random order.
func scale(ctx context.Context, t *trial) error {
	s, err := t.renew(ctx, flavour{})
	if err != nil {
		return err
	}
	if err := s.settle(ctx); err != nil {
		return err
	}
	c := s.(*talariaServer).client
	before, err := swapped()
	if err != nil {
		return err
	}
	ids, err := makeMany(ctx, t, c)
	if err != nil {
		return err
	}
	memory, err := pss(descendants(os.Getpid()))
	if err != nil {
		return err
	}
	t.add(scaleMemory, float64(memory)/mib/float64(len(ids)))
	askErr := askAll(ctx, t, c, ids)
	after, err := swapped()
	if err != nil {
		return err
	}
	t.add(scaleSwap, max(0, float64(after-before)/mib))
	return errors.Join(askErr, list(ctx, t, c, len(ids)))
}

// makeMany makes the sessions, a few at a time. It ends with an error before the machine has no memory left.
func makeMany(ctx context.Context, t *trial, c *client.Client) ([]string, error) {
	ids, took := make([]string, t.sessions), make([]time.Duration, t.sessions)
	numbers := make(chan int)
	errs := make([]error, makers)
	var all sync.WaitGroup
	for m := range makers {
		all.Go(func() {
			for i := range numbers {
				if errs[m] != nil {
					continue
				}
				begin := time.Now()
				ids[i], errs[m] = makeOne(ctx, c, i)
				took[i] = time.Since(begin)
			}
		})
	}
	var err error
	for i := range t.sessions {
		var free, total int64
		if free, total, err = available(); err == nil && free < total/spare {
			err = fmt.Errorf("%d sessions leave only %d MiB of memory; measure fewer with -scale", i, free/mib)
		}
		if err != nil {
			break
		}
		numbers <- i
	}
	close(numbers)
	all.Wait()
	if err := errors.Join(append(errs, err)...); err != nil {
		return nil, err
	}
	for _, d := range took {
		t.add(scaleCreate, ms(d))
	}
	return ids, nil
}

func makeOne(ctx context.Context, c *client.Client, i int) (string, error) {
	s, err := c.CreateSession(ctx, api.SessionRequest{})
	if err != nil {
		return "", fmt.Errorf("create session %d: %w", i, err)
	}
	if _, err = ask(ctx, c, s.ID, fmt.Sprintf("%s\nkept = %d", libraries, i)); err != nil {
		return "", fmt.Errorf("set the variable of session %d: %w", i, err)
	}
	return s.ID, nil
}

// ask runs a cell over HTTP and returns the value of its last expression.
func ask(ctx context.Context, c *client.Client, id, code string) (string, error) {
	return bounded(ctx, func(ctx context.Context) (string, error) {
		e, err := c.Execute(ctx, id, api.ExecutionRequest{Code: &code})
		if err == nil && e.Status != api.StatusOK {
			err = fmt.Errorf("%w: %s %s", errCell, e.Status, e.Reason)
		}
		for _, o := range e.Outputs {
			if o.OutputType == "execute_result" {
				return plain(o.Data), err
			}
		}
		return "", err
	})
}

// askAll asks every session for its variable, in random order. It counts what went wrong and returns the first of it.
func askAll(ctx context.Context, t *trial, c *client.Client, ids []string) (first error) {
	failed := 0
	random := rand.New(rand.NewPCG(3, 4))
	for _, i := range random.Perm(len(ids)) {
		begin := time.Now()
		text, err := ask(ctx, c, ids[i], "kept")
		took := time.Since(begin)
		if err == nil && text != strconv.Itoa(i) {
			err = fmt.Errorf("its variable is %q", text)
		}
		if err != nil {
			if failed++; first == nil {
				first = fmt.Errorf("session %d: %w", i, err)
			}
			continue
		}
		t.add(scaleAsk, ms(took))
	}
	t.add(scaleErrors, float64(failed))
	return first
}

// list measures how long lists of sessions take: the first page, and the largest page that there is.
func list(ctx context.Context, t *trial, c *client.Client, sessions int) error {
	for range listings {
		for column, limit := range map[int]int{scaleList: 0, scaleListAll: api.MaxPage} {
			begin := time.Now()
			page, err := c.Sessions(ctx, client.SessionFilter{Page: api.PageQuery{Limit: limit}})
			took := time.Since(begin)
			if err != nil {
				return fmt.Errorf("list sessions: %w", err)
			}
			want := min(sessions, api.MaxPage)
			if limit == 0 {
				want = min(sessions, api.DefaultPage)
			}
			if len(page.Items) != want {
				return fmt.Errorf("%d of %d sessions are listed", len(page.Items), want)
			}
			t.add(column, ms(took))
		}
	}
	return nil
}
