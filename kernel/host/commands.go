package host

import (
	"context"
	"fmt"

	"talaria/kernel/command"
	"talaria/kernel/frame"
	"talaria/kernel/record"
)

// Do implements [Doer].
func (h *Host) Do(ctx context.Context, key record.Key, c command.Command) (reply any, err error) {
	k := h.kernel(key)
	if k == nil {
		return nil, command.ErrNoKernel
	}
	return k.do(ctx, c)
}

// do carries out a command. Every command has one line here.
func (k *interpreter) do(ctx context.Context, c command.Command) (reply any, err error) {
	switch c := c.(type) {
	case command.Execution:
		return nil, k.execute(c)
	case command.Interrupt:
		k.interrupt(c.ExecutionID)
		return nil, nil
	case command.AnswerInput:
		return nil, k.answerAsk(record.AskInput, c.RequestID, askAnswered, frame.AskAnswer{Body: frame.InputAnswer{Value: c.Value}})
	case command.RefuseInput:
		return nil, k.answerAsk(record.AskInput, c.RequestID, askRefused, frame.AskAnswer{Error: inputRefused})
	case command.InstallOutput:
		return nil, k.tellProgress(record.AskInstall, c.RequestID, c.Text)
	case command.AnswerInstall:
		return nil, k.answerAsk(record.AskInstall, c.RequestID, askAnswered, frame.ForInstall(c.Result))
	case command.AnswerTools:
		return nil, k.answerAsk(record.AskTools, c.RequestID, askAnswered, frame.ForTools(c.Tools))
	case command.AnswerTool:
		return nil, k.answerTool(c)
	case command.ToolProgress:
		return nil, k.tellProgress(record.AskTool, c.RequestID, c.Message)
	case command.AnswerAfter:
		return nil, k.answerAsk(record.AskAfter, c.RequestID, askAnswered, frame.ForAfter(c))
	case command.CommMessage:
		return nil, k.commMessage(c)
	case command.ListComms:
		return k.openComms(), nil
	case command.ReadUsage:
		return k.usage(ctx)
	case command.ChangeLimits:
		return k.changeLimits(ctx, c.Limits)
	case command.ChangeNetwork:
		return k.changeNetwork(ctx, c.Network)
	case command.Query:
		return k.ask(ctx, c)
	case command.Ping:
		_, err := k.ask(ctx, command.Query{Kind: command.QueryPing})
		return command.Pong{}, err
	case command.MakeCopy:
		return k.makeCopy(ctx, c.ID)
	case command.StepAside:
		return k.stepAside(ctx, c)
	case command.Resume:
		id, err := k.resume(ctx)
		return id != "", err
	case command.WakeCopy:
		return nil, k.wakeCopy(ctx, c.ID)
	case command.DropCopy:
		return nil, k.dropCopy(ctx, c.ID)
	case command.SaveVariables:
		return k.saveVariables(ctx, c)
	case command.SaveCopy:
		return k.saveCopy(ctx, c)
	case command.LoadVariables:
		return k.loadVariables(ctx, c)
	case command.ListCopies:
		return k.copyIDs(), nil
	case command.OpenTerminal:
		return k.openTerminal(ctx, c.Size)
	case command.ListTerminals:
		return k.terminalIDs(), nil
	case command.ReadTerminal:
		return k.readTerminal(ctx, c)
	case command.WriteTerminal:
		return k.writeTerminal(ctx, c)
	case command.ResizeTerminal:
		return nil, k.resizeTerminal(c)
	case command.CloseTerminal:
		return nil, k.closeTerminal(ctx, c.ID)
	case command.StartProgram:
		return k.startProgram(ctx, c)
	case command.ListPrograms:
		return k.listPrograms(), nil
	case command.ReadProgram:
		return k.readProgram(ctx, c)
	case command.WriteProgram:
		return k.writeProgram(ctx, c)
	case command.CloseProgramInput:
		return nil, k.closeProgramInput(c.ID)
	case command.SignalProgram:
		return nil, k.signalProgram(c)
	}
	return nil, fmt.Errorf("%w: %q", command.ErrUnknown, c.Spec().Name)
}
