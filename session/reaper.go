package session

import (
	"context"
	"errors"
	"time"

	"talaria/api"
	"talaria/kernel/command"
	"talaria/kernel/workspace"
)

// useState is when the session was used and when its kernel is reaped. Guarded by Session.mu.
type useState struct {
	idleMS     int64 // idle time after which the kernel is reaped; 0 for never
	lastActive int64
	stays      int64 // lastActive when the kernel was last about to hibernate for want of memory
	attached   int   // clients that can answer input()
	held       int   // clients whose programs in the sandbox must not end for want of use
	reaper     *time.Timer
}

// armReaper sets the timer of an idle kernel. The caller holds s.mu.
func (s *Session) armReaper() {
	if s.reaper != nil {
		s.reaper.Stop()
		s.reaper = nil
	}
	if at := s.reapAt(); at != nil && !s.gone && !s.m.isClosing() {
		s.reapIn(time.Until(at.Time))
	}
}

// reapIn sets the timer of an idle kernel to go off after that time. The caller holds s.mu.
func (s *Session) reapIn(d time.Duration) {
	s.reaper = time.AfterFunc(d, func() {
		s.do(context.Background(), func(own context.Context) error { s.reap(own); return nil })
	})
}

// reapAt returns when the kernel will be reaped, or nil if it will not be. The caller holds s.mu.
func (s *Session) reapAt() *api.Time {
	if s.idleMS == 0 || s.held > 0 || s.state != api.StateIdle || s.current != nil || len(s.queue)+s.reserved > 0 {
		return nil
	}
	at := api.Millis(s.lastActive + s.idleMS)
	return &at
}

// reap ends the kernel if it is still due to be reaped.
func (s *Session) reap(ctx context.Context) {
	s.mu.Lock()
	at := s.reapAt()
	due := at != nil && !time.Now().Before(at.Time)
	switch {
	case !due:
		s.armReaper()
	case !s.m.recovered.Load(): // sessions beside it may have kernels, and hold this one's when they are taken over
		due = false
		s.reapIn(retryPause)
	}
	s.mu.Unlock()
	if !due {
		return
	}
	done, err := s.hibernateIdle(ctx)
	switch {
	case done, ctx.Err() != nil: // the next server reaps it
		return
	case hasCode(err, api.CodeDiskFull): // its variables can be saved when there is space again
		s.log.Debug("an idle kernel stays, since the state disk is nearly full", "error", err)
		s.mu.Lock()
		s.reapIn(retryPause)
		s.mu.Unlock()
		return
	case errors.Is(err, workspace.ErrNoSpace): // likewise, but nobody else makes space in its workspace, and saving takes time
		s.log.Warn("an idle kernel stays, since its workspace has no room to save the variables", "error", err)
		s.mu.Lock()
		s.reapIn(max(retryPause, time.Duration(s.idleMS)*time.Millisecond))
		s.mu.Unlock()
		return
	case err != nil:
		s.warnOfLoss(err)
	}
	if err := s.stop(ctx, reasonIdle); err != nil {
		s.log.Error("reap an idle kernel", "error", err)
		if errors.Is(err, command.ErrUnresponsive) {
			s.mu.Lock()
			s.reapIn(retryPause)
			s.mu.Unlock()
		}
		return
	}
	s.log.Info("reaped an idle kernel")
}
