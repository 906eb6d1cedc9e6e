package main

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// The metrics of an abuse; harm is there only where the abuse has one.
const (
	abuseAnswer = iota
	abuseGrowth
	abuseHarm
)

const (
	// pace is how often the other owner asks, whether or not the answers before have come.
	pace = 100 * time.Millisecond
	// answerTime is how long an answer may take. One that never comes, or is an error, counts as this long.
	answerTime = 10 * time.Second
	// passTime is how long the other owner goes on asking while the first pass of an abuse has not ended.
	passTime = 30 * time.Second
	// diskGuard ends an abuse once the server keeps this much more on disk, to spare the machine that measures.
	diskGuard = 1 << 30
)

// abuse is something that one owner does to a server while another owner works there.
type abuse struct {
	id      string
	what    string // completes "`1+1` of another owner beside"
	flavour flavour
	harm    *harm
	// pass abuses the server once. It is called again and again until the other owner has asked often enough.
	pass func(ctx context.Context, o *owner) error
}

// harm is what an abuse does besides slowing others down and growing the server. The largest value counts.
type harm struct {
	metric
	// begin is called before the abuse. The function that it returns is called at each question of the other owner.
	begin func(o *owner) (now func() (float64, error), err error)
}

// row measures the abuse on a server of its own.
func (a abuse) row() row {
	metrics := []metric{
		{what: "`1+1` of another owner beside " + a.what, unit: "ms", p50: 100, p95: 100},
		{what: "the same: growth of the server and host", unit: "MiB", p50: 256},
	}
	if a.harm != nil {
		m := a.harm.metric
		m.what = "the same: " + m.what
		metrics = append(metrics, m)
	}
	return row{id: "abusers-" + a.id, n: 100, few: 3, only: talariaName, metrics: metrics, measure: a.measure}
}

func (a abuse) measure(ctx context.Context, t *trial) (err error) {
	served, err := t.renew(ctx, a.flavour)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.clear()) }() // no other row may suffer from what was done to this server
	s := served.(*talariaServer)
	if err := s.settle(ctx); err != nil {
		return err
	}
	other, err := newBystander(ctx, s)
	if err != nil {
		return err
	}
	abuser, err := newOwner(ctx, s)
	if err != nil {
		return err
	}
	defer abuser.close()
	memory, err := watchPeak(s.own())
	if err != nil {
		return err
	}
	err = a.beside(ctx, other, abuser, t)
	grown, unread := memory.growth()
	if unread == nil {
		t.add(abuseGrowth, float64(grown)/mib)
	}
	return errors.Join(err, unread)
}

// beside lets the other owner ask while the abuser is at it, and adds how long the answers took and the worst harm.
func (a abuse) beside(ctx context.Context, other *bystander, abuser *owner, t *trial) error {
	worst, look := 0.0, func() error { return nil }
	if a.harm != nil {
		now, err := a.harm.begin(abuser)
		if err != nil {
			return err
		}
		look = func() error {
			v, err := now()
			worst = max(worst, v)
			return err
		}
	}
	over, stop := context.WithCancel(ctx)
	defer stop()
	first, ended := make(chan struct{}), make(chan error, 1)
	go func() { ended <- a.repeat(over, abuser, first) }()
	answers, unseen := other.ask(ctx, t.n, first, look)
	stop()
	t.add(abuseAnswer, answers...)
	if a.harm != nil {
		t.add(abuseHarm, worst)
	}
	return errors.Join(unseen, <-ended)
}

// repeat calls pass until ctx is done or the disk has taken enough. It closes first after the first pass.
func (a abuse) repeat(ctx context.Context, o *owner, first chan<- struct{}) error {
	before, err := kept(o.server)
	if err != nil {
		return err
	}
	for ; ctx.Err() == nil; o.round++ {
		o.began.Store(time.Now().UnixNano())
		err := a.pass(ctx, o)
		o.began.Store(0)
		if err != nil && ctx.Err() == nil {
			return fmt.Errorf("the abuse came to an end: %w", err)
		}
		if o.round == 0 {
			close(first)
		}
		now, err := kept(o.server)
		if err != nil || now-before > diskGuard {
			return err
		}
		rest(ctx, pace)
	}
	return nil
}

// rest waits, unless ctx ends before.
func rest(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}
