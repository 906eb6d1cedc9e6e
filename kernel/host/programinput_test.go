package host

import (
	"bytes"
	"context"
	"errors"
	"io"
	"testing"

	"talaria/kernel/command"
)

func TestInputOfAProgramArrivesWholeAndEnds(t *testing.T) {
	input, inside, err := newProgramInput()
	if err != nil {
		t.Fatal(err)
	}
	defer inside.Close()
	want := bytes.Repeat([]byte("0123456789abcdef"), 64<<10) // more than a pipe holds
	failed := make(chan error, 1)
	go func() {
		var err error
		for rest := want; len(rest) > 0 && err == nil; {
			var n int
			n, err = input.write(context.Background(), rest)
			rest = rest[n:]
		}
		input.close()
		failed <- err
	}()
	got, err := io.ReadAll(inside)
	if err := errors.Join(err, <-failed); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%d bytes of %d arrived (%v)", len(got), len(want), err)
	}
	if _, err := input.write(context.Background(), []byte("x")); !errors.Is(err, command.ErrInputClosed) {
		t.Errorf("writing after the end: %v", err)
	}
	input.close()
}

func TestInputThatNobodyReadsIsRefusedOrTakenInPart(t *testing.T) {
	input, inside, err := newProgramInput()
	if err != nil {
		t.Fatal(err)
	}
	defer input.close()
	more := make([]byte, 4<<20)
	n, err := input.write(context.Background(), more)
	if err != nil || n == 0 || n == len(more) {
		t.Errorf("a program that reads nothing took %d bytes (%v)", n, err)
	}
	inside.Close()
	if _, err := input.write(context.Background(), []byte("x")); !errors.Is(err, command.ErrInputClosed) {
		t.Errorf("writing to a program that has closed its input: %v", err)
	}
	var none *programInput
	if _, err := none.write(context.Background(), nil); !errors.Is(err, command.ErrInputClosed) {
		t.Errorf("writing to a program without input: %v", err)
	}
	none.close()
}
