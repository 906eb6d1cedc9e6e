package host

import (
	"bytes"
	"errors"
	"fmt"
	"time"

	"talaria/kernel/frame"
	"talaria/kernel/record"
	"talaria/kernel/trace"
)

var errUnexpected = errors.New("not expected now")

// readControl handles the runner's frames until the stream ends. It does not read while too many records wait.
func (k *interpreter) readControl() {
	defer close(k.controlEnded)
	reader := frame.NewReader(k.first.Control(), k.records.Flush, frame.LongLine{Dir: k.spoolDir, Budget: k.large})
	defer reader.Close()
	for k.records.WaitRoom() {
		line, err := reader.Next()
		switch {
		case errors.Is(err, frame.ErrTooLong):
			k.dropUnread(err)
		case errors.Is(err, frame.ErrLost):
			k.log.Error("keep a large frame", "error", err)
			k.dropUnread(frame.ErrLost)
		case err != nil:
			return
		default:
			k.handleLine(line)
		}
		reader.Done()
	}
}

func (k *interpreter) handleLine(line []byte) {
	if len(bytes.TrimSpace(line)) == 0 {
		return
	}
	f, err := frame.Decode(line)
	if err != nil {
		k.dropUnread(err)
		return
	}
	if err := k.handleFrame(f); err != nil {
		k.drop(err)
	}
	if s, ok := f.(frame.Stream); ok {
		record.RecycleBuffer(s.Text)
	}
}

// dropUnread drops a frame that cannot be read, and tells the running cell once, since the frame may have had a
// meaning.
func (k *interpreter) dropUnread(why error) {
	k.drop(why)
	defer k.records.Flush()
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.run != nil && !k.run.unreadTold {
		k.run.unreadTold = true
		k.tellLocked(fmt.Sprintf("[an output of this cell was dropped: %.200v]", why))
	}
}

// drop counts a dropped frame. Only the first is logged: a runner may send any number of them.
func (k *interpreter) drop(why error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.dropped++; k.dropped == 1 {
		k.log.Debug("dropped a frame", "error", why)
	}
}

func (k *interpreter) handleFrame(f frame.Frame) error {
	if done, ok := f.(frame.Done); ok {
		return k.done(done)
	}
	var limit *record.LimitHit
	if raised, ok := f.(frame.Error); ok {
		limit = k.explain(&raised)
		f = raised
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if ready, ok := f.(frame.Ready); ok {
		return k.becomeReady(ready)
	}
	if k.phase == starting || k.phase == over {
		return errUnexpected
	}
	switch f := f.(type) {
	case frame.Stream:
		k.atMark(f.Mark, func() { k.records.Text(k.owner(f.ID), f.Name, f.Text) })
	case frame.Display:
		k.atMark(f.Mark, func() { k.records.Add(k.owner(f.ID), f.Body) })
	case frame.Clear:
		k.atMark(f.Mark, func() { k.records.Add(k.owner(f.ID), record.Clear{Wait: f.Wait}) })
	case frame.Result:
		if !k.runs(f.ID) || k.run.resulted || k.run.Silent {
			return errUnexpected
		}
		k.run.resulted = true
		k.settle((*tap).release)
		k.records.Add(f.ID, f.Body)
	case frame.Error:
		if !k.runs(f.ID) || k.run.raised != nil {
			return errUnexpected
		}
		k.run.raised = &f.Info
		k.settle((*tap).release)
		k.records.Add(f.ID, record.Raised{Error: f.Info, Limit: limit})
	case frame.Ask:
		return k.openAsk(f)
	case frame.AskEnd:
		return k.withdrawAsk(f)
	case frame.ToolEnd:
		return k.toolEnded(f)
	case frame.Expressions:
		if !k.runs(f.ID) || k.run.evaluated || len(k.run.Expressions) == 0 {
			return errUnexpected
		}
		k.run.evaluated = true
		k.records.Add(f.ID, f.Body)
	case frame.Comm:
		return k.commSent(f)
	case frame.CommEnd:
		return k.commHandled(f)
	case frame.QueryAnswer:
		return k.answered(f)
	}
	return nil
}

func (k *interpreter) becomeReady(f frame.Ready) error {
	if k.phase == serving {
		return k.woken(f)
	}
	if k.phase != starting {
		return errUnexpected
	}
	k.phase, k.started = serving, time.Now()
	k.marks.begin(f.Mark)
	close(k.ready)
	return nil
}

// done ends the running execution. A kernel that is being killed cannot finish any more: what the record says about
// the variables would not be true.
func (k *interpreter) done(f frame.Done) error {
	k.mu.Lock()
	running := k.runs(f.ID)
	k.mu.Unlock()
	if !running {
		return errUnexpected
	}
	ended := time.Now()
	trace.Step("cell executed")
	after := k.measure(measureTimeout)
	trace.Step("usage after the cell read")
	k.tellKills(after)

	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.runs(f.ID) || k.cause != nil || k.phase == over {
		return errUnexpected
	}
	run := k.run
	run.stopTimers()
	k.settle((*tap).flush)
	k.closeAsks(run, askInterrupted)
	if run.limit != nil && run.raised == nil {
		k.tellLocked(fmt.Sprintf("[%v; %s]", run.limit, kept))
	}
	finished := record.Finished{Status: run.status(f), Error: run.raised, Usage: run.usage(ended, after)}
	k.run = nil
	k.records.Add(f.ID, finished)
	return nil
}

// status returns how the execution ended, given what the runner says and what the host asked for.
func (r *running) status(f frame.Done) record.Status {
	switch {
	case !f.Failed && r.raised == nil:
		return record.OK
	case r.timedOut:
		return record.TimedOut
	case r.interrupted && f.Interrupted && r.raised != nil && r.raised.Ename == "KeyboardInterrupt":
		return record.Interrupted
	}
	return record.Errored
}

// runs reports whether that execution is running. The caller holds mu.
func (k *interpreter) runs(id string) bool { return k.run != nil && k.run.ID == id }

// owner returns the execution that output with that id belongs to: that one if this kernel ran it, else the running
// one, else the last. The caller holds mu.
func (k *interpreter) owner(id string) string {
	if id != k.lastID && id != k.reserved && k.given.has(id) {
		return id
	}
	return k.lastID
}

// atMark emits the content of a frame after the text that the pipes had before its mark, and before the text after it.
// The caller holds mu.
func (k *interpreter) atMark(mark uint64, emit func()) {
	if mark == 0 {
		emit()
		return
	}
	k.marks.passed = max(k.marks.passed, mark-1)
	for _, t := range k.taps {
		t.advance()
		if t.seen < mark {
			t.drain()
		}
	}
	emit()
	k.marks.passed = max(k.marks.passed, mark)
	for _, t := range k.taps {
		t.advance()
	}
}

// settle reads what is in the pipes now and emits all of it, with letOut. The caller holds mu.
func (k *interpreter) settle(letOut func(*tap)) {
	for _, t := range k.taps {
		t.drain()
		letOut(t)
	}
}
