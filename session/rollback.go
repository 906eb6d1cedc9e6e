package session

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	jsonv2 "github.com/go-json-experiment/json"

	"talaria/api"
	"talaria/kernel/command"
	"talaria/kernel/trace"
	"talaria/kernel/workspace"
	"talaria/store"
)

// rollback is a rollback under way. It is written before anything is changed, so that a server that is started in the middle of it
// finishes it: every step can be repeated.
type rollback struct {
	Target    int64            `json:"target"` // the number of the checkpoint
	Undo      int64            `json:"undo"`   // that of the checkpoint of what was before
	What      api.RollbackPart `json:"what"`
	KeepEdits bool             `json:"keep_edits,omitzero"`
}

func (r rollback) variables() bool { return r.What != api.RollbackFiles }
func (r rollback) files() bool     { return r.What != api.RollbackVariables }

// usesCopy reports whether the rollback uses up the target's copy of the interpreter.
func (r rollback) usesCopy(target store.Checkpoint) bool { return r.variables() && target.Saved == nil }

// Rollback makes the session what it was at a checkpoint. While a cell runs or waits it fails with kernel_busy, and with
// checkpoint_gone if the checkpoint does not have what is asked for; then nothing has changed. ctx bounds nothing but the wait.
func (s *Session) Rollback(ctx context.Context, req api.RollbackRequest) (reply api.RollbackReply, err error) {
	r := rollback{What: api.RollbackAll}
	api.Set(&r.What, req.What)
	api.Set(&r.KeepEdits, req.KeepUserEdits)
	switch {
	case (req.CheckpointID == nil) == (req.ExecutionID == nil):
		return reply, api.Invalid("give either checkpoint_id or execution_id")
	case !slices.Contains(api.RollbackParts, r.What):
		return reply, api.Invalid("what must be %q, %q or %q", api.RollbackAll, api.RollbackVariables, api.RollbackFiles)
	}
	began := time.Now()
	var woken *store.Checkpoint // whose copy was used
	err = s.doThen(context.WithoutCancel(ctx), func(own context.Context) error {
		if err := s.atRest("go back"); err != nil {
			return err
		}
		if err := s.m.spare(); err != nil {
			return err
		}
		if err := s.endLeaving(own); err != nil {
			return err
		}
		target, err := s.rollbackTarget(own, req, r)
		if err != nil {
			return err
		}
		trace.Step("checkpoint found")
		if reply, err = s.goBack(own, r, target, nil); err == nil && r.usesCopy(target) {
			woken = &target
		}
		return err
	}, func(own context.Context) { // before the next cell
		if woken != nil {
			s.copyAgain(own, *woken)
		}
	})
	reply.DurationMS = time.Since(began).Milliseconds()
	return reply, err
}

// goBack makes a checkpoint of what is now and goes back to target. also is part of the write with which the rollback is under way,
// and may be nil. The caller calls copyAgain if it usesCopy. On the session's goroutine, while no cell runs.
func (s *Session) goBack(ctx context.Context, r rollback, target store.Checkpoint, also func(*store.Tx) error) (reply api.RollbackReply, err error) {
	durable := r.variables() && target.Saved != nil && s.hasVariables() // the kernel ends, and its copies with it
	w := wanted{undo: true, durable: durable, quick: !r.variables(), protect: target.N}
	var undo store.Checkpoint
	if r.usesCopy(target) {
		w.aside = target.Copy
		defer func() {
			if err != nil {
				s.resumeInterpreter(ctx, undo)
			}
		}()
	}
	undo, err = s.makeCheckpoint(ctx, w)
	if errors.Is(err, command.ErrNoCopy) {
		s.mustCommit(ctx, s.copyMissing(target))
		return reply, copyGone()
	}
	if err != nil {
		return reply, err
	}
	r.Target, r.Undo = target.N, undo.N
	encoded, err := jsonv2.Marshal(r)
	if err != nil {
		return reply, err
	}
	trace.Step("undo point made")
	begun := change{also: both(also, func(tx *store.Tx) error { return tx.BeginRollback(s.n, encoded) })}
	if err := s.journal.commit(ctx, begun); err != nil {
		return reply, err
	}
	trace.Step("beginning of the rollback committed")
	if reply, err = s.rollBack(ctx, r, target, undo); err != nil || !r.variables() || target.Saved == nil {
		return reply, err
	}
	lost, err := s.wakeKernel(ctx)
	for _, l := range lost {
		if !slices.ContainsFunc(reply.NotRestored, func(known api.NotRestored) bool { return known.Name == l.Name }) {
			reply.NotRestored = append(reply.NotRestored, l)
		}
	}
	return reply, err
}

// rollbackTarget returns the checkpoint that the request names, if it has what is asked for.
func (s *Session) rollbackTarget(ctx context.Context, req api.RollbackRequest, r rollback) (store.Checkpoint, error) {
	rows, err := s.m.cfg.Store.Checkpoints(ctx, s.n)
	if err != nil {
		return store.Checkpoint{}, err
	}
	key := s.kernelKey()
	usable := func(row store.Checkpoint) bool {
		return row.Saved != nil || row.Copy != "" && row.Generation == key.Generation && s.running
	}
	var found *store.Checkpoint
	for i, row := range rows {
		named := req.CheckpointID != nil && row.ID == *req.CheckpointID ||
			req.ExecutionID != nil && row.Execution == *req.ExecutionID && row.Execution != ""
		if named && (found == nil || usable(row) && !usable(*found)) {
			found = &rows[i]
		}
	}
	switch {
	case found == nil && req.ExecutionID != nil:
		return store.Checkpoint{}, api.Errorf(api.CodeCheckpointGone,
			"there is no checkpoint of the state right after execution %.140q; GET checkpoints lists the existing ones", *req.ExecutionID)
	case found == nil:
		return store.Checkpoint{}, api.Errorf(api.CodeCheckpointGone,
			"the checkpoint %.140q does not exist, or was dropped to make room for newer ones", *req.CheckpointID)
	case r.variables() && !usable(*found):
		reason := found.Reason
		if reason == "" {
			reason = "its kernel has ended"
		}
		return store.Checkpoint{}, api.Errorf(api.CodeCheckpointGone,
			"the variables of this checkpoint cannot be restored: %s; use what: %q to restore its files", reason, api.RollbackFiles)
	}
	return *found, nil
}

// rollBack carries a rollback out. On the session's goroutine.
func (s *Session) rollBack(ctx context.Context, r rollback, target, undo store.Checkpoint) (api.RollbackReply, error) {
	reply := api.RollbackReply{
		CheckpointID: target.ID, ExecutionID: target.Execution, Undo: undo.ID, UndoLevel: undo.Level, NotRestored: []api.NotRestored{},
	}
	if r.variables() {
		if err := s.bringVariables(ctx, target); err != nil {
			if ctx.Err() != nil { // the next server finishes the rollback
				return reply, err
			}
			c := change{also: func(tx *store.Tx) error { return tx.EndRollback(s.n) }}
			if errors.Is(err, command.ErrNoCopy) {
				c.add(s.copyMissing(target))
				err = copyGone()
			}
			s.mustCommit(ctx, c)
			return reply, err
		}
		trace.Step("variables are back")
		for _, loss := range target.Losses {
			reply.NotRestored = append(reply.NotRestored, api.NotRestored{Name: loss.Name, Reason: loss.Reason})
		}
	}
	files := change{}
	if r.files() {
		restored, err := s.restoreFiles(ctx, r, target, undo)
		if err != nil && ctx.Err() != nil { // likewise
			return reply, err
		}
		if err != nil {
			s.log.Error("bring files back", "error", err)
			reply.NotRestored = append(reply.NotRestored, api.NotRestored{Name: "files", Reason: "restoring the files failed: " + errorWords(err)})
		}
		reply.Files = int64(restored.Created.Count + restored.Modified.Count + restored.Deleted.Count)
		for _, missing := range restored.NotRestored {
			reply.NotRestored = append(reply.NotRestored, api.NotRestored{Name: printable(missing.Path), Reason: missing.Reason})
		}
		if more := restored.NotRestoredCount - len(restored.NotRestored); more > 0 {
			reply.NotRestored = append(reply.NotRestored, api.NotRestored{Name: fmt.Sprintf("%d more files", more), Reason: "for the same reasons"})
		}
		trace.Step("files are back")
		files = s.filesRestored(ctx)
		trace.Step("files listed for the log")
	}
	c := change{
		drafts: []draft{{executionID: target.Execution, body: api.RolledBack{
			CheckpointID: target.ID, What: r.What, Undo: undo.ID, NotRestored: reply.NotRestored,
		}}},
		also: func(tx *store.Tx) error {
			if err := tx.EndRollback(s.n); err != nil {
				return err
			}
			if !r.variables() {
				return nil
			}
			return tx.SetUndone(s.n, append(slices.Clone(target.Undone), [2]int64{target.ExecutionN + 1, undo.ExecutionN}))
		},
	}
	c.add(files)
	if r.variables() && target.Saved != nil {
		c.state(s, api.StateHibernated, "")
	}
	if !s.mustCommit(ctx, c) {
		return reply, ErrClosing
	}
	trace.Step("rollback committed")
	return reply, s.touch(ctx)
}

func copyGone() error {
	return api.Errorf(api.CodeCheckpointGone,
		"the variables of this checkpoint cannot be restored: the copy of the interpreter has ended; use what: %q to restore its files",
		api.RollbackFiles)
}

// errorWords returns an error for people, without paths of this machine.
func errorWords(err error) string {
	if errors.Is(err, workspace.ErrNoSpace) {
		return "there is no space left in the workspace"
	}
	return "see the server's log"
}

// bringVariables gives the session the variables of a checkpoint. Without an error, and where they are saved, it has no kernel
// afterwards, or one that is leaving, and the next one loads them.
func (s *Session) bringVariables(ctx context.Context, target store.Checkpoint) error {
	if target.Saved == nil {
		return s.wakeCopy(ctx, target)
	}
	saved, err := decodeSaved(target.Saved)
	if err != nil {
		return err
	}
	saved = saved.untried()
	s.mu.Lock()
	saved.ExecutionCount = s.executionCount // it goes on
	s.mu.Unlock()
	if err := s.journal.commit(ctx, s.keepSaved(saved)); err != nil {
		return err
	}
	if err := s.stop(ctx, reasonRollback); err != nil && ctx.Err() == nil {
		s.log.Error("end the kernel for a rollback; the next use tries again", "error", err) // until then it is leaving
	}
	return context.Cause(ctx)
}

// wakeCopy makes the copy of a checkpoint the interpreter.
func (s *Session) wakeCopy(ctx context.Context, target store.Checkpoint) error {
	key := s.kernelKey()
	err := command.Tell(ctx, s.m.cfg.Host, key, command.WakeCopy{ID: target.Copy})
	switch {
	case err == nil, errors.Is(err, command.ErrNoCopy):
		return err
	case errors.Is(err, command.ErrKernelBusy):
		return api.Errorf(api.CodeKernelBusy, "the interpreter is busy; try again")
	}
	return fmt.Errorf("bring the variables back: %w", err)
}

// stepAsideAgain has the interpreter be the copy of a rollback's undo checkpoint, if it went on after all and the target's copy was
// not woken yet.
func (s *Session) stepAsideAgain(ctx context.Context, target, undo store.Checkpoint) {
	if _, err := command.Ask(ctx, s.m.cfg.Host, s.kernelKey(), command.StepAside{ID: undo.Copy, For: target.Copy}); err != nil {
		s.log.Debug("the interpreter does not step aside again", "error", err)
	}
}

// resumeInterpreter has the interpreter go on after all, if it has stepped aside to be the copy of that checkpoint. If that was
// made, it gets another copy.
func (s *Session) resumeInterpreter(ctx context.Context, undo store.Checkpoint) {
	had, err := command.Ask(context.WithoutCancel(ctx), s.m.cfg.Host, s.kernelKey(), command.Resume{})
	switch {
	case errors.Is(err, command.ErrTooOld), errors.Is(err, command.ErrNoKernel):
	case err != nil:
		s.log.Error("resume the interpreter after a rollback that failed; the next cell does", "error", err)
	case had && undo.N != 0:
		s.copyAgain(ctx, undo)
	}
}

// copyAgain makes another copy of the interpreter for a checkpoint whose copy has just become the interpreter, so that one can go
// back to it again.
func (s *Session) copyAgain(ctx context.Context, target store.Checkpoint) {
	key := s.kernelKey()
	again := newID()
	made, err := command.Ask(ctx, s.m.cfg.Host, key, command.MakeCopy{ID: again})
	why := made.Refused
	if err != nil {
		s.log.Warn("copy the interpreter again after a rollback", "error", err)
		why = "the copy of the interpreter was used by a rollback, and another could not be made"
	}
	c := change{also: func(tx *store.Tx) error { return tx.UpdateCheckpointCopy(target.N, again, "") }}
	if why != "" {
		c = copyEnded(target, "used", why)
	}
	s.mustCommit(ctx, c)
}

// restoreFiles makes the workspace what it was at a checkpoint.
func (s *Session) restoreFiles(ctx context.Context, r rollback, target, undo store.Checkpoint) (workspace.Restored, error) {
	var want, before workspace.Manifest
	if err := errors.Join(want.UnmarshalBinary(target.Manifest), before.UnmarshalBinary(undo.Manifest)); err != nil {
		return workspace.Restored{}, err
	}
	now, err := s.dir.Capture(ctx, &before, nil) // processes that have just ended may have written since
	if err != nil {
		return workspace.Restored{}, err
	}
	var options workspace.RestoreOptions
	if r.KeepEdits {
		changed, err := s.m.cfg.Store.ChangedFiles(ctx, s.n, target.ExecutionN)
		if err != nil {
			return workspace.Restored{}, err
		}
		byCells := make(map[string]bool, len(changed))
		for _, path := range changed {
			byCells[path] = true
		}
		options.KeepPath = func(path string) bool { return !byCells[path] }
	}
	restored, err := s.dir.Restore(ctx, want, now, func(digest string) (*os.File, error) {
		f, _, err := s.m.cfg.Artifacts.Get(digest)
		return f, err
	}, options)
	s.checkpoints.known = &restored.Known
	if err != nil {
		s.checkpoints.known = nil
	}
	return restored, err
}

// filesRestored returns the change that makes the workspace as it is now the one that the log knows: no cell has changed it.
func (s *Session) filesRestored(ctx context.Context) change {
	var next workspace.Snapshot
	done, err := s.known.look(ctx)
	if err == nil {
		defer done(true)
		known, _ := s.known.get()
		next, _, err = s.known.scan(ctx, known)
	}
	if err != nil && !errors.Is(err, workspace.ErrTruncated) {
		s.log.Warn("look at the files after a rollback; the next cell lists them", "error", err)
		return change{}
	}
	return s.known.save(ctx, next, s.known.set(next))
}

// recoverCheckpoints finishes what the last server was about to do, and makes both sides agree on which copies of the interpreter
// there are. alive says that there is a kernel. On the session's goroutine.
func (s *Session) recoverCheckpoints(ctx context.Context, alive bool) error {
	encoded, err := s.m.cfg.Store.Rollback(ctx, s.n)
	if err != nil {
		return err
	}
	rows, err := s.m.cfg.Store.Checkpoints(ctx, s.n)
	if err != nil || encoded == nil && len(rows) == 0 {
		return err
	}
	var r rollback
	if encoded != nil && jsonv2.Unmarshal(encoded, &r) == nil {
		at := func(n int64) int {
			return slices.IndexFunc(rows, func(row store.Checkpoint) bool { return row.N == n })
		}
		target, undo := at(r.Target), at(r.Undo)
		if !alive && (target < 0 || rows[target].Saved == nil) {
			r.What = api.RollbackFiles // as far as it still can be
		}
		if target >= 0 && undo >= 0 {
			if alive && r.usesCopy(rows[target]) && rows[undo].Copy != "" {
				s.stepAsideAgain(ctx, rows[target], rows[undo])
			}
			_, err := s.rollBack(ctx, r, rows[target], rows[undo])
			if err == nil && r.usesCopy(rows[target]) {
				s.copyAgain(ctx, rows[target])
			}
			if errors.Is(err, command.ErrNoKernel) && r.files() { // some of them may be restored already
				r.What = api.RollbackFiles
				_, err = s.rollBack(ctx, r, rows[target], rows[undo])
			}
			if err != nil {
				s.log.Error("finish the rollback of the last server", "error", err)
			}
			if rows, err = s.m.cfg.Store.Checkpoints(ctx, s.n); err != nil {
				return err
			}
		}
	}
	if !alive {
		return nil
	}
	if len(rows) > 0 && rows[0].Undo && rows[0].Copy != "" { // the last server may have ended before it woke the other one
		s.resumeInterpreter(ctx, rows[0])
		if rows, err = s.m.cfg.Store.Checkpoints(ctx, s.n); err != nil {
			return err
		}
	}
	key := s.kernelKey()
	present, err := command.Ask(ctx, s.m.cfg.Host, key, command.ListCopies{})
	if err != nil {
		if errors.Is(err, command.ErrTooOld) || errors.Is(err, command.ErrNoKernel) { // its last record says so
			return nil
		}
		s.log.Warn("list the copies of the interpreter", "error", err)
		return nil
	}
	var c change
	for _, row := range rows {
		switch i := slices.Index(present, row.Copy); {
		case row.Copy == "":
		case i < 0 || row.Generation != key.Generation:
			c.add(s.copyMissing(row))
		default:
			present = slices.Delete(present, i, i+1)
		}
	}
	s.mustCommit(ctx, c)
	for _, stray := range present { // of checkpoints that were never committed
		s.dropCopies(ctx, []store.Checkpoint{{Copy: stray, Generation: key.Generation}})
	}
	return nil
}
