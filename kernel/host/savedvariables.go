package host

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
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

	// letterFile of the workspace is how the host and a copy that waits talk. Its name belongs to unfinished uploads, so that nobody
	// lists it and a crash leaves nothing.
	letterFile = ".talaria-upload-letter"
	maxLetter  = 1 << 20

	unanswered = "the copy of the interpreter gave no answer, perhaps for lack of memory or of space in the workspace"
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

// saveCopy has a copy save its variables, in a fork of itself. The interpreter goes on meanwhile, and so may a cell: whatever goes
// wrong, it is as it was.
func (k *interpreter) saveCopy(ctx context.Context, c command.SaveCopy) (saved command.SavedVariables, err error) {
	if err := k.copies.begin(ctx); err != nil {
		return saved, fmt.Errorf("save the variables of a copy: %w", err)
	}
	defer k.copies.end()
	copier, _ := k.copier()
	k.mu.Lock()
	from, over := k.copies.waiting[c.ID], k.phase != serving || k.cause != nil
	k.mu.Unlock()
	switch {
	case over:
		return saved, command.ErrNoKernel
	case from == nil || copier == nil:
		return saved, command.ErrNoCopy
	case k.watch == nil:
		return saved, errors.New("save the variables of a copy: the workspace of this kernel cannot be reached")
	}
	// A copy that saves cannot be woken, so this lasts until it has, whatever the caller's patience.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Duration(c.Seconds*float64(time.Second))+saveGrace)
	defer cancel()
	id := rand.Text()
	letter, err := frame.Encode(frame.SaveOut{Type: "save", RequestID: id, Path: c.Path, Seconds: c.Seconds, MaxBytes: c.MaxBytes})
	if err != nil {
		return saved, fmt.Errorf("save the variables of a copy: %w", err)
	}
	defer func() { _ = k.watch.dir.Remove(context.WithoutCancel(ctx), letterFile) }()
	if _, _, err := k.watch.dir.Write(ctx, letterFile, bytes.NewReader(letter), int64(len(letter))); err != nil {
		return command.SavedVariables{Reason: fmt.Sprintf("the workspace cannot be written to: %v", err)}, nil
	}
	switch err := copier.SaveIn(ctx, from.process); {
	case errors.Is(err, os.ErrProcessDone):
		return saved, command.ErrNoCopy
	case errors.Is(err, context.DeadlineExceeded): // nobody could wake it
		return saved, errors.Join(fmt.Errorf("save the variables of a copy: %w", err), from.process.Signal(syscall.SIGKILL))
	case err != nil:
		return saved, fmt.Errorf("save the variables of a copy: %w", err)
	}
	return k.readLetter(id), nil
}

// readLetter returns a copy's answer to the letter with that id.
func (k *interpreter) readLetter(id string) command.SavedVariables {
	file, _, err := k.watch.dir.Open(letterFile)
	if err != nil {
		return command.SavedVariables{Reason: unanswered}
	}
	defer file.Close()
	line, err := io.ReadAll(io.LimitReader(file, maxLetter))
	if err != nil {
		return command.SavedVariables{Reason: unanswered}
	}
	decoded, err := frame.Decode(line)
	if answer, ok := decoded.(frame.QueryAnswer); err == nil && ok && answer.RequestID == id && answer.Answer.Saved != nil {
		return *answer.Answer.Saved
	}
	return command.SavedVariables{Reason: unanswered}
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
