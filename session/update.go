package session

import (
	"context"
	"errors"
	"maps"
	"time"

	"talaria/api"
	"talaria/kernel"
	"talaria/kernel/command"
	"talaria/kernel/disk"
	"talaria/session/settings"
	"talaria/store"
)

// Update changes what the patch names. If any part needs a fresh kernel, nothing changes and the error is needs_reset. If a
// person has to approve that the network opens, Update waits for the answer; the end of ctx withdraws the question.
func (s *Session) Update(ctx context.Context, p api.SessionPatch) error {
	return s.UpdateMetadata(ctx, p, nil)
}

// UpdateMetadata is Update, with the metadata that change makes of a copy of the present ones. No other update comes in between. An
// error of change is returned, and nothing changes; a nil change changes no metadata. change runs on the session's goroutine, and must
// not call the session.
func (s *Session) UpdateMetadata(ctx context.Context, p api.SessionPatch, change func(metadata map[string]string) error) error {
	if err := s.checkShared(p); err != nil {
		return err
	}
	if err := s.approveNetwork(ctx, p.Network); err != nil {
		return err
	}
	return s.do(context.WithoutCancel(ctx), func(own context.Context) error { // never in the middle of a start
		if change != nil {
			metadata := map[string]string{}
			s.mu.Lock()
			maps.Copy(metadata, s.metadata)
			s.mu.Unlock()
			if err := change(metadata); err != nil {
				return err
			}
			p.Metadata = &metadata
		}
		return s.update(own, p)
	})
}

func (s *Session) update(ctx context.Context, p api.SessionPatch) (err error) {
	set := s.settings()
	before, reached := set.Limits, set.Network
	s.mu.Lock()
	state, key, tmpBytes, layers := s.state, s.key(), s.tmpBytes, s.layers
	s.mu.Unlock()
	if err := s.m.operator.CheckPatch(p, &set); err != nil {
		return err
	}
	if p.Budgets != nil {
		if err := s.checkBudgets(ctx, set.Budgets); err != nil {
			return err
		}
	}
	defer func() {
		for _, one := range s.loadedBeside() {
			one.share()
		}
	}()
	if set.Limits.DiskBytes != before.DiskBytes {
		if err := limitDisk(s.dir, set.Limits.DiskBytes); err != nil {
			return err
		}
		defer func() {
			if err != nil {
				err = errors.Join(err, limitDisk(s.dir, before.DiskBytes))
			}
		}()
	}
	if err := s.markRunning(ctx, reached, set.Network); err != nil {
		return err
	}
	alive := state != api.StateDead && state != api.StateHibernated
	if wanted := kernelLimits(set.Limits); alive && wanted != kernelLimits(before) {
		wanted.TmpBytes = tmpBytes // lasts as long as a kernel
		now, err := command.Ask(ctx, s.m.cfg.Host, key, command.ChangeLimits{Limits: wanted})
		switch {
		case err == nil:
			layers = now
		case errors.Is(err, kernel.ErrNeedsReset):
			return api.Errorf(api.CodeNeedsReset,
				"these limits cannot change while the kernel runs (%v); hibernate the session and try again", err)
		case !errors.Is(err, command.ErrNoKernel):
			return err
		}
	}
	if alive && !settings.SameNetwork(set.Network, reached) {
		now, err := command.Ask(ctx, s.m.cfg.Host, key, command.ChangeNetwork{Network: s.m.operator.KernelNetwork(set.Network)})
		switch {
		case err == nil:
			layers = now
		case errors.Is(err, kernel.ErrNeedsReset):
			return api.Errorf(api.CodeNeedsReset,
				"the network cannot change while the kernel runs (%v); hibernate the session and try again", err)
		case !errors.Is(err, command.ErrNoKernel):
			return err
		}
	}
	now := time.Now().UnixMilli()
	return s.journal.commit(ctx, change{
		also: func(tx *store.Tx) error {
			err := tx.UpdateSettings(
				s.n, set.Name, set.Metadata, set.Limits, set.Network, set.IdleMS, set.Guard, set.Approvals, set.Budgets, set.Checkpoints, set.OnIdle)
			if err != nil {
				return err
			}
			return tx.UpdateLayers(s.n, layers)
		},
		progress: store.Progress{LastActive: &now},
		done: func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.name, s.metadata, s.limits, s.idleMS, s.lastActive = set.Name, set.Metadata, set.Limits, set.IdleMS, now
			s.network, s.approvalMode, s.budgets = set.Network, set.Approvals, set.Budgets
			s.guard.set(set.Guard)
			s.checkpoints.set, s.onIdle = set.Checkpoints, set.OnIdle
			s.layers = layers
			s.armReaper()
		},
	})
}

// limitDisk changes the limit of a workspace if something other than the kernel's host enforces it.
func limitDisk(dir *disk.Workspace, bytes int64) error {
	err := dir.SetLimit(bytes)
	if errors.Is(err, disk.ErrCapacity) {
		return api.Errorf(api.CodeLimitExceeded, "limits.disk_bytes cannot be %d in this session: %v; create a new session", bytes, err)
	}
	return err
}
