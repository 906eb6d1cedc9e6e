package cgroup

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"talaria/kernel/procfs"
)

// Sweep removes the groups of an instance that are not in use: those below this process's own groups, and the named
// directories that an earlier server of this instance made.
func (g *Groups) Sweep(ctx context.Context, instance string, named []string) error {
	var errs []error
	left := make(map[string]*Group)
	add := func(h Hierarchy, dir string) {
		id := filepath.Base(dir)
		if g.inUse(id) {
			return
		}
		if left[id] == nil {
			left[id] = &Group{owner: g, id: id, byDir: make(map[string]Hierarchy)}
		}
		if left[id].byDir[dir] == nil {
			left[id].byDir[dir] = h
			left[id].order = append(left[id].order, dir)
		}
	}
	for _, h := range g.Hierarchies {
		parent := filepath.Join(h.Base(), parentGroup, instance)
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
	for _, dir := range named {
		if h := recognise(dir, instance); h != nil {
			add(h, dir)
		}
	}
	for id, group := range left {
		if err := group.killAll(ctx); err != nil {
			errs = append(errs, fmt.Errorf("sweep control group %s: %w", id, err))
			continue
		}
		if err := group.Remove(); err != nil {
			errs = append(errs, fmt.Errorf("sweep: %w", err))
		}
	}
	return errors.Join(errs...)
}

// killAll kills the processes in a group and waits for their end. Groups of this instance hold nothing but what
// sandboxes run, so their members may be killed without knowing which they are.
func (g *Group) killAll(ctx context.Context) error {
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
		return procfs.WaitPidfd(ctx, pidfd)
	}
	return nil
}
