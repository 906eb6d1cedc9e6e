package host

import (
	"fmt"
	"slices"
	"strings"

	"talaria/kernel/command"
	"talaria/kernel/frame"
	"talaria/kernel/record"
)

// askRules are the rules that differ between kinds of asks. All kinds open, end, stop clocks and survive their server
// in the same way.
type askRules struct {
	most       int                                  // how many may be open at a time
	busy       string                               // tells the asker that too many are open
	refuse     func(*interpreter, frame.Ask) string // why this one cannot be opened, or ""; called with mu held
	ended      string                               // tells the asker that no answer will come; %s is why
	stopsClock bool                                 // the timeout of a cell stands still while it waits
	stays      bool                                 // it stays open if its answer cannot be sent, and will be answered again
	notOpen    error                                // the error for an answer that no ask waits for
}

// askKinds has the rules of every kind of ask.
var askKinds = map[record.AskKind]*askRules{
	record.AskInput: {
		most: 1, busy: inputBusy, refuse: (*interpreter).refuseInput, ended: inputEnded,
		stopsClock: true, stays: true, notOpen: command.ErrNoInputPending,
	},
	record.AskInstall: {
		most: 1, busy: installBusy, refuse: (*interpreter).refuseInstall, ended: installEnded,
		stopsClock: true, notOpen: command.ErrNoInstallPending,
	},
	record.AskTools: {
		most: maxCalls, busy: toolsBusy, refuse: (*interpreter).refuseTool, ended: toolEnded,
		stopsClock: true, stays: true, notOpen: command.ErrNoCallPending,
	},
	record.AskTool: {
		most: maxCalls, busy: toolsBusy, refuse: (*interpreter).refuseTool, ended: toolEnded,
		stopsClock: true, stays: true, notOpen: command.ErrNoCallPending,
	},
	record.AskAfter: {
		most: maxAfter, busy: afterBusy, refuse: (*interpreter).refuseAfter, ended: afterEnded,
		stopsClock: true, stays: true, notOpen: command.ErrNoAfterPending,
	},
}

const (
	askLate         = "the cell that asked for it has ended"
	maxProgressText = 64 << 10 // bytes in one frame
)

// The codes of errors with which the host itself answers asks.
const (
	codeBusy    = "limit"       // as many are open as allowed
	codeLate    = "late"        // the cell has ended
	codeRefused = "unavailable" // by the rules of its kind
	codeEnded   = "ended"       // with its execution: no answer will come
)

// How an ask was closed, in the terms of [AskClosed].
const (
	askAnswered    = record.Answered
	askInterrupted = "interrupted"
	askTimedOut    = "timeout"
	askRefused     = "" // not recorded: nobody outside has heard of the ask
)

// ask is an open ask. It is guarded by the lock of its interpreter.
type ask struct {
	command.OpenAsk
	execution string // that asked, or ""
}

// openAsk opens an ask, or tells the asker why not. The caller holds mu.
func (k *interpreter) openAsk(f frame.Ask) error {
	if _, open := k.findAsk(f.Ask); open || k.phase != serving {
		return errUnexpected
	}
	if why, code := k.refusal(f); why != "" {
		return k.frames.Send(frame.AskAnswer{Type: "answer", Ask: f.Ask, Error: why, Code: code})
	}
	if f.ID != "" {
		k.settle((*tap).release)
	}
	k.asks = append(k.asks, ask{command.OpenAsk{Kind: f.Body.Kind(), ID: f.Ask}, f.ID})
	k.tellClock()
	k.records.Add(f.ID, record.Asked{ID: f.Ask, Body: f.Body})
	return nil
}

// findAsk finds an open ask. The caller holds mu.
func (k *interpreter) findAsk(id string) (found ask, open bool) {
	for _, a := range k.asks {
		if a.ID == id {
			return a, true
		}
	}
	return ask{}, false
}

// refusal says why an ask cannot be opened, with the code for that, or returns "". The caller holds mu.
func (k *interpreter) refusal(f frame.Ask) (why, code string) {
	rules, open := askKinds[f.Body.Kind()], 0
	for _, a := range k.asks {
		if a.Kind == f.Body.Kind() {
			open++
		}
	}
	switch {
	case open >= rules.most:
		return rules.busy, codeBusy
	case f.ID != "" && !k.runs(f.ID):
		return askLate, codeLate
	}
	return rules.refuse(k, f), codeRefused
}

// tellProgress shows the asker a text about the progress of an open ask.
func (k *interpreter) tellProgress(kind record.AskKind, id, text string) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if _, err := k.openAskOf(kind, id); err != nil {
		return err
	}
	for text = strings.ToValidUTF8(text, "\uFFFD"); text != ""; {
		piece := frame.Truncate(text, maxProgressText)
		if err := k.frames.Send(frame.AskProgress{Type: "progress", Ask: id, Text: piece}); err != nil {
			return err
		}
		text = text[len(piece):]
	}
	return nil
}

// answerAsk answers an open ask, and closes it.
func (k *interpreter) answerAsk(kind record.AskKind, id, how string, answer frame.AskAnswer) error {
	defer k.records.Flush()
	k.mu.Lock()
	defer k.mu.Unlock()
	open, err := k.openAskOf(kind, id)
	if err != nil {
		return err
	}
	answer.Type, answer.Ask = "answer", id
	if err = k.frames.Send(answer); err != nil && askKinds[kind].stays {
		return err
	}
	k.endAsk(open, how)
	return err
}

// openAskOf finds the open ask with that kind and id. The caller holds mu.
func (k *interpreter) openAskOf(kind record.AskKind, id string) (ask, error) {
	a, open := k.findAsk(id)
	switch {
	case k.phase != serving:
		return a, command.ErrNoKernel
	case !open || a.Kind != kind:
		return a, askKinds[kind].notOpen
	}
	return a, nil
}

// withdrawAsk closes an ask whose asker no longer waits. The caller holds mu.
func (k *interpreter) withdrawAsk(f frame.AskEnd) error {
	a, open := k.findAsk(f.Ask)
	if !open {
		return errUnexpected // it was closed already
	}
	if a.Kind == record.AskInput && k.runs(a.execution) {
		k.run.withdrawn++
	}
	k.closeAsk(a, askInterrupted)
	return nil
}

// closeAsks closes the open asks of an execution; if run is nil, it closes all, including those of no execution. The
// caller holds mu.
func (k *interpreter) closeAsks(run *running, how string) {
	for _, a := range slices.Clone(k.asks) {
		if run == nil || a.execution == run.ID {
			k.closeAsk(a, how)
		}
	}
}

// closeAsk closes an ask without an answer, and tells the asker. The caller holds mu.
func (k *interpreter) closeAsk(a ask, how string) {
	k.endAsk(a, how)
	why := fmt.Sprintf(askKinds[a.Kind].ended, how)
	if err := k.frames.Send(frame.AskAnswer{Type: "answer", Ask: a.ID, Error: why, Code: codeEnded}); err != nil {
		k.log.Debug("tell that an ask was closed", "error", err)
	}
}

// endAsk forgets an ask and records its end. The caller holds mu.
func (k *interpreter) endAsk(a ask, how string) {
	k.asks = slices.DeleteFunc(k.asks, func(other ask) bool { return other.ID == a.ID })
	k.tellClock()
	if how != askRefused {
		k.records.Add(a.execution, record.AskClosed{Kind: a.Kind, ID: a.ID, How: how})
	}
}

// tellClock tells the clock of the running execution, if it has one, whether the execution is waiting for an answer
// from outside. The caller holds mu.
func (k *interpreter) tellClock() {
	if run := k.run; run != nil && run.clock != nil {
		run.clock.wait(slices.ContainsFunc(k.asks, func(a ask) bool {
			return a.execution == run.ID && askKinds[a.Kind].stopsClock
		}))
	}
}
