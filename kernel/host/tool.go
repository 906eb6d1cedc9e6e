package host

import (
	"talaria/kernel/command"
	"talaria/kernel/frame"
	"talaria/kernel/record"
)

const (
	maxCalls = 1024 // open at a time in one kernel

	toolsBusy   = "this kernel has 1,024 tool calls open, which is the limit; wait for some of them first"
	toolEnded   = "the tool call was stopped: %s"
	toolOutside = "tools can be called only while a cell runs"
)

// refuseTool says why no tool can be called now, or returns "". The caller holds mu.
func (k *interpreter) refuseTool(f frame.Ask) string {
	switch {
	case k.noTools != "":
		return k.noTools
	case f.ID == "":
		return toolOutside
	}
	return ""
}

// answerTool answers a call. A call that the runner is to carry out ends with a frame.ToolEnd.
func (k *interpreter) answerTool(c command.AnswerTool) error {
	if c.Run && c.Error == nil {
		k.mu.Lock()
		if a, open := k.findAsk(c.RequestID); open && a.Kind == record.AskTool && k.runs(a.execution) {
			k.run.carriesOut(c.RequestID)
		}
		k.mu.Unlock()
	}
	return k.answerAsk(record.AskTool, c.RequestID, askAnswered, frame.ForTool(c))
}

// carriesOut notes that the runner was given that call.
func (r *running) carriesOut(call string) {
	if r.carried == nil {
		r.carried = map[string]struct{}{}
	}
	r.carried[call] = struct{}{}
}

// toolEnded records how a call ended, once, if the runner was given it. The caller holds mu.
func (k *interpreter) toolEnded(f frame.ToolEnd) error {
	if !k.runs(f.ID) {
		return errUnexpected
	}
	if _, given := k.run.carried[f.Body.CallID]; !given {
		return errUnexpected
	}
	delete(k.run.carried, f.Body.CallID)
	k.records.Add(f.ID, f.Body)
	return nil
}
