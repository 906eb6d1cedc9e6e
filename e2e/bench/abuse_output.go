package main

import (
	"context"

	"talaria/api"
)

// displays are large displays of one cell, and the answers that have them.
var displays = abuse{
	id: "displays", what: "a cell that displays 180 MB, and requests for its output", harm: keeps(0),
	pass: func(ctx context.Context, o *owner) error {
		id, err := o.session(ctx, "", api.SessionRequest{})
		if err != nil {
			return err
		}
		err = o.run(ctx, id, `
for n in range(60): display({"text/plain": "x" * 3_000_000 + f"ROUND-{n}"}, raw=True)`)
		o.get(ctx, id, "/executions?limit=5")
		o.get(ctx, id, "/notebook")
		return err
	},
}

// fullAnswers are pages of executions, each of which has printed what it may.
var fullAnswers = abuse{
	id: "full-answers", what: "lists of 12 cells that have printed 8 MB each",
	pass: func(ctx context.Context, o *owner) error {
		id, err := printed(ctx, o)
		o.get(ctx, id, "/executions?limit=100")
		return err
	},
}

// printed returns a session in which 12 cells have printed what they may.
func printed(ctx context.Context, o *owner) (id string, err error) {
	if id, err = o.session(ctx, "", api.SessionRequest{}); err != nil || o.round > 0 {
		return id, err
	}
	for range 12 {
		if err := o.run(ctx, id, `print("x" * 8_000_000)`); err != nil {
			return id, err
		}
	}
	return id, nil
}
