package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"

	"talaria/kernel"
	"talaria/kernel/procfs"
)

// Sweep removes what an earlier program of this instance left behind: the sandboxes with these handles, every control
// group of this instance that does not belong to one of this backend's living sandboxes, and the directories that its
// probes and preparations worked in. It leaves alone what other instances have on the same Root. A sandbox ends by
// itself when its program does, so most often only the groups are left. ctx bounds the wait.
func (b *Backend) Sweep(ctx context.Context, handles []kernel.Handle) error {
	return b.SweepInstance(ctx, b.cfg.Instance, handles)
}

// SweepInstance is Sweep for what a program of another instance left. The caller knows that that program is no longer
// running.
func (b *Backend) SweepInstance(ctx context.Context, instance string, handles []kernel.Handle) error {
	if !validInstance(instance) {
		return fmt.Errorf("sweep: %q is not the name of an instance", instance)
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
		if handle.Backend != b.tier.Name() || handle.BootID != boot || b.owns(handle) {
			continue
		}
		killed, err := killLeftover(ctx, handle, b.tier.Contained())
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

// killLeftover kills pid 1 of a sandbox if the process is still the one of the handle. A pid 1 that is not contained
// ends by itself, with everything it has started, since its program has ended.
func killLeftover(ctx context.Context, handle kernel.Handle, contained bool) (killed bool, err error) {
	pidfd, err := unix.PidfdOpen(handle.PID, 0)
	if errors.Is(err, unix.ESRCH) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer unix.Close(pidfd)
	// The descriptor is opened first, so that the process cannot be replaced by another after this check.
	found, err := procfs.ReadStat(handle.PID)
	if errors.Is(err, fs.ErrNotExist) || err == nil && found.StartTime != handle.StartTime {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if !contained {
		return false, procfs.WaitPidfd(ctx, pidfd)
	}
	if err := unix.PidfdSendSignal(pidfd, unix.SIGKILL, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
		return false, err
	}
	return true, procfs.WaitPidfd(ctx, pidfd)
}

// sweepGroups removes the groups of sandboxes that are not alive: those below this process's own groups, and those
// that the handles name, since the earlier server may have been in other groups.
func (b *Backend) sweepGroups(ctx context.Context, instance string, handles []kernel.Handle) error {
	var named []string
	for _, handle := range handles {
		if handle.Backend == b.tier.Name() {
			named = append(named, handle.Cgroups...)
		}
	}
	return b.groups.Sweep(ctx, instance, named)
}

// killUserProgram kills everything that a user runs.
const killUserProgram = "import os, sys; sys.path.insert(0, os.environ['" + libraryVariable + "'])\n" +
	"from talaria_init.helper import kill_user\nkill_user(*map(int, sys.argv[1:]))"

// endLeftovers kills the remaining processes of a sandbox's user when pid 1 has ended without doing so, and waits until they have
// ended. Only root can, as its sessions have users of their own; an ordinary user's processes cannot be told apart.
func (s *Sandbox) endLeftovers() error {
	s.mu.Lock()
	uid, done := s.uid, s.nothingLeft
	s.mu.Unlock()
	if done || s.backend.tier.Contained() || os.Geteuid() != 0 || uid <= 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), endPatience)
	defer cancel()
	for {
		if err := s.killUser(ctx, uid); err != nil {
			return fmt.Errorf("kill what user %d runs: %w", uid, err)
		}
		left, err := procfs.OfUser(uid)
		if err != nil || len(left) == 0 {
			return err
		}
		for _, pid := range left { // what pid 1 was about to start may have become the user's since
			if err := awaitProcess(ctx, pid); err != nil {
				return fmt.Errorf("wait for the end of processes %v of user %d: %w", left, uid, err)
			}
		}
	}
}

func (s *Sandbox) killUser(ctx context.Context, uid int) error {
	kill := exec.CommandContext(ctx, s.env.Python, "-I", "-S", "-c", killUserProgram, strconv.Itoa(uid), strconv.Itoa(s.backend.killerUID()))
	kill.Dir = "/"
	kill.Env = append(slices.Clone(pythonEnv), libraryVariable+"="+s.backend.library.dir)
	kill.WaitDelay = killPatience
	out, err := kill.CombinedOutput()
	if err != nil && len(out) > 0 {
		return fmt.Errorf("%w: %s", err, lastLine(string(out)))
	}
	return err
}

func awaitProcess(ctx context.Context, pid int) error {
	pidfd, err := unix.PidfdOpen(pid, 0)
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	if err != nil {
		return err
	}
	defer unix.Close(pidfd)
	return procfs.WaitPidfd(ctx, pidfd)
}
