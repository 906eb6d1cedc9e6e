package e2b

import (
	"context"
	"errors"
	"io"

	"talaria/api"
)

// processInput is what a process gets to read. Protobuf's JSON has exactly one of the fields.
type processInput struct {
	Stdin []byte `json:"stdin"`
	PTY   []byte `json:"pty"`
}

// sendTo writes the input of a program, or types on a terminal. It waits until the process has taken it.
func (in processInput) sendTo(ctx context.Context, p process) error {
	switch {
	case in.Stdin != nil && in.PTY != nil:
		return api.Errorf(api.CodeInvalidRequest, "input must have either stdin or pty, not both")
	case p.terminal: // SDKs send either
		return p.session.Terminals().Write(ctx, p.id, append(in.PTY, in.Stdin...))
	case in.PTY != nil:
		return api.Errorf(api.CodeInvalidRequest, "the process has no terminal; send stdin")
	}
	return p.session.Programs().Write(ctx, p.id, in.Stdin)
}

func (h *Handler) sendInput(q *request, in struct {
	selector
	Input processInput `json:"input"`
}) (any, error) {
	p, err := h.process(q, in.selector)
	if err != nil {
		return nil, err
	}
	defer p.session.Release()
	return object{}, in.Input.sendTo(q.Context(), p)
}

// inputMessage is one message of StreamInput.
type inputMessage struct {
	Start *selector `json:"start"`
	Data  *struct {
		Input processInput `json:"input"`
	} `json:"data"`
}

// streamInput sends input as it comes. The first message names the process. The end of the stream does not end the input.
func (h *Handler) streamInput(q *request) error {
	return clientStream(h, func(ctx context.Context, next func(into any) error) (any, error) {
		var first inputMessage
		switch err := next(&first); {
		case errors.Is(err, io.EOF), err == nil && first.Start == nil:
			return nil, api.Errorf(api.CodeInvalidRequest, "the first message must be start, with the process")
		case err != nil:
			return nil, err
		}
		p, err := h.process(q, *first.Start)
		if err != nil {
			return nil, err
		}
		defer p.session.Release()
		for {
			var m inputMessage
			err := next(&m)
			switch {
			case errors.Is(err, io.EOF):
				return object{}, nil
			case err == nil && m.Start != nil:
				err = api.Errorf(api.CodeInvalidRequest, "only the first message may be start")
			case err == nil && m.Data != nil: // others keep the stream open
				err = m.Data.Input.sendTo(ctx, p)
			}
			if err != nil {
				return nil, err
			}
		}
	})(q)
}

// closeStdin ends the input of a program. A terminal has Control-D for that.
func (h *Handler) closeStdin(q *request, in selector) (any, error) {
	p, err := h.process(q, in)
	if err != nil {
		return nil, err
	}
	defer p.session.Release()
	if p.terminal {
		return nil, api.Errorf(api.CodeInvalidRequest, "the input of a terminal cannot be closed; send Control-D")
	}
	return object{}, p.session.Programs().CloseInput(q.command(), p.id)
}
