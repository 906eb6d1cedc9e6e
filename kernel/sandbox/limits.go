package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"talaria/kernel"
	"talaria/kernel/cgroup"
	"talaria/kernel/procfs"
)

// The data segment of a process is limited to a little less than the memory of all, so that Python gets to raise
// MemoryError before the group is out of memory and something is killed.
const (
	minHeadroom = 16 << 20
	maxHeadroom = 64 << 20
	headroom    = 16 // the share of the memory, as a divisor
)

// maxRounds is how often the limits of running processes are changed until none has the old ones. A process inherits them from one
// that has them, so whatever has the old ones in a round was started by a process that had them, too, and that ended before the round
// before reached it, or was started during that. So at the end there is a line of as many generations, each of which lived for less
// than a round: no ordinary program starts others like that, and code that does so to keep the old limits may never be caught.
const maxRounds = 16

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
	unlimited := func() ([]int, error) {
		pids, err := s.pids()
		return slices.DeleteFunc(pids, func(pid int) bool { return pid == s.handle.PID || isLimited(pid, wanted) }), err
	}
	if err := limitAll(unlimited, func(pids []int) error { return s.limitProcesses(ctx, pids, wanted) }); err != nil {
		return fmt.Errorf("running processes: %w", err)
	}
	return nil
}

// limitAll limits all processes: one that is started meanwhile may have the old limits, so it repeats that until there are none with
// these.
func limitAll(unlimited func() ([]int, error), limit func(pids []int) error) error {
	for range maxRounds {
		pids, err := unlimited()
		if err != nil || len(pids) == 0 {
			return err
		}
		if err := limit(pids); err != nil {
			return err
		}
	}
	return fmt.Errorf("in each of %d rounds, there were others that had been started meanwhile", maxRounds)
}

// isLimited reports whether a process has these soft limits, as far as its hard ones allow, or has ended.
func isLimited(pid int, wanted map[int]uint64) bool {
	text, err := procfs.ReadFile(fmt.Sprintf("/proc/%d/limits", pid), nil)
	if err != nil {
		return errors.Is(procfs.Gone(err), fs.ErrNotExist)
	}
	for resource, name := range map[int]string{unix.RLIMIT_DATA: "Max data size", unix.RLIMIT_FSIZE: "Max file size"} {
		_, values, _ := strings.Cut(string(text), name)
		fields := strings.Fields(values)
		if len(fields) < 2 {
			return len(text) == 0 // it is being reaped
		}
		if readLimit(fields[0]) != min(wanted[resource], readLimit(fields[1])) {
			return false
		}
	}
	return true
}

// readLimit reads a value in /proc/PID/limits.
func readLimit(text string) uint64 {
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return unix.RLIM_INFINITY
	}
	return n
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
