package e2b

import (
	"context"
	"slices"

	"talaria/api"
	"talaria/session"
	"talaria/session/processes"
)

// startTerminal opens a terminal of the session. That is a shell in the workspace, as the SDK asks for.
func (h *Handler) startTerminal(ctx context.Context, q *request, in startRequest, out *messages) error {
	if !isShell(in.Process) || directory(in.Process.Cwd) != "" {
		return api.Errorf(api.CodeNotImplemented, "a terminal runs bash in %s here; start other programs in it", home)
	}
	if in.Tag != "" {
		return api.Errorf(api.CodeNotImplemented, "a terminal has no tag here; leave it out and use the pid")
	}
	for name := range in.Process.Envs {
		if !slices.Contains(terminalVariables, name) {
			return api.Errorf(api.CodeNotImplemented, "a terminal has the variables of its sandbox; set %.80s when the sandbox is created, or in the shell", name)
		}
	}
	s, err := h.sandbox(q, api.RightTerminal)
	if err != nil {
		return err
	}
	defer s.Release()
	t, err := s.Terminals().Open(q.command(), api.TerminalRequest{Rows: &in.PTY.Size.Rows, Cols: &in.PTY.Size.Cols})
	if err != nil {
		return err
	}
	return followTerminal(ctx, q, s, t.ID, out)
}

// followTerminal sends what a terminal shows, from the oldest that is kept, until its shell ends.
func followTerminal(ctx context.Context, q *request, s *session.Session, id string, out *messages) error {
	f, err := begin(q, id, true, out)
	if err != nil {
		return err
	}
	defer f.ticker.Stop()
	for after := int64(0); ; {
		piece, err := await(f, ctx, func(ctx context.Context) (processes.TerminalOutput, error) { return s.Terminals().Read(ctx, id, after) })
		if err != nil {
			return err
		}
		if len(piece.Data) > 0 {
			if err := out.send(event(object{"data": object{"pty": piece.Data}})); err != nil {
				return err
			}
		}
		if piece.Ended {
			return out.send(ended(piece.Code, 0))
		}
		after = piece.Offset + int64(len(piece.Data))
	}
}

func (h *Handler) updateProcess(q *request, in struct {
	selector
	PTY *ptySize `json:"pty"`
}) (any, error) {
	p, err := h.process(q, in.selector)
	if err != nil {
		return nil, err
	}
	defer p.session.Release()
	if !p.terminal || in.PTY == nil {
		return nil, api.Errorf(api.CodeInvalidRequest, "only the size of a terminal can change")
	}
	return object{}, p.session.Terminals().Resize(q.command(), p.id, in.PTY.Size.Rows, in.PTY.Size.Cols)
}
