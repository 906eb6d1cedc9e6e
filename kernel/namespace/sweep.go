package namespace

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"talaria/kernel"
)

// Sweep removes what an earlier program of this instance left behind: the sandboxes with these handles, every control
// group of this instance that is not one of this backend's living sandboxes, and the directories that its probes and
// preparations worked in. What other instances have on the same Root is left alone. A sandbox ends by itself when its
// program does, so that most often only the groups are left. ctx bounds the waiting.
func (b *Backend) Sweep(ctx context.Context, handles []kernel.Handle) error {
	return b.SweepInstance(ctx, b.cfg.Instance, handles)
}

// SweepInstance is Sweep for what a program of another instance left. The caller knows that it runs no longer.
func (b *Backend) SweepInstance(ctx context.Context, instance string, handles []kernel.Handle) error {
	if !validInstance(instance) {
		return fmt.Errorf("sweep: %q is no instance", instance)
	}
	return errors.Join(
		b.sweepHandles(ctx, handles),
		b.sweepGroups(ctx, instance, handles),
		b.sweepOwnDirs(instance),
	)
}

func (b *Backend) sweepHandles(ctx context.Context, handles []kernel.Handle) error {
	boot, err := kernel.BootID()
	if err != nil {
		return fmt.Errorf("sweep: read boot id: %w", err)
	}
	var errs []error
	for _, handle := range handles {
		if handle.Backend != b.isolation.Tier() || handle.BootID != boot || b.owns(handle) {
			continue
		}
		killed, err := killLeftover(ctx, handle, b.isolation.Contained())
		if err != nil {
			errs = append(errs, fmt.Errorf("sweep process %d: %w", handle.PID, err))
		} else if killed {
			b.cfg.Log.InfoContext(ctx, "killed a sandbox that an earlier server left", "pid", handle.PID)
		}
	}
	return errors.Join(errs...)
}

func (b *Backend) owns(handle kernel.Handle) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, s := range b.live {
		if s.handle.PID == handle.PID && s.handle.StartTime == handle.StartTime {
			return true
		}
	}
	return false
}

// killLeftover kills pid 1 of a sandbox if the process is still the one of the handle. One that is not contained ends by
// itself, with what it has started, since its program has.
func killLeftover(ctx context.Context, handle kernel.Handle, contained bool) (killed bool, err error) {
	pidfd, err := unix.PidfdOpen(handle.PID, 0)
	if errors.Is(err, unix.ESRCH) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer unix.Close(pidfd)
	// The descriptor is opened first, so that the process cannot become another after this.
	found, err := readStat(handle.PID)
	if errors.Is(err, fs.ErrNotExist) || err == nil && found.startTime != handle.StartTime {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if !contained {
		return false, waitPidfd(ctx, pidfd)
	}
	if err := unix.PidfdSendSignal(pidfd, unix.SIGKILL, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
		return false, err
	}
	return true, waitPidfd(ctx, pidfd)
}

// waitPidfd waits until a process is dead.
func waitPidfd(ctx context.Context, pidfd int) error {
	wake, err := unix.Eventfd(0, unix.EFD_CLOEXEC)
	if err != nil {
		return err
	}
	defer unix.Close(wake)
	done := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(done)
		_, _ = unix.Write(wake, []byte{1, 0, 0, 0, 0, 0, 0, 0})
	})
	defer func() {
		if !stop() {
			<-done
		}
	}()
	for {
		fds := []unix.PollFd{{Fd: int32(pidfd), Events: unix.POLLIN}, {Fd: int32(wake), Events: unix.POLLIN}}
		_, err := unix.Poll(fds, -1)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return err
		case fds[0].Revents != 0:
			return nil
		}
		return context.Cause(ctx)
	}
}

// sweepGroups removes the groups of sandboxes that are not alive: those below this process's own groups, and those
// that the handles name, since the earlier server may have been in others.
func (b *Backend) sweepGroups(ctx context.Context, instance string, handles []kernel.Handle) error {
	var errs []error
	left := make(map[string]*group)
	add := func(h hierarchy, dir string) {
		id := filepath.Base(dir)
		if b.groups.inUse(id) {
			return
		}
		if left[id] == nil {
			left[id] = &group{owner: b.groups, id: id, byDir: make(map[string]hierarchy)}
		}
		if left[id].byDir[dir] == nil {
			left[id].byDir[dir] = h
			left[id].order = append(left[id].order, dir)
		}
	}
	for _, h := range b.groups.hierarchies {
		parent := filepath.Join(h.base(), parentGroup, instance)
		entries, err := os.ReadDir(parent)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, fmt.Errorf("sweep control groups: %w", err))
		}
		for _, entry := range entries {
			if entry.IsDir() {
				add(h, filepath.Join(parent, entry.Name()))
			}
		}
	}
	for _, handle := range handles {
		for _, dir := range handle.Cgroups {
			if h := recognise(dir, instance); h != nil && handle.Backend == b.isolation.Tier() {
				add(h, dir)
			}
		}
	}
	for id, g := range left {
		if err := g.killAll(ctx); err != nil {
			errs = append(errs, fmt.Errorf("sweep control group %s: %w", id, err))
			continue
		}
		if err := g.remove(); err != nil {
			errs = append(errs, fmt.Errorf("sweep: %w", err))
		}
	}
	return errors.Join(errs...)
}

// killAll kills the processes in a group and waits for their end. Groups of this instance hold nothing but what
// sandboxes run, so that their members may be killed without knowing them.
func (g *group) killAll(ctx context.Context) error {
	for _, dir := range g.order {
		for {
			pids, err := groupPIDs(dir)
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
			if len(pids) == 0 {
				break
			}
			for _, pid := range pids {
				if err := killMember(ctx, dir, pid); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func killMember(ctx context.Context, dir string, pid int) error {
	pidfd, err := unix.PidfdOpen(pid, 0)
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	if err != nil {
		return err
	}
	defer unix.Close(pidfd)
	// As above: is the process behind the descriptor still a member?
	members, err := groupPIDs(dir)
	if err != nil {
		return err
	}
	for _, member := range members {
		if member != pid {
			continue
		}
		if err := unix.PidfdSendSignal(pidfd, unix.SIGKILL, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
			return err
		}
		return waitPidfd(ctx, pidfd)
	}
	return nil
}
