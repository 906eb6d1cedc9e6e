package kernel

import (
	"context"
	"fmt"
)

// Do implements [Doer].
func (h *Host) Do(ctx context.Context, key Key, c Command) (reply any, err error) {
	k := h.kernel(key)
	if k == nil {
		return nil, ErrNoKernel
	}
	return k.do(ctx, c)
}

// do carries a command out. Every command has one line here.
func (k *interpreter) do(ctx context.Context, c Command) (reply any, err error) {
	switch c := c.(type) {
	case Execution:
		return nil, k.execute(c)
	case Interrupt:
		k.interrupt(c.ExecutionID)
		return nil, nil
	case AnswerInput:
		return nil, k.answerAsk(AskInput, c.RequestID, askAnswered, answerOut{Body: inputAnswer{c.Value}})
	case RefuseInput:
		return nil, k.answerAsk(AskInput, c.RequestID, askRefused, answerOut{Error: inputRefused})
	case InstallOutput:
		return nil, k.tellProgress(AskInstall, c.RequestID, c.Text)
	case AnswerInstall:
		return nil, k.answerAsk(AskInstall, c.RequestID, askAnswered, installAnswerOf(c.Result))
	case ReadUsage:
		return k.usage(ctx)
	case ChangeLimits:
		return k.changeLimits(ctx, c.Limits)
	case ChangeNetwork:
		return k.changeNetwork(ctx, c.Network)
	case Query:
		return k.ask(ctx, c)
	case OpenTerminal:
		return k.openTerminal(ctx, c.Size)
	case ListTerminals:
		return k.terminalIDs(), nil
	case ReadTerminal:
		return k.readTerminal(ctx, c)
	case WriteTerminal:
		return k.writeTerminal(ctx, c)
	case ResizeTerminal:
		return nil, k.resizeTerminal(c)
	case CloseTerminal:
		return nil, k.closeTerminal(ctx, c.ID)
	}
	return nil, fmt.Errorf("%w: %q", ErrUnknownCommand, c.Spec().Name)
}
