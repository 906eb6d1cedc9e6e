package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"talaria/api"
)

// refill is how long the server may take to replace the sandboxes that programs took.
const refill = 300 * time.Millisecond

// oneshot measures a program that is run without a session, to its answer, and the program itself as the server reports it. It waits
// for that long before each.
func oneshot(language, code, prints string, pause time.Duration) func(context.Context, *trial) error {
	return func(ctx context.Context, t *trial) error {
		s, err := t.use(ctx, flavour{})
		if err != nil {
			return err
		}
		own, ok := s.(*talariaServer)
		if !ok {
			return errors.New("only Talaria runs programs without a session")
		}
		return t.repeat(ctx, func(ctx context.Context) ([]float64, error) {
			select {
			case <-time.After(pause):
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			}
			begin := time.Now()
			result, err := own.client.Run(ctx, api.RunRequest{Language: language, Code: &code})
			took := time.Since(begin)
			if err == nil && (result.Verdict != api.VerdictOK || result.Stdout != prints) {
				err = fmt.Errorf("the program ended with %+v", result)
			}
			inside := float64(result.Usage.DurationMS)
			if result.Compile != nil {
				inside += float64(result.Compile.Usage.DurationMS)
			}
			return []float64{ms(took), inside}, err
		})
	}
}

// warmHTTP measures 1+1 over our own HTTP API, which waits for the result.
func warmHTTP(ctx context.Context, t *trial) error {
	s, err := t.use(ctx, flavour{})
	if err != nil {
		return err
	}
	return within(ctx, s, attachment{}, func(ses session, _ conn) error {
		own, ok := ses.(*talariaSession)
		if !ok {
			return errors.New("only Talaria has this API")
		}
		code := "1 + 1"
		return t.repeat(ctx, func(ctx context.Context) ([]float64, error) {
			begin := time.Now()
			e, err := own.client().ExecuteWait(ctx, own.id, api.ExecutionRequest{Code: &code}, time.Minute)
			took := time.Since(begin)
			if err == nil && (e.Status != api.StatusOK || e.Text != "2") {
				err = fmt.Errorf("1 + 1 ended as %s with %q", e.Status, e.Text)
			}
			return []float64{ms(took)}, err
		})
	})
}
