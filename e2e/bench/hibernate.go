package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"talaria/api"
)

var (
	// sleptMiB are how many MiB the sessions of the rows hibernate and wake hold.
	sleptMiB = []int{10, 100}
	// pickledMiB are the sizes of the row pickle: theirs and that of the forks.
	pickledMiB = []int{10, forkedMiB, 100}
	// forkCounts are how many forks the row fork makes at once.
	forkCounts = []int64{1, 64}
)

// forkedMiB is how much the session of the row fork holds.
const forkedMiB = 20

// holdFrames is a cell that makes so many arrays and frames of 1 MiB, in turns, of numbers that nothing can compress.
const holdFrames = `
import numpy, pandas
held = [numpy.random.default_rng(i).random(1 << 17) for i in range(%d)]
held[1::2] = [pandas.DataFrame(array.reshape(-1, 8), copy=True) for array in held[1::2]]
x = 0`

// sameFrames is a cell whose value says whether they are as they were made.
const sameFrames = `all(numpy.array_equal(numpy.asarray(value).ravel(), numpy.random.default_rng(i).random(1 << 17)) for i, value in enumerate(held))`

// hibernating measures saving the variables of a session and ending its kernel.
func hibernating(ctx context.Context, t *trial) error {
	return t.napping(ctx, func(down, _ time.Duration) float64 { return ms(down) })
}

// waking measures starting the kernel of a session with the variables that were saved.
func waking(ctx context.Context, t *trial) error {
	return t.napping(ctx, func(_, up time.Duration) float64 { return ms(up) })
}

// napping has sessions hibernate and wake, and measures what is picked of both times.
func (t *trial) napping(ctx context.Context, pick func(down, up time.Duration) float64) error {
	return t.holding(ctx, sleptMiB, holdFrames, func(_ context.Context, ses *talariaSession, c conn) (sampler, error) {
		return func(ctx context.Context) ([]float64, error) {
			before, err := value(ctx, c, "x += 1\nx") // so that no two savings are the same bytes
			if err != nil {
				return nil, err
			}
			down, up, err := ses.nap(ctx)
			if err != nil {
				return nil, err
			}
			after, err := value(ctx, c, "x")
			if err == nil && after != before {
				err = fmt.Errorf("x was %s, and is %s after waking", before, after)
			}
			return []float64{pick(down, up)}, errors.Join(err, checkFrames(ctx, c))
		}, nil
	})
}

// nap has a session hibernate, and wakes it when the pool of kernels is full. It returns how long the answers took.
func (s *talariaSession) nap(ctx context.Context) (down, up time.Duration, err error) {
	begin := time.Now()
	slept, err := s.client().Hibernate(ctx, s.id)
	down = time.Since(begin)
	if err != nil {
		return 0, 0, fmt.Errorf("hibernate: %w", err)
	}
	if len(slept.NotSaved) > 0 {
		return 0, 0, fmt.Errorf("not saved: %+v", slept.NotSaved)
	}
	if err := s.server.settle(ctx); err != nil {
		return 0, 0, err
	}
	begin = time.Now()
	woken, err := s.client().Wake(ctx, s.id)
	up = time.Since(begin)
	if err != nil {
		return 0, 0, fmt.Errorf("wake: %w", err)
	}
	if len(woken.NotRestored) > 0 {
		return 0, 0, fmt.Errorf("not restored: %+v", woken.NotRestored)
	}
	return down, up, nil
}

func checkFrames(ctx context.Context, c conn) error {
	text, err := value(ctx, c, sameFrames)
	if err == nil && text != "True" {
		err = fmt.Errorf("whether the values are the same: %s", text)
	}
	return err
}

// forking measures making forks: to the answer, and until the first of them has answered a cell.
func forking(ctx context.Context, t *trial) error {
	return t.holding(ctx, []int{forkedMiB}, holdFrames, func(_ context.Context, ses *talariaSession, _ conn) (sampler, error) {
		return func(ctx context.Context) (values []float64, err error) {
			for _, count := range forkCounts {
				if t.quick {
					count = max(1, count/quickDivisor)
				}
				answered, used, err := ses.fork(ctx, count)
				if err != nil {
					return nil, fmt.Errorf("%d forks: %w", count, err)
				}
				values = append(values, ms(answered), ms(used))
			}
			return values, nil
		}, nil
	})
}

// fork makes so many forks of a session and deletes them. It returns how long the answer took, and the first cell of the first fork
// from the same moment on.
func (s *talariaSession) fork(ctx context.Context, count int64) (answered, used time.Duration, err error) {
	if err := s.server.settle(ctx); err != nil {
		return 0, 0, err
	}
	begin := time.Now()
	made, err := s.client().Fork(ctx, s.id, api.ForkRequest{Count: &count})
	answered = time.Since(begin)
	if err != nil {
		return 0, 0, err
	}
	defer func() { err = errors.Join(err, s.deleteForks(ctx, made.Items)) }()
	if int64(len(made.Items)) != count {
		return 0, 0, fmt.Errorf("there are %d", len(made.Items))
	}
	for _, item := range made.Items {
		if item.Problem != nil {
			return 0, 0, item.Problem
		}
	}
	first := made.Items[0].Session.ID
	if _, err := ask(ctx, s.client(), first, "x"); err != nil {
		return 0, 0, err
	}
	used = time.Since(begin)
	text, err := ask(ctx, s.client(), first, sameFrames)
	if err == nil && text != "True" {
		err = fmt.Errorf("whether the values of the first one are the same: %s", text)
	}
	return answered, used, err
}

func (s *talariaSession) deleteForks(ctx context.Context, forks []api.Fork) error {
	var errs []error
	for _, fork := range forks {
		if fork.Session != nil {
			errs = append(errs, s.client().DeleteSession(ctx, fork.Session.ID))
		}
	}
	return errors.Join(errs...)
}

// findPickler is a cell whose value is the name of the module that pickles: cloudpickle where there is one.
const findPickler = `
import os, time
try:
    import cloudpickle as pickler
except ImportError:
    import pickle as pickler
pickler.__name__`

// pickleAll is a cell whose value is how many seconds it takes to pickle the variables to a file on the disk, as hibernation does.
const pickleAll = `
begin = time.perf_counter()
with open("held.pickle", "wb") as f:
    pickler.dump({"held": held, "x": x}, f, protocol=-1)
    f.flush()
    os.fsync(f.fileno())
took = time.perf_counter() - begin
os.remove("held.pickle")
took`

// pickling measures what a program can do itself instead of hibernating.
func pickling(ctx context.Context, t *trial) error {
	return t.holding(ctx, pickledMiB, holdFrames, func(ctx context.Context, _ *talariaSession, c conn) (sampler, error) {
		module, err := value(ctx, c, findPickler)
		t.noteAll("with " + strings.Trim(module, "'"))
		return func(ctx context.Context) ([]float64, error) {
			text, err := value(ctx, c, pickleAll)
			if err != nil {
				return nil, err
			}
			seconds, err := strconv.ParseFloat(text, 64)
			return []float64{seconds * 1000}, err
		}, err
	})
}
