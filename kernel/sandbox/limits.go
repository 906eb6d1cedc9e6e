package sandbox

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"talaria/kernel"
	"talaria/kernel/cgroup"
)

// The data segment of a process is limited to a little less than the memory of all, so that Python gets to raise
// MemoryError before the group is out of memory and something is killed.
const (
	minHeadroom = 16 << 20
	maxHeadroom = 64 << 20
	headroom    = 16 // the share of the memory, as a divisor
)

func dataLimit(memory int64) int64 {
	if memory <= 0 {
		return 0
	}
	room := min(max(memory/headroom, minHeadroom), maxHeadroom)
	return max(memory-room, memory/2)
}

// processLimits returns what pid 1 sets for each process it starts. Limits that no control group enforces cannot be
// raised inside.
func (s *Sandbox) processLimits(l kernel.Limits) processLimits {
	limits := processLimits{
		Data:     dataLimit(l.MemoryBytes),
		DataHard: !s.group.Holds(cgroup.Memory),
		FileSize: l.DiskBytes,
		Tmp:      l.TmpBytes,
		Final:    s.backend.confinement.final,
	}
	if s.MemoryUnheld() {
		limits.Final = s.backend.confinement.unheld
	}
	if s.stopped() {
		limits.FileSize = 1 // 0 means unlimited here
	}
	if l.PIDs > 0 && !s.group.Holds(cgroup.PIDs) {
		limits.Processes, _ = s.backend.tier.Processes(l.PIDs)
	}
	return limits
}

// stopped reports whether nothing may be written.
func (s *Sandbox) stopped() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.writesStopped
}

// ChangeLimits changes the limits of all processes inside. It can lower everything except limits below the present
// use, and raise only what a control group enforces. The size of the tmpfs file systems is fixed.
func (s *Sandbox) ChangeLimits(ctx context.Context, limits kernel.Limits) error {
	s.mu.Lock()
	old, sealed := s.limits, s.sealed
	s.mu.Unlock()
	if !sealed {
		return errors.New("the sandbox is not sealed")
	}
	if what := s.unchangeable(old, limits); what != "" {
		return fmt.Errorf("%s: %w", what, kernel.ErrNeedsReset)
	}
	if err := s.group.Limit(limits); err != nil {
		if errors.Is(err, unix.EBUSY) {
			err = fmt.Errorf("%w: %w", err, kernel.ErrNeedsReset)
		}
		return errors.Join(err, s.group.Limit(old))
	}
	// First for processes that start from now on, then for running ones.
	if _, err := s.call(ctx, "limits", limitsRequest{Limits: s.processLimits(limits)}); err != nil {
		return errors.Join(err, s.group.Limit(old))
	}
	if err := s.limitRunning(ctx, limits); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.limits = limits
	return nil
}

// unchangeable names a limit that cannot change while the sandbox lives, or is empty.
func (s *Sandbox) unchangeable(old, wanted kernel.Limits) string {
	raised := func(old, wanted int64) bool { return old != 0 && (wanted == 0 || wanted > old) }
	switch {
	case wanted.TmpBytes != old.TmpBytes:
		return "tmp_bytes"
	case raised(old.MemoryBytes, wanted.MemoryBytes) && !s.group.Holds(cgroup.Memory):
		return "memory_bytes"
	case wanted.PIDs != old.PIDs && !s.group.Holds(cgroup.PIDs):
		return "pids"
	case wanted.CPUs != old.CPUs && !s.group.Holds(cgroup.CPU):
		return "cpus"
	}
	return ""
}

// limitRunning changes the soft limits of all processes except pid 1.
func (s *Sandbox) limitRunning(ctx context.Context, l kernel.Limits) error {
	soft := func(bytes int64) uint64 {
		if bytes == 0 {
			return unix.RLIM_INFINITY
		}
		return uint64(bytes)
	}
	size := soft(l.DiskBytes)
	if s.stopped() {
		size = 0
	}
	wanted := map[int]uint64{unix.RLIMIT_DATA: soft(dataLimit(l.MemoryBytes)), unix.RLIMIT_FSIZE: size}
	// A process that is started meanwhile may have the old limits, so repeat until there are no new ones.
	done := []int{s.handle.PID}
	for {
		pids, err := s.pids()
		if err != nil {
			return err
		}
		pids = slices.DeleteFunc(pids, func(pid int) bool { return slices.Contains(done, pid) })
		if len(pids) == 0 {
			return nil
		}
		if err := s.limitProcesses(ctx, pids, wanted); err != nil {
			return fmt.Errorf("running processes: %w", err)
		}
		done = append(done, pids...)
	}
}

// limitProcesses sets soft limits. Root without all capabilities may do so only for its own processes: then pid 1
// makes a process of the session's user do it.
func (s *Sandbox) limitProcesses(ctx context.Context, pids []int, wanted map[int]uint64) error {
	if s.asksPID1() {
		body := softRequest{PIDs: pids, Data: int64(wanted[unix.RLIMIT_DATA]), FileSize: int64(wanted[unix.RLIMIT_FSIZE])}
		_, err := s.call(ctx, "limit", body)
		return err
	}
	return s.backend.asOwner(func(bool) error {
		for _, pid := range pids {
			for resource, value := range wanted {
				if err := setSoftLimit(pid, resource, value); err != nil && !errors.Is(err, unix.ESRCH) {
					return err
				}
			}
		}
		return nil
	})
}

// asksPID1 reports whether this process may not look into the processes inside, because these have another user.
func (s *Sandbox) asksPID1() bool { return !s.backend.tier.Contained() && os.Geteuid() == 0 }

func setSoftLimit(pid, resource int, value uint64) error {
	var limit unix.Rlimit
	if err := unix.Prlimit(pid, resource, nil, &limit); err != nil {
		return os.NewSyscallError("prlimit", err)
	}
	limit.Cur = min(value, limit.Max)
	return os.NewSyscallError("prlimit", unix.Prlimit(pid, resource, &limit, nil))
}
