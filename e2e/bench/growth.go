package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"time"

	"talaria/api"
	"talaria/client"
)

// What -growth measures at each number of sessions.
const (
	growthCreates = 10 // more sessions, one after the other; they are deleted again
	growthWarm    = 50 // cells in one session
	growthCold    = 30 // cells, each in a session at random
	growthLists   = 5  // lists of all sessions
)

// growing is one line of the table of -growth.
type growing struct {
	sessions                  int
	create, warm, first, list []float64 // ms
	memory                    float64   // MiB for each session, server and host included
}

// grow measures one server with more and more sessions, and prints a line for each number of them. It leaves out numbers for which
// the machine has no memory.
func (o options) grow(ctx context.Context, temp string, as account, stdout, progress io.Writer) (err error) {
	var numbers []int
	for _, text := range strings.Split(o.growth, ",") {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || len(numbers) > 0 && n <= numbers[len(numbers)-1] {
			return fmt.Errorf("-growth %s: give growing numbers of sessions, such as 1,10,100,1000", o.growth)
		}
		numbers = append(numbers, n)
	}
	d, err := newTalaria(o.binary, o.engine, temp, as)
	if err != nil {
		return err
	}
	s, err := d.start(ctx, flavour{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	c := s.(*talariaServer).client
	fmt.Fprintf(stdout, "| sessions | create → `1+1`, p50 / p95 ms | warm `1+1` over HTTP, p50 / p95 ms | a cell in one of them at random, p50 / p95 ms | "+
		"`GET /v1/sessions?limit=1000`, ms | PSS of everything, MiB per session |\n|--:|--:|--:|--:|--:|--:|\n")
	var ids []string
	for _, n := range numbers {
		for len(ids) < n {
			free, total, err := available()
			if err != nil {
				return err
			}
			if free < total/spare {
				fmt.Fprintf(progress, "%d sessions leave only %d MiB of memory; stopping here\n", len(ids), free/mib)
				return nil
			}
			id, err := makeOne(ctx, c, len(ids))
			if err != nil {
				return err
			}
			ids = append(ids, id)
		}
		fmt.Fprintf(progress, "measuring with %d sessions\n", n)
		g, err := growthAt(ctx, s, c, ids)
		if err != nil {
			return fmt.Errorf("with %d sessions: %w", n, err)
		}
		fmt.Fprintln(stdout, g.line())
	}
	return nil
}

// growthAt measures a server with these sessions.
func growthAt(ctx context.Context, s server, c *client.Client, ids []string) (*growing, error) {
	g := &growing{sessions: len(ids)}
	if err := s.settle(ctx); err != nil {
		return nil, err
	}
	memory, err := pss(descendants(os.Getpid()))
	if err != nil {
		return nil, err
	}
	g.memory = float64(memory) / mib / float64(len(ids))
	random := rand.New(rand.NewPCG(5, 6))
	for range growthCold {
		i := random.IntN(len(ids))
		if err := asked(ctx, c, ids[i], "kept", strconv.Itoa(i), &g.first); err != nil {
			return nil, err
		}
	}
	for range growthWarm {
		if err := asked(ctx, c, ids[0], "1 + 1", "2", &g.warm); err != nil {
			return nil, err
		}
	}
	for range growthCreates {
		if err := s.settle(ctx); err != nil {
			return nil, err
		}
		begin := time.Now()
		id, err := makeOne(ctx, c, 0)
		if err != nil {
			return nil, err
		}
		g.create = append(g.create, ms(time.Since(begin)))
		if err := c.DeleteSession(ctx, id); err != nil {
			return nil, err
		}
	}
	for range growthLists {
		begin := time.Now()
		page, err := c.Sessions(ctx, client.SessionFilter{Page: api.PageQuery{Limit: api.MaxPage}})
		if err != nil {
			return nil, err
		}
		if want := min(len(ids), api.MaxPage); len(page.Items) != want {
			return nil, fmt.Errorf("%d of %d sessions are listed", len(page.Items), want)
		}
		g.list = append(g.list, ms(time.Since(begin)))
	}
	return g, nil
}

// asked runs a cell over HTTP, checks its value, and adds how long it took.
func asked(ctx context.Context, c *client.Client, id, code, want string, took *[]float64) error {
	begin := time.Now()
	text, err := ask(ctx, c, id, code)
	*took = append(*took, ms(time.Since(begin)))
	if err == nil && text != want {
		err = fmt.Errorf("%s gave %q instead of %s", code, text, want)
	}
	return err
}

func (g *growing) line() string {
	pair := func(samples []float64) string {
		s := summarize(samples)
		return figure(s.P50) + " / " + figure(s.P95)
	}
	return fmt.Sprintf("| %d | %s | %s | %s | %s | %s |", g.sessions, pair(g.create), pair(g.warm), pair(g.first),
		figure(summarize(g.list).P50), figure(g.memory))
}
