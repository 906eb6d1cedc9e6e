package session

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	jsonv2 "github.com/go-json-experiment/json"

	"talaria/api"
	"talaria/kernel/command"
	"talaria/kernel/record"
	"talaria/store"
)

// Cells ask for checkpoints and rollbacks that are made when they have ended. What a cell was promised is in its row from before it
// learns of it until it is done, so that the next server does what this one cannot.

// afterCell is something that a cell was promised.
type afterCell struct {
	Ask        string              `json:"ask"`        // the id of its request
	Checkpoint string              `json:"checkpoint"` // the id of the checkpoint to be made, or to go back to
	Rollback   bool                `json:"rollback,omitzero"`
	Name       string              `json:"name,omitzero"`
	Level      api.CheckpointLevel `json:"level,omitzero"`
	What       api.RollbackPart    `json:"what,omitzero"`
	KeepEdits  bool                `json:"keep_edits,omitzero"`
}

// dueAfter is what an execution that has ended was promised.
type dueAfter struct {
	execution  string
	n          int64
	generation int64 // of its kernel
	list       []afterCell
}

// The pause between two attempts to do it while the interpreter is busy, and the number of attempts.
const (
	afterPause    = 200 * time.Millisecond
	afterAttempts = 15
)

func encodeAfter(list []afterCell) ([]byte, error) {
	if len(list) == 0 {
		return nil, nil
	}
	return jsonv2.Marshal(list)
}

// recoverAfter reads what the execution was promised by an earlier server.
func (r *execution) recoverAfter() error {
	if r.row.AfterCell == nil {
		return nil
	}
	return jsonv2.Unmarshal(r.row.AfterCell, &r.after)
}

// askedAfter answers a cell that asks for a checkpoint or a rollback, once what it is promised is committed. running is nil if the
// request does not come from the running cell.
func (t *translation) askedAfter(running *execution, r record.Record, id string, asked record.AfterCell) {
	s := t.s
	if running == nil {
		t.refuseAfter(r.Key, id, "the cell that asked for it has ended")
		return
	}
	for _, known := range running.after {
		if known.Ask == id { // an earlier server wrote it
			s.answerAfter(r.Key, command.AnswerAfter{RequestID: id, CheckpointID: known.Checkpoint})
			return
		}
	}
	promised, err := s.promiseAfter(t.ctx, running, asked)
	var encoded []byte
	if err == nil {
		promised.Ask = id
		encoded, err = encodeAfter(append(slices.Clone(running.after), promised))
	}
	if err != nil {
		t.refuseAfter(r.Key, id, wordsOf(err, s.log))
		return
	}
	running.after = append(running.after, promised)
	n := running.row.N
	t.c.add(change{
		also: func(tx *store.Tx) error { return tx.UpdateAfterCell(n, encoded) },
		done: func() { s.answerAfter(r.Key, command.AnswerAfter{RequestID: id, CheckpointID: promised.Checkpoint}) },
	})
}

// promiseAfter checks what a cell asks for. On the session's goroutine.
func (s *Session) promiseAfter(ctx context.Context, running *execution, asked record.AfterCell) (promised afterCell, err error) {
	if slices.ContainsFunc(running.after, func(a afterCell) bool { return a.Rollback }) {
		return promised, api.Invalid("this cell has already asked for a rollback, which happens when the cell ends")
	}
	if err := s.m.spare(); err != nil {
		return promised, err
	}
	rows, err := s.m.cfg.Store.Checkpoints(ctx, s.n)
	if err != nil {
		return promised, err
	}
	if asked.Rollback {
		return s.promiseRollback(ctx, running, asked, rows)
	}
	w := wanted{name: asked.Name, level: api.CheckpointLevel(asked.Level)}
	if err := errors.Join(s.makesCheckpoints(), w.check()); err != nil {
		return promised, err
	}
	named := countNamed(rows)
	for _, a := range running.after {
		if a.Name != "" {
			named++
		}
	}
	if w.name != "" && named >= maxNamedCheckpoints {
		return promised, tooManyNamed()
	}
	return afterCell{Checkpoint: newID(), Name: w.name, Level: w.level}, nil
}

// promiseRollback checks a rollback that a cell asks for. rows are the session's checkpoints.
func (s *Session) promiseRollback(ctx context.Context, running *execution, asked record.AfterCell, rows []store.Checkpoint) (promised afterCell, err error) {
	r := rollback{What: api.RollbackAll, KeepEdits: asked.KeepUserEdits}
	if asked.What != "" {
		r.What = api.RollbackPart(asked.What)
	}
	if !slices.Contains(api.RollbackParts, r.What) {
		return promised, api.Invalid("what must be %q, %q or %q", api.RollbackAll, api.RollbackVariables, api.RollbackFiles)
	}
	at := slices.IndexFunc(rows, func(row store.Checkpoint) bool { return row.ID == asked.To })
	if at < 0 && asked.To != "" {
		at = slices.IndexFunc(rows, func(row store.Checkpoint) bool { return row.Name == asked.To }) // the newest comes first
	}
	switch {
	case at < 0 && slices.ContainsFunc(running.after, func(a afterCell) bool { return a.Checkpoint == asked.To || a.Name == asked.To && a.Name != "" }):
		return promised, api.Invalid("the checkpoint %.140q is made when this cell has ended, so this cell cannot go back to it", asked.To)
	case at < 0:
		return promised, api.Errorf(api.CodeCheckpointGone,
			"there is no checkpoint with the id or the name %.140q; it may have been dropped to make room for newer ones", asked.To)
	}
	target, err := s.rollbackTarget(ctx, api.RollbackRequest{CheckpointID: &rows[at].ID}, r)
	return afterCell{Rollback: true, Checkpoint: target.ID, What: r.What, KeepEdits: r.KeepEdits}, err
}

// wordsOf returns an error as a cell or a person sees it. What they do not see is written to log.
func wordsOf(err error, log *slog.Logger) string {
	var told *api.Error
	if errors.As(err, &told) {
		return told.Detail
	}
	log.Error("a checkpoint or rollback that a cell asked for", "error", err)
	return "the server failed; its log has the cause"
}

// refuseAfter tells a cell that it is promised nothing.
func (t *translation) refuseAfter(key record.Key, id, why string) {
	answer := command.AnswerAfter{RequestID: id, Error: why}
	err := command.Tell(t.ctx, t.s.m.cfg.Host, key, answer)
	if errors.Is(err, command.ErrUnresponsive) {
		t.s.answerAfter(key, answer)
	} else if err != nil {
		t.s.log.Debug("refuse a request for after a cell", "error", err) // nobody waits for it now
	}
}

// answerAfter answers a request in the background, however long the host takes.
func (s *Session) answerAfter(key record.Key, answer command.AnswerAfter) {
	s.tools.task(func(ctx context.Context) {
		if err := insist(ctx, func() error { return command.Tell(ctx, s.m.cfg.Host, key, answer) }); err != nil {
			s.log.Debug("answer a request for after a cell", "error", err) // nobody waits for it now
		}
	})
}

// answerAfterAgain answers those of the open requests that the last server granted. The others come again in the kernel's records.
func (s *Session) answerAfterAgain(key record.Key, open []command.OpenAsk) {
	s.mu.Lock()
	current := s.current
	s.mu.Unlock()
	if current == nil {
		return
	}
	for _, a := range current.after {
		if slices.Contains(open, command.OpenAsk{Kind: record.AskAfter, ID: a.Ask}) {
			s.answerAfter(key, command.AnswerAfter{RequestID: a.Ask, CheckpointID: a.Checkpoint})
		}
	}
}

// withdrawAfter takes back a promise that the cell never learned of.
func (t *translation) withdrawAfter(running *execution, ask string) {
	left := slices.DeleteFunc(slices.Clone(running.after), func(a afterCell) bool { return a.Ask == ask })
	if len(left) == len(running.after) {
		return
	}
	running.after = left
	n := running.row.N
	t.c.add(change{also: func(tx *store.Tx) error {
		encoded, err := encodeAfter(left)
		return errors.Join(err, tx.UpdateAfterCell(n, encoded))
	}})
}

// dueAfter notes what an execution that has just ended was promised. running may be nil.
func (t *translation) dueAfter(running *execution) {
	if running != nil && len(running.after) > 0 && !t.failed {
		t.s.due = append(t.s.due, dueAfter{running.row.ID, running.row.N, running.row.Generation, running.after})
	}
}

// recoverAfter notes what executions that have ended were promised by earlier servers. On the session's goroutine, which does it
// next.
func (s *Session) recoverAfter(ctx context.Context) error {
	rows, err := s.m.cfg.Store.EndedWithMore(ctx, s.n)
	if err != nil {
		return err
	}
	s.due = nil
	for _, row := range rows {
		r := execution{row: row}
		if err := r.recoverAfter(); err != nil {
			return fmt.Errorf("execution %s: %w", row.ID, err)
		}
		s.due = append(s.due, dueAfter{row.ID, row.N, row.Generation, r.after})
	}
	return nil
}

// afterCells does what cells that have ended were promised, before the next one runs. It reports false if something is left that
// this server cannot do, or not yet. On the session's goroutine.
func (s *Session) afterCells(ctx context.Context) bool {
	for len(s.due) > 0 {
		d := &s.due[0]
		for len(d.list) > 0 {
			if ctx.Err() != nil {
				return false // the next server does it
			}
			if s.isGone() {
				s.due = nil
				return true
			}
			a := d.list[0]
			err := s.doAfter(ctx, *d, a)
			switch {
			case err == nil:
			case ctx.Err() != nil, errors.Is(err, ErrClosing), errors.Is(err, store.ErrClosed):
				return false
			case errors.Is(err, command.ErrUnresponsive):
				s.mustCommit(ctx, d.left(0))
				time.AfterFunc(retryPause, s.wakeUp)
				return false
			default:
				s.mustCommit(ctx, s.brokenPromise(*d, a, err))
			}
			if !s.mustCommit(ctx, d.left(1)) {
				return false
			}
			d.list = d.list[1:]
		}
		s.due = s.due[1:]
	}
	return true
}

// left returns the change that writes what is left to be done after so many that are done.
func (d dueAfter) left(done int) change {
	list, n := d.list[done:], d.n
	return change{also: func(tx *store.Tx) error {
		encoded, err := encodeAfter(list)
		return errors.Join(err, tx.UpdateAfterCell(n, encoded))
	}}
}

// brokenPromise returns the change that says in the log that something could not be done.
func (s *Session) brokenPromise(d dueAfter, a afterCell, err error) change {
	s.log.Error("a checkpoint or rollback that a cell asked for failed", "execution", d.execution, "checkpoint", a.Checkpoint, "rollback", a.Rollback, "error", err)
	var c change
	text := "\n[talaria.rollback: the session did not go back to the checkpoint %s: %s]\n"
	if !a.Rollback {
		text = "\n[talaria.checkpoint: the checkpoint %s was not made: %s]\n"
		c.drafts = append(c.drafts, draft{executionID: d.execution, body: api.CheckpointDropped{CheckpointID: a.Checkpoint, Reason: "failed"}})
	}
	c.drafts = append(c.drafts, draft{executionID: d.execution, body: api.Stream{Name: "stderr", Text: fmt.Sprintf(text, a.Checkpoint, wordsOf(err, s.log))}})
	return c
}

// doAfter does one thing that a cell was promised.
func (s *Session) doAfter(ctx context.Context, d dueAfter, a afterCell) error {
	if !a.Rollback {
		return s.checkpointAfter(ctx, d, a)
	}
	r := rollback{What: a.What, KeepEdits: a.KeepEdits}
	return patiently(ctx, func() error {
		if err := s.m.spare(); err != nil {
			return err
		}
		target, err := s.rollbackTarget(ctx, api.RollbackRequest{CheckpointID: &a.Checkpoint}, r)
		if err != nil {
			return err
		}
		if _, err = s.goBack(ctx, r, target, d.left(1).also); err == nil && r.usesCopy(target) {
			s.copyAgain(ctx, target)
		}
		if err != nil && target.Saved != nil && r.variables() && (!s.running || s.leaving()) {
			s.log.Warn("start a kernel after a rollback that a cell asked for; the next cell starts one", "error", err)
			return nil
		}
		return err
	})
}

// checkpointAfter makes a checkpoint that a cell was promised. It has what is possible by now, if not the level that was asked for.
func (s *Session) checkpointAfter(ctx context.Context, d dueAfter, a afterCell) error {
	if _, err := s.m.cfg.Store.Checkpoint(ctx, s.n, a.Checkpoint); !errors.Is(err, store.ErrNotFound) {
		return err // the last server made it
	}
	w := wanted{id: a.Checkpoint, name: a.Name, level: a.Level}
	if next := d.list[len(d.list)-1]; next.Rollback { // its checkpoint makes no room for this one
		row, err := s.m.cfg.Store.Checkpoint(ctx, s.n, next.Checkpoint)
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return err
		}
		w.protect = row.N
	}
	s.mu.Lock()
	lost := !s.running || s.generation != d.generation
	s.mu.Unlock()
	if lost && w.level != api.CheckpointFiles {
		w.level, w.reason = api.CheckpointFiles, "the kernel ended before the checkpoint was made"
	}
	for {
		err := patiently(ctx, func() error {
			_, err := s.makeCheckpoint(ctx, w)
			return err
		})
		var problem *api.Error
		switch {
		case err == nil, errors.Is(err, command.ErrUnresponsive), ctx.Err() != nil:
			return err
		case !errors.As(err, &problem) || problem.Code == api.CodeLimitExceeded || w.level == api.CheckpointFiles:
			return err
		case w.level == api.CheckpointLive:
			w.level = ""
		default:
			w.level, w.reason = api.CheckpointFiles, problem.Detail
		}
	}
}

// patiently repeats f while the interpreter is busy, though no cell runs.
func patiently(ctx context.Context, f func() error) error {
	for attempt := 1; ; attempt++ {
		err := f()
		if !hasCode(err, api.CodeKernelBusy) || attempt == afterAttempts {
			return err
		}
		pause := time.NewTimer(afterPause)
		select {
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
			return err
		}
	}
}
