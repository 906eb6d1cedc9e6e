package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"talaria/api"
)

// oneshot measures a program that is run without a session, to its answer, and the program itself as the server reports it.
func oneshot(language, code, prints string) func(context.Context, *trial) error {
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
