package session

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"slices"
	"strings"

	jsonv2 "github.com/go-json-experiment/json"

	"talaria/api"
	"talaria/artifacts"
	"talaria/kernel/workspace"
	"talaria/session/settings"
	"talaria/store"
)

// origin is what forks of a session begin with.
type origin struct {
	set      settings.Settings
	saved    *savedVariables // nil if there are none
	files    workspace.Manifest
	packages *workspace.Manifest // of the layer in force; nil if no packages are installed
	parent   string              // the id of the session
	point    string              // that of its checkpoint; "": it is as the session was then
	last     string              // its newest execution, or ""
	lost     []api.NotRestored   // what forks do not have
}

// blobs returns those that may be needed no longer once the forks have their files: a checkpoint needs its own.
func (o origin) blobs() (digests []string) {
	if o.point == "" {
		digests = slices.Collect(digestsOf(o.files, o.saved))
	}
	if o.packages != nil {
		digests = slices.AppendSeq(digests, o.packages.Digests())
	}
	return digests
}

// Fork makes sessions of the same owner with the variables and files that this one has now, or had at a checkpoint, and its packages
// and settings; it goes on undisturbed. A fork hibernates until it is used. While a cell runs or waits it fails with kernel_busy; that
// some forks cannot be made is in the reply.
func (s *Session) Fork(ctx context.Context, req api.ForkRequest) (reply api.ForkReply, err error) {
	count := int64(1)
	api.Set(&count, req.Count)
	switch {
	case count < 1 || count > api.MaxForks:
		return reply, api.Invalid("count must be between 1 and %d", api.MaxForks)
	case s.main != nil:
		return reply, s.noCheckpoints()
	case req.Name != nil && len(*req.Name) > settings.MaxName:
		return reply, api.Invalid("name is longer than %d bytes", settings.MaxName)
	}
	ctx = context.WithoutCancel(ctx)
	hold := s.m.cfg.Artifacts.Hold()
	var from origin
	defer func() { hold.Release(); s.m.blobs.removeSoon(from.blobs()) }()
	from, err = s.takeOrigin(ctx, hold, req.CheckpointID)
	if err != nil {
		return reply, err
	}
	api.Set(&from.set.Name, req.Name)
	for range count {
		made, lost, err := s.forkAs(ctx, nil, from)
		if err != nil {
			var problem *api.Error
			if !errors.As(err, &problem) {
				s.log.Error("fork a session", "error", err)
				problem = api.Errorf(api.CodeInternal, "the fork could not be created; the cause is in the server's log")
			}
			reply.Items = append(reply.Items, api.Fork{Problem: problem})
			continue
		}
		info := made.Info(ctx)
		made.Release()
		reply.Items = append(reply.Items, api.Fork{Session: &info, NotRestored: lost})
	}
	return reply, nil
}

// EnsureFork returns the owner's session with that id. If there is none it makes it, as a fork of another session of the owner, with
// these metadata besides that one's. The caller releases it.
func (m *Manager) EnsureFork(ctx context.Context, owner, id, of string, metadata map[string]string) (*Session, error) {
	if s, err := m.Get(owner, id); !errors.Is(err, ErrDeleted) {
		return s, err
	}
	parent, err := m.Get(owner, of)
	if err != nil {
		return nil, err
	}
	defer parent.Release()
	if parent.main != nil {
		return nil, parent.noCheckpoints()
	}
	ctx = context.WithoutCancel(ctx)
	hold := m.cfg.Artifacts.Hold()
	var from origin
	defer func() { hold.Release(); m.blobs.removeSoon(from.blobs()) }()
	from, err = parent.takeOrigin(ctx, hold, nil)
	if err != nil {
		return nil, err
	}
	all := map[string]string{}
	maps.Copy(all, from.set.Metadata)
	maps.Copy(all, metadata)
	from.set.Metadata = all
	fork, _, err := parent.forkAs(ctx, &id, from)
	return fork, err
}

// forkAs makes a fork, under an id if it is not nil, and returns what did not come along. The caller releases the fork.
func (s *Session) forkAs(ctx context.Context, id *string, from origin) (fork *Session, lost []api.NotRestored, err error) {
	fork, err = s.m.make(ctx, making{owner: s.owner, clientID: id, set: from.set, fill: func(fork *Session) (c change, err error) {
		c, lost, err = fork.fill(ctx, from)
		return c, err
	}})
	return fork, lost, err
}

// takeOrigin takes what forks of the session begin with, if no cell runs or waits. hold protects the blobs.
func (s *Session) takeOrigin(ctx context.Context, hold *artifacts.Hold, checkpoint *string) (from origin, err error) {
	err = s.do(ctx, func(own context.Context) (err error) {
		if err := s.atRest("fork"); err != nil {
			return err
		}
		if err := s.endLeaving(own); err != nil {
			return err
		}
		from, err = s.origin(own, hold, checkpoint)
		return errors.Join(err, s.touch(own))
	})
	return from, err
}

// origin takes what forks of the session begin with. hold protects the blobs. On the session's goroutine.
func (s *Session) origin(ctx context.Context, hold *artifacts.Hold, checkpoint *string) (origin, error) {
	o := origin{parent: s.clientID, lost: []api.NotRestored{}}
	keep := func(ctx context.Context, f *os.File, e workspace.Entry) (string, error) {
		if err := s.m.spare(); err != nil {
			return "", err
		}
		blob, err := hold.Put(ctx, f)
		return blob.SHA256, err
	}
	var err error
	if checkpoint != nil {
		err = s.originAt(ctx, hold, *checkpoint, &o)
	} else {
		err = s.originNow(ctx, hold, s.boundedKeep(keep), &o)
	}
	if err != nil {
		return o, err
	}
	o.saved = o.saved.untried()
	o.set = s.settings()
	o.set.Metadata, o.set.Packages = metadataOfFork(o.set.Metadata), []string{}
	row, err := s.m.cfg.Store.SessionNumber(ctx, s.n)
	if err != nil {
		return o, err
	}
	o.set.Builtin = row.BuiltinTools
	o.packages, err = s.packages.Capture(ctx, keep)
	return o, err
}

// originNow takes the variables and files that the session has now.
func (s *Session) originNow(ctx context.Context, hold *artifacts.Hold, keep workspace.Keep, o *origin) (err error) {
	s.mu.Lock()
	o.saved = s.saved
	s.mu.Unlock()
	switch {
	case s.running:
		o.saved, err = s.saveVariables(ctx, hold, math.MaxInt64)
	case o.saved != nil: // this session may wake or be deleted meanwhile
		_, err = hold.Keep(o.saved.Digest)
	}
	if err != nil {
		return err
	}
	if _, o.last, err = s.m.cfg.Store.Ended(ctx, s.n); err != nil {
		return err
	}
	if o.files, err = s.dir.Capture(ctx, nil, keep); err != nil {
		return fmt.Errorf("look at the workspace: %w", err)
	}
	return nil
}

// originAt takes the variables and files of a checkpoint.
func (s *Session) originAt(ctx context.Context, hold *artifacts.Hold, id string, o *origin) error {
	row, files, err := s.findCheckpoint(ctx, id)
	if err != nil {
		return err
	}
	o.point, o.last, o.files = row.ID, row.Execution, files
	switch row.Level {
	case api.CheckpointLive:
		o.saved, err = s.saveCopy(ctx, hold, row)
	case api.CheckpointFiles:
		o.lost = append(o.lost, api.NotRestored{Name: "all variables", Reason: "the checkpoint has none: " + row.Reason})
	default:
		o.saved, err = decodeSaved(row.Saved)
	}
	if err != nil {
		return err
	}
	for digest := range digestsOf(files, o.saved) {
		if there, err := hold.Keep(digest); err != nil {
			return err
		} else if !there {
			return fmt.Errorf("checkpoint %s: the blob %s is missing", row.ID, digest)
		}
	}
	return nil
}

// metadataOfFork returns the metadata without what the fronts for other clients keep there about this very session, such as when it
// ends.
func metadataOfFork(metadata map[string]string) map[string]string {
	kept := maps.Clone(metadata)
	maps.DeleteFunc(kept, func(key, _ string) bool { return strings.HasPrefix(key, "talaria.") })
	return kept
}

// fill gives a new session what a fork has, and returns the change that is committed with it, and what did not come along.
func (s *Session) fill(ctx context.Context, from origin) (c change, lost []api.NotRestored, err error) {
	open := func(digest string) (*os.File, error) {
		f, _, err := s.m.cfg.Artifacts.Get(digest)
		return f, err
	}
	lost = slices.Clone(from.lost)
	restored, err := s.dir.Restore(ctx, from.files, workspace.Manifest{}, open, workspace.RestoreOptions{})
	if err != nil {
		return c, nil, fmt.Errorf("fill the workspace of a fork: %w", err)
	}
	for _, missing := range restored.NotRestored {
		lost = append(lost, api.NotRestored{Name: printable(missing.Path), Reason: missing.Reason})
	}
	if from.packages != nil {
		if err := s.packages.Fill(ctx, *from.packages, open); err != nil {
			return c, nil, fmt.Errorf("fill the packages of a fork: %w", err)
		}
	}
	var encoded []byte
	digest := ""
	if from.saved != nil {
		digest = from.saved.Digest
		for _, missing := range from.saved.NotSaved {
			lost = append(lost, api.NotRestored{Name: missing.Name, Reason: missing.Reason})
		}
		if encoded, err = jsonv2.Marshal(from.saved); err != nil {
			return c, nil, err
		}
	}
	files := s.filesRestored(ctx)
	c = change{
		drafts: []draft{{executionID: from.last, body: api.SessionForked{SessionID: from.parent, CheckpointID: from.point, NotRestored: lost}}},
		also:   func(tx *store.Tx) error { return tx.UpdateSaved(s.n, encoded, digest) },
		done:   func() { s.mu.Lock(); defer s.mu.Unlock(); s.saved = from.saved },
	}
	c.add(files)
	return c, lost, nil
}
