package session

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"slices"
	"strings"
	"time"

	jsonv2 "github.com/go-json-experiment/json"

	"talaria/api"
	"talaria/artifacts"
	"talaria/kernel/command"
	"talaria/kernel/record"
	"talaria/kernel/trace"
	"talaria/kernel/workspace"
	"talaria/session/settings"
	"talaria/store"
)

// quietBefore is how long nothing has to happen before a checkpoint is made that nobody asked for. A copy costs the next cell a
// page fault for each page that it writes to, so a series of cells is not slowed down by one after each of them.
const quietBefore = 100 * time.Millisecond

// unaskedShare is the part of the time, as a divisor, in which the server makes checkpoints that nobody asked for: it makes one at
// a time, and rests in between, so that cells of other sessions have the processors to themselves. What has no turn before its
// session's next cell is not made.
const unaskedShare = 4

// reasonDiskLow is why a checkpoint lacks a file.
const reasonDiskLow = "the server's disk is nearly full"

var errAbandoned = errors.New("a cell came before the checkpoint was made")

// wanted is a checkpoint that is to be made.
type wanted struct {
	id      string // "": a new one
	name    string
	level   api.CheckpointLevel // "": the first of the levels that is possible
	quick   bool                // nothing is written to disk but files, which may take long
	durable bool                // of a level that does not end with the kernel
	undo    bool                // for a rollback
	aside   string              // the copy that takes the interpreter's place next; "" if the interpreter goes on
	protect int64               // the number of a checkpoint that makes no room for it
	reason  string              // why it has only the files, if nobody asked for that; "" if somebody did
}

// Checkpoint makes a checkpoint now. While a cell runs or waits it fails with kernel_busy.
func (s *Session) Checkpoint(ctx context.Context, req api.CheckpointRequest) (c api.Checkpoint, err error) {
	var w wanted
	api.Set(&w.name, req.Name)
	api.Set(&w.level, req.Level)
	if err := w.check(); err != nil {
		return c, err
	}
	err = s.do(context.WithoutCancel(ctx), func(own context.Context) error {
		if err := s.canCheckpoint(w); err != nil {
			return err
		}
		if err := s.endLeaving(own); err != nil {
			return err
		}
		row, err := s.makeCheckpoint(own, w)
		if err != nil {
			return err
		}
		c, err = checkpointInfo(row)
		return errors.Join(err, s.touch(own))
	})
	return c, err
}

func (w wanted) check() error {
	switch {
	case len(w.name) > settings.MaxName:
		return api.Invalid("name is longer than %d bytes", settings.MaxName)
	case w.level != "" && !slices.Contains(api.CheckpointLevels, w.level):
		return api.Invalid("level must be %q, %q or %q", api.CheckpointLive, api.CheckpointSaved, api.CheckpointFiles)
	}
	return nil
}

// canCheckpoint reports why no checkpoint can be made now, or nil.
func (s *Session) canCheckpoint(w wanted) error {
	if err := s.makesCheckpoints(); err != nil {
		return err
	}
	if err := s.atRest("make a checkpoint"); err != nil {
		return err
	}
	return s.m.spare()
}

// makesCheckpoints reports an error if the session's settings are against checkpoints.
func (s *Session) makesCheckpoints() error {
	if s.main != nil {
		return s.noCheckpoints()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.checkpoints.set.Mode == api.CheckpointsOff {
		return api.Invalid("this session makes no checkpoints: change checkpoints.mode to %q", api.CheckpointsManual)
	}
	return nil
}

// atRest reports kernel_busy unless no cell runs or waits.
func (s *Session) atRest(toDo string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.gone {
		return ErrDeleted
	}
	if s.current != nil || len(s.queue) > 0 || s.state == api.StateStarting && s.running {
		return api.Errorf(api.CodeKernelBusy, "cells are running or waiting; %s when they have ended, or interrupt them", toDo)
	}
	return nil
}

// makeCheckpoint makes a checkpoint of what the session is now, and drops those that it makes no room for. On the session's
// goroutine, while the kernel runs no cell. ctx may give it up.
func (s *Session) makeCheckpoint(ctx context.Context, w wanted) (row store.Checkpoint, err error) {
	kept, err := s.m.cfg.Store.Checkpoints(ctx, s.n)
	if err != nil {
		return row, err
	}
	if w.name != "" && countNamed(kept) >= maxNamedCheckpoints {
		return row, tooManyNamed()
	}
	s.mu.Lock()
	key, settings, limits := s.key(), s.checkpointSettings(), s.limits
	row = store.Checkpoint{
		Session: s.n, ID: cmp.Or(w.id, newID()), Name: w.name, ExecutionCount: s.executionCount, CreatedAt: time.Now().UnixMilli(), Undo: w.undo,
		Generation: key.Generation, Level: api.CheckpointFiles, Losses: []api.NotSaved{}, Variables: []api.Variable{},
	}
	s.mu.Unlock()
	if row.ExecutionN, row.Execution, err = s.m.cfg.Store.Ended(ctx, s.n); err != nil {
		return row, err
	}
	if row.Undone, err = s.m.cfg.Store.Undone(ctx, s.n); err != nil {
		return row, err
	}
	trace.Step("checkpoint begun")
	hold := s.m.cfg.Artifacts.Hold()
	defer hold.Release()
	used, err := keptSpace(kept, limits.ArtifactBytes)
	if err != nil {
		return row, err
	}
	left := max(0, limits.ArtifactBytes-used)
	made, saved, err := s.keepVariables(ctx, hold, &row, w, left)
	if err != nil {
		return row, err
	}
	trace.Step("variables kept")
	manifest, err := s.capture(ctx, hold, kept, left-spaceOfVariables(saved), limits.ArtifactBytes)
	if err == nil {
		row.Manifest, err = manifest.MarshalBinary()
	}
	if err != nil {
		s.dropCopies(context.WithoutCancel(ctx), []store.Checkpoint{row})
		return row, err
	}
	trace.Step("files captured")
	row.Space = spaceOf(manifest) + spaceOfVariables(saved)
	info, err := checkpointInfo(row)
	if err != nil {
		return row, err
	}
	c := change{
		drafts: []draft{{body: api.CheckpointCreated{Checkpoint: info}}},
		also: func(tx *store.Tx) (err error) {
			row.N, err = tx.InsertCheckpoint(row, digestsOf(manifest, saved))
			return err
		},
	}
	ended, held := dropOldest(&c, kept, w, settings, made.Held)
	unneeded := s.m.blobs.onlyIn(ctx, ended)
	if err := s.journal.commit(context.WithoutCancel(ctx), c); err != nil {
		s.dropCopies(context.WithoutCancel(ctx), []store.Checkpoint{row})
		return row, err
	}
	trace.Step("checkpoint committed")
	s.checkpoints.known = &manifest
	s.m.blobs.removeSoon(unneeded)
	if row.Copy != "" {
		s.holds(held)
	}
	s.dropCopies(context.WithoutCancel(ctx), ended)
	return row, nil
}

func tooManyNamed() error {
	return api.Errorf(api.CodeLimitExceeded, "%d checkpoints of this session have a name, which is the limit; delete some", maxNamedCheckpoints)
}

func countNamed(rows []store.Checkpoint) (n int) {
	for _, row := range rows {
		if row.Name != "" {
			n++
		}
	}
	return n
}

func spaceOf(m workspace.Manifest) (sum int64) {
	for _, e := range m.Entries {
		if e.Digest != "" {
			sum += e.Space
		}
	}
	return sum
}

// digestsOf returns the blobs that a checkpoint needs. saved may be nil.
func digestsOf(files workspace.Manifest, saved *savedVariables) iter.Seq[string] {
	return func(yield func(string) bool) {
		if saved != nil && !yield(saved.Digest) {
			return
		}
		for digest := range files.Digests() {
			if saved != nil && digest == saved.Digest {
				continue
			}
			if !yield(digest) {
				return
			}
		}
	}
}

func spaceOfVariables(saved *savedVariables) int64 {
	if saved == nil {
		return 0
	}
	return saved.Bytes
}

// keepVariables puts the variables into a checkpoint, in a copy of the interpreter or saved on disk, or notes why they are not in
// it. What is saved may take so many bytes. On the session's goroutine.
func (s *Session) keepVariables(ctx context.Context, hold *artifacts.Hold, row *store.Checkpoint, w wanted, space int64) (
	made command.Copy, saved *savedVariables, err error,
) {
	s.mu.Lock()
	key, present := s.key(), s.saved
	s.mu.Unlock()
	if s.running {
		variables, err := s.interpreter.allVariables(ctx)
		if ctx.Err() != nil {
			return made, nil, context.Cause(ctx)
		}
		if err != nil {
			s.log.Warn("a checkpoint has no list of its variables, so its changes cannot be shown", "checkpoint", row.ID, "error", err)
		}
		row.Variables = append(row.Variables, variables...)
		trace.Step("variables listed")
	}
	switch {
	case w.level == api.CheckpointFiles:
		row.Reason = cmp.Or(w.reason, "only files were asked for")
		return made, nil, nil
	case !s.running && (w.level == api.CheckpointLive || present == nil):
		row.Reason = "the session had no kernel"
	case !s.running:
		return made, present, keepSavedIn(row, present)
	case w.level != api.CheckpointSaved && !w.durable:
		if made, err = copyInterpreter(ctx, s.m.cfg.Host, key, row, w.aside); err != nil {
			return made, nil, err
		}
		row.Reason = made.Refused
	}
	switch {
	case row.Copy != "":
		return made, nil, nil
	case w.level == api.CheckpointLive:
		return made, nil, api.Invalid("no live checkpoint can be made: %s; leave level out for one whose variables are saved", row.Reason)
	case !s.running && w.level == api.CheckpointSaved:
		return made, nil, api.Invalid("no variables can be saved: %s; leave level out for a checkpoint that has the files", row.Reason)
	case !s.running, w.quick:
		return made, nil, nil
	}
	if space > 0 {
		saved, err = s.saveVariables(ctx, hold, space)
	} else {
		err = api.Errorf(api.CodeDiskLimit, "the files and saved variables of the session's checkpoints already take limits.artifact_bytes; delete some"+unchanged)
	}
	if err == nil {
		return made, saved, keepSavedIn(row, saved)
	}
	var problem *api.Error
	if w.level == api.CheckpointSaved || w.durable || !errors.As(err, &problem) || problem.Code == api.CodeKernelBusy {
		return made, nil, err
	}
	row.Reason = fmt.Sprintf("%s; %s", row.Reason, strings.TrimSuffix(problem.Detail, unchanged))
	return made, nil, nil
}

// keepSavedIn makes these the variables of a checkpoint.
func keepSavedIn(row *store.Checkpoint, saved *savedVariables) (err error) {
	row.Level = api.CheckpointSaved
	row.Losses = append(row.Losses, saved.NotSaved...)
	row.Variables = slices.DeleteFunc(row.Variables, func(v api.Variable) bool {
		return slices.ContainsFunc(saved.NotSaved, func(lost api.NotSaved) bool { return lost.Name == v.Name })
	})
	row.Saved, err = jsonv2.Marshal(saved)
	return err
}

// copyInterpreter makes a copy of the interpreter for a checkpoint, or says in the reply why there is none. If the copy with the
// name aside is to take the interpreter's place next, the interpreter itself becomes the copy.
func copyInterpreter(ctx context.Context, host Host, key record.Key, row *store.Checkpoint, aside string) (made command.Copy, err error) {
	err = command.ErrTooOld
	if aside != "" {
		made, err = command.Ask(ctx, host, key, command.StepAside{ID: row.ID, For: aside})
	}
	if errors.Is(err, command.ErrTooOld) {
		made, err = command.Ask(ctx, host, key, command.MakeCopy{ID: row.ID})
	}
	switch {
	case ctx.Err() != nil:
		err := command.Tell(context.WithoutCancel(ctx), host, key, command.DropCopy{ID: row.ID})
		return made, errors.Join(context.Cause(ctx), err)
	case errors.Is(err, command.ErrKernelBusy):
		return made, api.Errorf(api.CodeKernelBusy, "the interpreter is busy, perhaps with a background task that does not yield; try again")
	case errors.Is(err, command.ErrTooOld):
		made.Refused = "the process that runs this kernel belongs to an earlier version; a reset starts a new one"
	case err != nil:
		return made, fmt.Errorf("copy the interpreter: %w", err)
	}
	if made.Refused != "" {
		return made, nil
	}
	row.Level, row.Copy, row.Resident = api.CheckpointLive, row.ID, made.Resident
	for _, loss := range made.Losses {
		row.Losses = append(row.Losses, api.NotSaved{Name: loss.Name, Reason: loss.Reason})
	}
	return made, nil
}

// capture describes the workspace and keeps what its files hold, as far as they fit into the bytes that are left of
// limits.artifact_bytes, which is limit, and the disk has room for them.
func (s *Session) capture(ctx context.Context, hold *artifacts.Hold, kept []store.Checkpoint, left, limit int64) (workspace.Manifest, error) {
	previous := s.checkpoints.known
	if previous == nil && len(kept) > 0 {
		previous = new(workspace.Manifest)
		if err := previous.UnmarshalBinary(kept[0].Manifest); err != nil {
			s.log.Warn("the newest checkpoint cannot be read; all files are read again", "error", err)
			previous = nil
		} else {
			for i := range previous.Entries { // a power failure may have lost some of its blobs
				if e := &previous.Entries[i]; e.Digest != "" && s.m.cfg.Artifacts.Size(e.Digest) != e.Size {
					e.Digest = ""
				}
			}
		}
	}
	return s.dir.Capture(ctx, previous, s.boundedKeep(func(ctx context.Context, f *os.File, e workspace.Entry) (string, error) {
		switch {
		case e.Space > left:
			return "", &workspace.NotKeptError{Reason: fmt.Sprintf(
				"its %d bytes do not fit: the files of all checkpoints of a session may take limits.artifact_bytes, which is %d", e.Space, limit)}
		case s.m.spare() != nil:
			return "", &workspace.NotKeptError{Reason: reasonDiskLow}
		}
		blob, err := hold.Put(ctx, f)
		switch {
		case err == nil:
			left -= e.Space
		case hasCode(err, api.CodeDiskFull):
			err = &workspace.NotKeptError{Reason: reasonDiskLow}
		}
		return blob.SHA256, err
	}))
}

// boundedKeep is keep, but refuses files from where more would be read than the limits let a workspace and its artifacts have: holes in
// files take no space, but time.
func (s *Session) boundedKeep(keep workspace.Keep) workspace.Keep {
	limits := s.settings().Limits
	limit := max(limits.DiskBytes, limits.ArtifactBytes)
	left := limit
	return func(ctx context.Context, f *os.File, e workspace.Entry) (string, error) {
		if e.Size > left {
			return "", &workspace.NotKeptError{Reason: fmt.Sprintf("with its %d bytes, holes included, more would have to be read than "+
				"limits.disk_bytes or limits.artifact_bytes, the larger of which is %d", e.Size, limit)}
		}
		left -= e.Size
		return keep(ctx, f, e)
	}
}

// keptSpace returns the disk space that the files and saved variables of checkpoints take together. It counts what several have in
// common once only where that matters.
func keptSpace(rows []store.Checkpoint, limit int64) (sum int64, err error) {
	for _, row := range rows {
		sum += row.Space
	}
	if sum <= limit/2 {
		return sum, nil
	}
	seen := map[string]bool{}
	sum = 0
	for _, row := range rows {
		var m workspace.Manifest
		if err := m.UnmarshalBinary(row.Manifest); err != nil {
			return 0, fmt.Errorf("checkpoint %s: %w", row.ID, err)
		}
		for _, e := range m.Entries {
			if e.Digest != "" && !seen[e.Digest] {
				seen[e.Digest] = true
				sum += e.Space
			}
		}
		saved, err := decodeSaved(row.Saved)
		if err != nil {
			return 0, fmt.Errorf("checkpoint %s: %w", row.ID, err)
		}
		if saved != nil && !seen[saved.Digest] {
			seen[saved.Digest] = true
			sum += saved.Bytes
		}
	}
	return sum, nil
}

// dropOldest adds to c what makes room for a new checkpoint: the oldest without a name that are more than the session keeps are
// deleted, and the oldest copies of the interpreter that take more memory than they may are ended. It returns the checkpoints whose
// copies are to be ended after the commit, and about what the others take. kept is newest first; held is what all copies take by now.
func dropOldest(
	c *change, kept []store.Checkpoint, w wanted, settings api.Checkpoints, held int64,
) (ended []store.Checkpoint, left int64) {
	var live []store.Checkpoint                            // that stay, newest first
	unnamed, copies, freed := int64(0), int64(1), int64(0) // with the new one
	if w.name == "" {
		unnamed++
	}
	for _, row := range kept {
		if row.Copy != "" {
			copies++
		}
		if row.Name == "" && row.N != w.protect {
			if unnamed++; unnamed > settings.Keep {
				if row.Copy != "" {
					freed++
				}
				c.add(dropped(row, "keep"))
				ended = append(ended, row)
				continue
			}
		}
		if row.Copy != "" {
			live = append(live, row)
		}
	}
	share := held / copies // as if all took the same
	left = held - share*freed
	for i := len(live) - 1; i >= 0 && left > settings.MemoryBytes; i-- {
		if live[i].N == w.protect {
			continue
		}
		c.add(copyEnded(live[i], "memory_bytes", fmt.Sprintf(
			"the copy of the interpreter was ended: the copies took more than checkpoints.memory_bytes, which is %d", settings.MemoryBytes)))
		ended = append(ended, live[i])
		left, freed = left-share, freed+1
	}
	return ended, left + (copies-freed)*copyCost
}

// armCheckpoint makes a checkpoint when nothing has happened for a while, if the session's settings say so.
func (s *Session) armCheckpoint() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.checkpoints.set.Mode != api.CheckpointsAuto || s.gone {
		return
	}
	if s.checkpoints.due != nil {
		s.checkpoints.due.Stop()
	}
	s.checkpoints.due = time.AfterFunc(quietBefore, s.checkpointInTurn)
}

// checkpointInTurn waits until the server has time for a checkpoint that nobody asked for, and makes it unless a cell comes first.
func (s *Session) checkpointInTurn() {
	if !s.waitForTurn() {
		return
	}
	began := time.Now()
	err := s.do(context.Background(), s.checkpointUnasked)
	s.m.boundCopies(context.Background())
	time.AfterFunc((unaskedShare-1)*time.Since(began), func() { <-s.m.unasked })
	if err != nil && !errors.Is(err, ErrClosing) && !errors.Is(err, ErrDeleted) {
		s.log.Warn("make a checkpoint after a cell", "error", err)
	}
}

func (s *Session) waitForTurn() bool {
	waiting, done := s.abandonable(context.Background())
	defer done()
	select {
	case s.m.unasked <- struct{}{}:
		return true
	case <-waiting.Done():
	case <-s.m.closing:
	}
	return false
}

// abandonable returns a context that abandonCheckpoint ends; the caller calls done.
func (s *Session) abandonable(ctx context.Context) (_ context.Context, done func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.checkpoints.abandon = cancel
	return ctx, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.checkpoints.abandon = nil
		cancel(nil)
	}
}

// checkpointUnasked makes the checkpoint that a cell is followed by, unless another cell has come, and gives it up when one comes.
func (s *Session) checkpointUnasked(own context.Context) error {
	if s.canCheckpoint(wanted{}) != nil || !s.running {
		return nil
	}
	ctx, done := s.abandonable(own)
	defer done()
	_, err := s.makeCheckpoint(ctx, wanted{quick: true})
	if errors.Is(err, errAbandoned) || hasCode(err, api.CodeKernelBusy) {
		return nil
	}
	return err
}

// abandonCheckpoint gives up a checkpoint that nobody asked for. The caller holds s.mu.
func (s *Session) abandonCheckpoint() {
	if s.checkpoints.due != nil {
		s.checkpoints.due.Stop()
	}
	if s.checkpoints.abandon != nil {
		s.checkpoints.abandon(errAbandoned)
	}
}
