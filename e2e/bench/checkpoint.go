package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"talaria/api"
)

// heldMiB are how many MiB of arrays the sessions of the rows about checkpoints hold.
var heldMiB = []int{0, 50, 500, 2048}

// rewrittenMiB is how much the session of the row after-checkpoint holds.
const rewrittenMiB = 500

const (
	// quickDivisor makes sizes and numbers smaller in a quick run.
	quickDivisor = 10
	// bigMiB is from where on a session gets a limit of memory above the default: twice what it holds. Four times what it holds must
	// be available on the machine.
	bigMiB = 1024
)

// holdArrays is a cell that makes so many arrays of 1 MiB.
const holdArrays = `
import numpy
held = [numpy.ones(1 << 17) for _ in range(%d)]
x = 0`

// holding measures in a session for each size, in which the cell fill has made so many MiB in the list held. begin is called once
// in each session. The metrics of the row are those of a sample, for one size after the other. A size that there is no room for is
// skipped.
func (t *trial) holding(ctx context.Context, sizes []int, fill string,
	begin func(context.Context, *talariaSession, conn) (sampler, error)) error {
	s, err := t.use(ctx, flavour{})
	if err != nil {
		return err
	}
	each := t.metrics / len(sizes)
	for i, size := range sizes {
		if t.quick {
			size /= quickDivisor
		}
		part := &trial{stage: t.stage, n: t.n, warmUp: t.warmUp, quick: t.quick}
		noRoom, err := withHeld(ctx, s, size, fill, func(ses *talariaSession, c conn) error {
			sample, err := begin(ctx, ses, c)
			if err != nil {
				return err
			}
			return part.repeat(ctx, sample)
		})
		for metric := range each {
			if noRoom != "" {
				t.note(i*each+metric, skipped+noRoom)
			} else if metric < len(part.values) {
				t.add(i*each+metric, part.values[metric]...)
			}
		}
		if err != nil {
			return fmt.Errorf("with %d MiB: %w", size, err)
		}
	}
	return nil
}

// withHeld makes a session, has the cell fill make so many MiB in it, and deletes it when use is done. Where the machine or the
// server has no room for them it returns why.
func withHeld(ctx context.Context, s server, size int, fill string, use func(*talariaSession, conn) error) (noRoom string, err error) {
	if noRoom, err = needsMachine(size); err != nil || noRoom != "" {
		return noRoom, err
	}
	err = within(ctx, s, attachment{}, func(ses session, c conn) error {
		own, ok := ses.(*talariaSession)
		if !ok {
			return errors.New("only Talaria has checkpoints")
		}
		var err error
		if noRoom, err = own.allow(ctx, size); err != nil || noRoom != "" {
			return err
		}
		if err := cell(ctx, c, fmt.Sprintf(fill, size), ignore); err != nil {
			return err
		}
		return use(own, c)
	})
	return noRoom, err
}

// needsMachine says what the machine lacks for a session that holds so many MiB; "" if nothing.
func needsMachine(size int) (string, error) {
	if size < bigMiB {
		return "", nil
	}
	free, _, err := available()
	if need := int64(size) * 4; err == nil && free/mib < need {
		return fmt.Sprintf("it takes %d MiB of memory, and %d are available", need, free/mib), nil
	}
	return "", err
}

// allow raises the limit of memory of a session that is to hold so many MiB, if the default is too low. It returns why the server
// refuses; "" if it does not.
func (s *talariaSession) allow(ctx context.Context, size int) (refused string, err error) {
	if size < bigMiB {
		return "", nil
	}
	limits := &api.LimitsRequest{MemoryBytes: new(int64(size) * 2 * mib)}
	_, err = s.client().UpdateSession(ctx, s.id, api.SessionPatch{Limits: limits})
	if problem, ok := errors.AsType[*api.Error](err); ok && problem.Code == api.CodeInvalidRequest {
		return problem.Detail, nil
	}
	if err != nil {
		return "", fmt.Errorf("raise the limit of memory: %w", err)
	}
	return "", nil
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
	return t.holding(ctx, heldMiB, holdArrays, func(_ context.Context, ses *talariaSession, _ conn) (sampler, error) {
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
	return t.holding(ctx, heldMiB, holdArrays, func(ctx context.Context, ses *talariaSession, c conn) (sampler, error) {
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
	return t.holding(ctx, []int{rewrittenMiB}, holdArrays, func(_ context.Context, ses *talariaSession, c conn) (sampler, error) {
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
