package host

import (
	"context"
	"errors"
	"fmt"
	"time"

	"talaria/kernel/command"
	"talaria/kernel/frame"
)

const (
	// saveGrace is how long saving may take beyond the time that it was given, until it is given up.
	saveGrace = 20 * time.Second
	// loadPatience is how long loading may take, which runs code of the variables.
	loadPatience = 2 * time.Minute

	reasonLoading = "loading_variables"
)

func (k *interpreter) saveVariables(ctx context.Context, c command.SaveVariables) (command.SavedVariables, error) {
	answer, err := k.state(ctx, time.Duration(c.Seconds*float64(time.Second))+saveGrace, command.QuerySave, func(id string) any {
		return frame.SaveOut{Type: "save", RequestID: id, Path: c.Path, Seconds: c.Seconds, MaxBytes: c.MaxBytes}
	})
	if err != nil {
		return command.SavedVariables{}, fmt.Errorf("save the variables: %w", err)
	}
	return *answer.Saved, nil
}

// loadVariables stops a kernel whose variables take too long: their code would go on.
func (k *interpreter) loadVariables(ctx context.Context, c command.LoadVariables) (command.LoadedVariables, error) {
	answer, err := k.state(ctx, loadPatience, command.QueryLoad, func(id string) any {
		return frame.LoadOut{Type: "load", RequestID: id, Path: c.Path, Digest: c.Digest}
	})
	if ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) {
		k.kill(ending{reason: reasonLoading})
	}
	if err != nil {
		return command.LoadedVariables{}, fmt.Errorf("load the variables: %w", err)
	}
	return *answer.Loaded, nil
}

// state has the interpreter save or load its variables while no cell runs and no copy is made.
func (k *interpreter) state(ctx context.Context, patience time.Duration, kind command.QueryKind, frameOf func(id string) any) (command.Answer, error) {
	if err := k.copies.begin(ctx); err != nil {
		return command.Answer{}, err
	}
	defer k.copies.end()
	k.mu.Lock()
	err := k.idle()
	k.mu.Unlock()
	if err != nil {
		return command.Answer{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return k.wish(ctx, kind, frameOf)
}
