package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"talaria/api"
)

// heldMiB are how many MiB of arrays the sessions of the rows about checkpoints hold.
var heldMiB = []int{0, 50, 500}

// quickDivisor makes these smaller in a quick run.
const quickDivisor = 10

// holding measures in a session for each size, which holds so many arrays of 1 MiB in the list held. begin is called once in each
// session. The metrics of the row are those of a sample, for one size after the other.
func (t *trial) holding(ctx context.Context, sizes []int, begin func(context.Context, *talariaSession, conn) (sampler, error)) error {
	s, err := t.use(ctx, flavour{})
	if err != nil {
		return err
	}
	metric := 0
	for _, mib := range sizes {
		if t.quick {
			mib /= quickDivisor
		}
		part := &trial{stage: t.stage, n: t.n, warmUp: t.warmUp, quick: t.quick}
		err := within(ctx, s, attachment{}, func(ses session, c conn) error {
			own, ok := ses.(*talariaSession)
			if !ok {
				return errors.New("only Talaria has checkpoints")
			}
			fill := fmt.Sprintf("import numpy\nheld = [numpy.ones(1 << 17) for _ in range(%d)]\nx = 0", mib)
			if err := cell(ctx, c, fill, ignore); err != nil {
				return err
			}
			sample, err := begin(ctx, own, c)
			if err != nil {
				return err
			}
			return part.repeat(ctx, sample)
		})
		for _, values := range part.values {
			t.add(metric, values...)
			metric++
		}
		if err != nil {
			return fmt.Errorf("with %d MiB of arrays: %w", mib, err)
		}
	}
	return nil
}

// sampler takes a sample.
type sampler = func(context.Context) ([]float64, error)

// checkpoint makes a checkpoint that has the variables.
func (s *talariaSession) checkpoint(ctx context.Context) (api.Checkpoint, error) {
	made, err := s.client().Checkpoint(ctx, s.id, api.CheckpointRequest{Level: new(api.CheckpointLive)})
	if err != nil {
		return made, fmt.Errorf("make a checkpoint: %w", err)
	}
	return made, nil
}

// checkpointing measures making a checkpoint.
func checkpointing(ctx context.Context, t *trial) error {
	return t.holding(ctx, heldMiB, func(_ context.Context, ses *talariaSession, _ conn) (sampler, error) {
		return func(ctx context.Context) ([]float64, error) {
			begin := time.Now()
			made, err := ses.checkpoint(ctx)
			took := time.Since(begin)
			if err != nil {
				return nil, err
			}
			return []float64{ms(took)}, ses.client().DropCheckpoint(ctx, ses.id, made.ID)
		}, nil
	})
}

// rollingBack measures going back to a checkpoint, which makes one of what was before.
func rollingBack(ctx context.Context, t *trial) error {
	return t.holding(ctx, heldMiB, func(ctx context.Context, ses *talariaSession, c conn) (sampler, error) {
		point, err := ses.checkpoint(ctx)
		return func(ctx context.Context) ([]float64, error) {
			if err := cell(ctx, c, "x += 1", ignore); err != nil {
				return nil, err
			}
			begin := time.Now()
			done, err := ses.client().Rollback(ctx, ses.id, api.RollbackRequest{CheckpointID: &point.ID})
			took := time.Since(begin)
			if err != nil {
				return nil, fmt.Errorf("roll back: %w", err)
			}
			text, err := value(ctx, c, "x")
			if err == nil && text != "0" {
				err = fmt.Errorf("x is %s after the rollback", text)
			}
			return []float64{ms(took)}, errors.Join(err, ses.client().DropCheckpoint(ctx, ses.id, done.Undo))
		}, err
	})
}

// afterCheckpoint measures a cell that writes to a tenth of the arrays, right after a checkpoint and without one.
func afterCheckpoint(ctx context.Context, t *trial) error {
	return t.holding(ctx, heldMiB[2:], func(_ context.Context, ses *talariaSession, c conn) (sampler, error) {
		rewrite := func(ctx context.Context) (time.Duration, error) {
			begin := time.Now()
			err := cell(ctx, c, "for array in held[:len(held) // 10]: array += 1", ignore)
			return time.Since(begin), err
		}
		return func(ctx context.Context) ([]float64, error) {
			if _, err := rewrite(ctx); err != nil { // what it writes to is its own afterwards
				return nil, err
			}
			without, err := rewrite(ctx)
			if err != nil {
				return nil, err
			}
			made, err := ses.checkpoint(ctx)
			if err != nil {
				return nil, err
			}
			after, err := rewrite(ctx)
			return []float64{ms(after), ms(without)}, errors.Join(err, ses.client().DropCheckpoint(ctx, ses.id, made.ID))
		}, nil
	})
}

// mapping measures a map of so many items that do nothing, to its answer.
func mapping(items int, concurrency int64) func(context.Context, *trial) error {
	return func(ctx context.Context, t *trial) error {
		n := items
		if t.quick {
			n /= quickDivisor
		}
		req := api.MapRequest{Code: new("item + 1"), Concurrency: &concurrency}
		for i := range n {
			req.Inputs = append(req.Inputs, api.Raw(fmt.Sprint(i)))
		}
		return inOneSession(ctx, t, attachment{}, func(ctx context.Context, ses session, _ conn) ([]float64, error) {
			own, ok := ses.(*talariaSession)
			if !ok {
				return nil, errors.New("only Talaria has maps")
			}
			begin := time.Now()
			result, err := own.client().Map(ctx, own.id, req)
			took := time.Since(begin)
			if err != nil {
				return nil, fmt.Errorf("map: %w", err)
			}
			for i, item := range result.Items {
				if string(item.Value) != fmt.Sprint(i+1) {
					return nil, fmt.Errorf("item %d ended with %s %s", i, item.Status, item.Value)
				}
			}
			if len(result.Items) != n {
				return nil, fmt.Errorf("%d of %d items came", len(result.Items), n)
			}
			return []float64{ms(took)}, nil
		})
	}
}
