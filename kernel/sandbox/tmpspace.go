package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"talaria/kernel"
	"talaria/kernel/cgroup"
	"talaria/kernel/procfs"
)

var (
	_ kernel.Watched    = (*Sandbox)(nil)
	_ kernel.OOMCounter = (*Sandbox)(nil)
	_ kernel.TmpMeter   = (*Sandbox)(nil)
)

// StopWrites sets the soft limit on file sizes to 0, or back to its old value, for all processes inside and those that
// start later. Users who cannot change their limits cannot raise it.
func (s *Sandbox) StopWrites(ctx context.Context, stop bool) error {
	s.mu.Lock()
	s.writesStopped = stop
	limits := s.limits
	s.mu.Unlock()
	_, later := s.call(ctx, "limits", limitsRequest{Limits: s.processLimits(limits)})
	if err := errors.Join(later, s.limitRunning(ctx, limits)); err != nil {
		return fmt.Errorf("limit writing: %w", err)
	}
	return nil
}

// writableFolders are the folders of a sandbox that are kept in memory.
var writableFolders = []string{"/tmp", "/dev/shm", "/home/talaria"}

// TmpFree returns the least free space of /tmp, /dev/shm and the home directory. It needs a host that is root.
func (s *Sandbox) TmpFree() (int64, error) {
	if !s.backend.tier.Contained() {
		return 0, fmt.Errorf("they do not have their own file systems: %w", errors.ErrUnsupported)
	}
	least := int64(math.MaxInt64)
	for _, folder := range writableFolders {
		var st unix.Statfs_t
		if err := unix.Statfs(fmt.Sprintf("/proc/%d/root%s", s.handle.PID, folder), &st); err != nil {
			return 0, os.NewSyscallError("statfs", err)
		}
		least = min(least, int64(st.Bavail)*st.Bsize)
	}
	return least, nil
}

// CPU returns the control group's CPU time, or the sum over the living processes and the children that they waited
// for.
func (s *Sandbox) CPU(context.Context) (time.Duration, error) {
	used, err := s.group.CPU()
	if !errors.Is(err, cgroup.ErrNotHeld) {
		return used, err
	}
	pids, err := s.pids()
	if err != nil {
		return 0, err
	}
	used = 0
	for _, pid := range pids {
		if p, err := procfs.ReadStat(pid); err == nil {
			used += p.CPU + p.Reaped
		}
	}
	return used, nil
}

// MemoryUnheld reports whether no control group bounds the memory of all processes together.
func (s *Sandbox) MemoryUnheld() bool { return !s.group.Holds(cgroup.Memory) }

// openFiles visits the open files of a process. If the process has made itself unreadable, only root can open its
// folder of descriptors; the owner of its user namespace can duplicate them.
func openFiles(pid int, visit func(name string, st *unix.Stat_t)) error {
	dir, err := os.Open(fmt.Sprintf("/proc/%d/fd", pid))
	if errors.Is(err, fs.ErrPermission) && duplicateFiles(pid, visit) == nil {
		return nil
	}
	if err != nil {
		return procfs.Gone(err)
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return procfs.Gone(err)
	}
	var st unix.Stat_t
	for _, name := range names {
		switch err := unix.Fstatat(int(dir.Fd()), name, &st, 0); {
		case err == nil:
			visit(name, &st)
		case errors.Is(err, fs.ErrPermission): // the folder can be opened with CAP_DAC_OVERRIDE, and not more
			return fmt.Errorf("open files of process %d: %w", pid, err)
		}
	}
	return nil
}

func duplicateFiles(pid int, visit func(name string, st *unix.Stat_t)) error {
	process, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return os.NewSyscallError("pidfd_open", err)
	}
	defer unix.Close(process)
	var st unix.Stat_t
	left := descriptors(pid)
	for number := 0; number < maxDescriptors && left > 0; number++ {
		fd, err := unix.PidfdGetfd(process, number, 0)
		if errors.Is(err, unix.EBADF) {
			continue
		}
		if err != nil {
			return os.NewSyscallError("pidfd_getfd", err)
		}
		left--
		if unix.Fstat(fd, &st) == nil {
			visit(strconv.Itoa(number), &st)
		}
		closeDuplicate(fd, &st)
	}
	return nil
}

// closeDuplicate does not wait for a socket, which lingers if its owner has closed it meanwhile.
func closeDuplicate(fd int, st *unix.Stat_t) {
	if st.Mode&unix.S_IFMT == unix.S_IFSOCK {
		go unix.Close(fd)
	} else {
		_ = unix.Close(fd)
	}
}

// KillLargest kills the process that uses the most memory, except for pid 1 and the interpreters, if all together still use
// more than limit. Processes that are ending do not count: killing another one for their memory would be a mistake. Nor do
// pages count twice that processes share since a fork, as they do in Usage.
func (s *Sandbox) KillLargest(_ context.Context, limit int64) (name string, used int64, err error) {
	pids, err := s.pids()
	if err != nil {
		return "", 0, err
	}
	interpreters := s.interpreters()
	var largest procfs.Process
	victim := 0
	var t tally
	for _, pid := range pids {
		p, err := procfs.Read(pid)
		if err != nil || p.Ending {
			continue
		}
		if pid == s.handle.PID || interpreters[p.InsidePID] {
			t.addShare(pid, p, s.shared)
			continue
		}
		t.addShare(pid, p, 0)
		if victim == 0 || p.Memory() > largest.Memory() {
			victim, largest = pid, p
		}
	}
	used = s.total(t, pids)
	if used <= limit || victim == 0 {
		return "", used, nil
	}
	return largest.Name, used, procfs.Kill(victim, largest.StartTime)
}

// OOMKills counts the processes inside that were killed for the sandbox's memory limit since the last ResetPeak.
func (s *Sandbox) OOMKills() int64 {
	if s.MemoryUnheld() {
		return 0
	}
	now := s.countOOMs()
	s.mu.Lock()
	defer s.mu.Unlock()
	return max(0, now.Kills-s.ooms.Kills)
}
