package session

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"talaria/api"
	"talaria/kernel/command"
	"talaria/kernel/record"
	"talaria/kernel/workspace"
	"talaria/store"
)

const (
	maxNamedCheckpoints = 100
	maxDiff             = 1000
	maxDiffRead         = 64 << 20 // bytes of a file that is read to find out whether it differs
	// copyShare is the part of the session's memory, as a divisor, that copies of the interpreter may take where nobody asks
	// for anything else.
	copyShare = 4
)

// checkpoints is what the session does about checkpoints. Guarded by Session.mu, but for known and missing, which only the session's
// goroutine touches.
type checkpoints struct {
	set     api.Checkpoints
	held    int64                   // what copies of the interpreter take in addition to it, as far as is known
	due     *time.Timer             // until a checkpoint that nobody asked for has its turn
	abandon context.CancelCauseFunc // gives up the one that waits for its turn, or is being made; nil if there is none
	known   *workspace.Manifest     // the newest manifest
	missing map[string]int64        // numbers of checkpoints by their copies that were not there and whose end is not reported yet
}

// checkpointSettings are the settings in force. The caller holds s.mu.
func (s *Session) checkpointSettings() api.Checkpoints {
	set := s.checkpoints.set
	if set.MemoryBytes == 0 {
		set.MemoryBytes = s.limits.MemoryBytes / copyShare
	}
	return set
}

// Checkpoints lists the session's checkpoints, newest first.
func (s *Session) Checkpoints(ctx context.Context) ([]api.Checkpoint, error) {
	rows, err := s.m.cfg.Store.Checkpoints(ctx, s.n)
	if err != nil {
		return nil, err
	}
	list := make([]api.Checkpoint, len(rows))
	for i, row := range rows {
		if list[i], err = checkpointInfo(row); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// CheckpointInfo returns one checkpoint.
func (s *Session) CheckpointInfo(ctx context.Context, id string) (api.Checkpoint, error) {
	row, _, err := s.findCheckpoint(ctx, id)
	if err != nil {
		return api.Checkpoint{}, err
	}
	return checkpointInfo(row)
}

// printable returns a path as JSON can carry it.
func printable(path string) string { return strings.ToValidUTF8(path, "\uFFFD") }

// findCheckpoint returns the checkpoint with that id, and its manifest.
func (s *Session) findCheckpoint(ctx context.Context, id string) (store.Checkpoint, workspace.Manifest, error) {
	var manifest workspace.Manifest
	row, err := s.m.cfg.Store.Checkpoint(ctx, s.n, id)
	if errors.Is(err, store.ErrNotFound) {
		err = api.Errorf(api.CodeCheckpointNotFound,
			"this session has no checkpoint %.140q; it may have been dropped to make room for newer ones: give a checkpoint a name to keep it", id)
	}
	if err != nil {
		return row, manifest, err
	}
	return row, manifest, manifest.UnmarshalBinary(row.Manifest)
}

// checkpointInfo returns the row as clients see it.
func checkpointInfo(row store.Checkpoint) (api.Checkpoint, error) {
	c := api.Checkpoint{
		ID: row.ID, Name: row.Name, ExecutionID: row.Execution, ExecutionCount: row.ExecutionCount, CreatedAt: api.Millis(row.CreatedAt),
		Level: row.Level, Reason: row.Reason, Undo: row.Undo, Bytes: row.Space, NotSaved: append([]api.NotSaved{}, row.Losses...),
	}
	if row.Level == api.CheckpointLive {
		c.Bytes += row.Resident
	}
	var manifest workspace.Manifest
	if err := manifest.UnmarshalBinary(row.Manifest); err != nil {
		return c, fmt.Errorf("checkpoint %s: %w", row.ID, err)
	}
	for _, missing := range manifest.Missing {
		if len(c.NotSaved) == maxDiff {
			break
		}
		c.NotSaved = append(c.NotSaved, api.NotSaved{Name: printable(missing.Path), Type: "file", Reason: missing.Reason})
	}
	return c, nil
}

// DropCheckpoint deletes a checkpoint.
func (s *Session) DropCheckpoint(ctx context.Context, id string) error {
	return s.do(context.WithoutCancel(ctx), func(own context.Context) error {
		row, _, err := s.findCheckpoint(own, id)
		if err != nil {
			return err
		}
		unneeded := s.m.blobs.onlyIn(own, []store.Checkpoint{row})
		if err := s.journal.commit(own, dropped(row, "deleted")); err != nil {
			return err
		}
		s.checkpoints.known = nil // it may name blobs that nothing needs any more
		s.m.blobs.removeSoon(unneeded)
		s.dropCopies(own, []store.Checkpoint{row})
		return nil
	})
}

// dropped returns the change that deletes a checkpoint.
func dropped(row store.Checkpoint, reason string) change {
	return change{
		drafts: []draft{{body: api.CheckpointDropped{CheckpointID: row.ID, Reason: reason}}},
		also:   func(tx *store.Tx) error { return tx.DeleteCheckpoint(row.N) },
	}
}

// copyEnded returns the change that leaves a checkpoint its files only. why is for people.
func copyEnded(row store.Checkpoint, reason, why string) change {
	return change{
		drafts: []draft{{body: api.CheckpointDropped{CheckpointID: row.ID, Reason: reason, Level: api.CheckpointFiles}}},
		also:   func(tx *store.Tx) error { return tx.UpdateCheckpointCopy(row.N, "", why) },
	}
}

// copyMissing returns the same change for a copy that the host does not have. If it says later why, the checkpoint's reason follows. On
// the session's goroutine.
func (s *Session) copyMissing(row store.Checkpoint) change {
	if s.checkpoints.missing == nil {
		s.checkpoints.missing = map[string]int64{}
	}
	s.checkpoints.missing[row.Copy] = row.N
	return copyEnded(row, "ended", "the copy of the interpreter has ended")
}

// dropCopies ends the copies of the interpreter of checkpoints that do not have them any more. What fails is ended with the
// kernel, or by the next server.
func (s *Session) dropCopies(ctx context.Context, rows []store.Checkpoint) {
	key := s.kernelKey()
	for _, row := range rows {
		if row.Copy == "" || row.Generation != key.Generation || !s.running {
			continue
		}
		if err := command.Tell(ctx, s.m.cfg.Host, key, command.DropCopy{ID: row.Copy}); err != nil && !errors.Is(err, command.ErrNoKernel) {
			s.log.Warn("end a copy of the interpreter", "error", err)
		}
	}
}

// copyLost handles that a copy of the interpreter is gone.
func (t *translation) copyLost(lost record.CopyLost) {
	if n, ok := t.s.checkpoints.missing[lost.ID]; ok {
		delete(t.s.checkpoints.missing, lost.ID)
		t.c.add(change{also: func(tx *store.Tx) error { return tx.UpdateCheckpointCopy(n, "", lossReason(lost.Reason)) }})
		return
	}
	rows, err := t.s.m.cfg.Store.Checkpoints(t.ctx, t.s.n)
	if err != nil {
		t.s.log.Error("find the checkpoint of a lost copy", "error", err)
		return
	}
	for _, row := range rows {
		if row.Copy == lost.ID {
			t.c.add(copyEnded(row, lost.Reason, lossReason(lost.Reason)))
		}
	}
}

// lossReason says to people why a copy of an interpreter is gone.
func lossReason(reason string) string {
	switch reason {
	case "resumed":
		return "the rollback that it was made for failed, and the interpreter resumed"
	case "memory_limit":
		return "the copy of the interpreter was ended to make room: the session reached limits.memory_bytes"
	case "out_of_memory":
		return "the copy of the interpreter was ended to make room: the machine had no memory left"
	}
	return fmt.Sprintf("the copy of the interpreter ended (%s)", reason)
}

// copiesEnded returns the change that all copies are gone, with their kernel.
func (s *Session) copiesEnded(reason string) change {
	return change{
		also: func(tx *store.Tx) error {
			return tx.EndCheckpointCopies(s.n, fmt.Sprintf("the kernel has ended (%s)", reason))
		},
		done: func() { s.holds(0) },
	}
}

// CheckpointDiff returns what changed from a checkpoint to another, or to now with "".
func (s *Session) CheckpointDiff(ctx context.Context, id, to string) (api.CheckpointDiff, error) {
	diff := api.CheckpointDiff{Files: []api.FileChange{}, Variables: []api.VariableChange{}}
	before, files, err := s.findCheckpoint(ctx, id)
	if err != nil {
		return diff, err
	}
	var later []api.Variable
	var now workspace.Manifest
	if to != "" {
		row, manifest, err := s.findCheckpoint(ctx, to)
		if err != nil {
			return diff, err
		}
		later, now = row.Variables, manifest
	} else {
		if now, err = s.dir.Capture(ctx, &files, likely(files)); err != nil {
			return diff, fmt.Errorf("look at the workspace: %w", err)
		}
		if s.atRest("compare") == nil {
			later, err = s.interpreter.allVariables(ctx)
		} else if present, busy := s.interpreter.Variables(ctx); busy != nil {
			err = busy
		} else {
			later = present.Items
		}
		if err != nil && !hasCode(err, api.CodeNoKernel) {
			return diff, err
		}
	}
	for _, c := range files.Diff(now) {
		if len(diff.Files) == maxDiff {
			diff.Truncated = true
			break
		}
		diff.Files = append(diff.Files, api.FileChange{Path: printable(c.Path), Change: api.Change(c.Change), Size: c.Size})
	}
	diff.Variables, diff.Truncated = variableChanges(before.Variables, later, diff.Truncated)
	return diff, nil
}

// likely returns a Keep that keeps nothing, and reads the files that may be the same although somebody has written them again.
func likely(before workspace.Manifest) workspace.Keep {
	return func(ctx context.Context, f *os.File, e workspace.Entry) (string, error) {
		if old, ok := before.Find(e.Path); !ok || old.Size != e.Size || e.Size > maxDiffRead {
			return "", &workspace.NotKeptError{Reason: "it differs"}
		}
		hash := sha256.New()
		if _, err := io.Copy(hash, io.LimitReader(f, e.Size)); err != nil {
			return "", err
		}
		return hex.EncodeToString(hash.Sum(nil)), nil
	}
}

func hasCode(err error, code api.Code) bool {
	var e *api.Error
	return errors.As(err, &e) && e.Code == code
}

// variableChanges compares two lists of variables by name.
func variableChanges(before, after []api.Variable, truncated bool) ([]api.VariableChange, bool) {
	list := []api.VariableChange{}
	old := map[string]api.Variable{}
	for _, v := range before {
		old[v.Name] = v
	}
	for _, v := range after {
		was, known := old[v.Name]
		delete(old, v.Name)
		switch {
		case !known:
			list = append(list, api.VariableChange{Name: v.Name, Change: api.Created})
		case !sameVariable(was, v):
			list = append(list, api.VariableChange{Name: v.Name, Change: api.Modified})
		}
	}
	for name := range old {
		list = append(list, api.VariableChange{Name: name, Change: api.Deleted})
	}
	slices.SortFunc(list, func(a, b api.VariableChange) int { return strings.Compare(a.Name, b.Name) })
	if len(list) > maxDiff {
		return list[:maxDiff], true
	}
	return list, truncated
}

func sameVariable(a, b api.Variable) bool {
	sizes := a.SizeBytes == b.SizeBytes || a.SizeBytes != nil && b.SizeBytes != nil && *a.SizeBytes == *b.SizeBytes
	return a.Type == b.Type && a.Dtype == b.Dtype && a.Preview == b.Preview && sizes && slices.Equal(a.Shape, b.Shape)
}
