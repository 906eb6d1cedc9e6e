package sandbox

import (
	"syscall"
	"time"

	"talaria/kernel"
	"talaria/kernel/cgroup"
)

// The limits that an Exit can name.
const (
	memoryLimit = "memory_limit"
	outOfMemory = "out_of_memory"
)

// exit returns how a process ended, with the limit that caused it.
func (s *Sandbox) exit(p *Process, r reply) kernel.Exit {
	exit := kernel.Exit{Code: r.Code, Signal: syscall.Signal(r.Signal)}
	p.cpu, p.peak = time.Duration(r.CPU)*time.Microsecond, r.Peak
	if exit.Signal == syscall.SIGKILL && !p.killed.Load() {
		exit.Limit = s.limitReached()
	}
	return exit
}

// together is how much later than another one the end of a process may be noticed that was killed for the same limit.
const together = time.Second

// limitReached names the limit for which a process inside has been killed since the last call, or returns "". Where several have been, as
// many calls name it, if they come together.
func (s *Sandbox) limitReached() string {
	now := s.countOOMs()
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.ooms
	s.ooms = now
	switch {
	case s.closing:
		return ""
	case now.Kills <= before.Kills:
		if s.unnamed == 0 || time.Since(s.reachedAt) > together {
			return ""
		}
		s.unnamed--
		return s.reached
	case now.Full || now.Hits > before.Hits:
		s.reached = memoryLimit
	default:
		s.reached = outOfMemory
	}
	s.unnamed, s.reachedAt = now.Kills-before.Kills-1, time.Now()
	return s.reached
}

// countOOMs counts kills in the sandbox, or on the whole machine if no control group counts them.
func (s *Sandbox) countOOMs() cgroup.OOMCount {
	if count, err := s.group.OOMs(); err == nil {
		return count
	}
	vmstat, err := cgroup.ReadKeyed("/proc", "vmstat")
	if err != nil {
		return cgroup.OOMCount{}
	}
	return cgroup.OOMCount{Kills: vmstat["oom_kill"]}
}
