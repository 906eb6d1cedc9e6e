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

// noticed is how long after a kill for a limit the end of the process is noticed at most, on a busy machine.
const noticed = 5 * time.Second

// limitReached names the limit for which a process inside has just been killed, or returns "". Where several have been, as many calls
// name it, if they come soon.
func (s *Sandbox) limitReached() string {
	s.noteOOMs()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing || s.unnamed == 0 || time.Since(s.reachedAt) > noticed {
		return ""
	}
	s.unnamed--
	return s.reached
}

// noteOOMs keeps how many processes have been killed since the last time, for limitReached: their ends may be noticed later.
func (s *Sandbox) noteOOMs() {
	now := s.countOOMs()
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.ooms
	s.ooms = now
	if now.Kills <= before.Kills {
		return
	}
	s.reached = outOfMemory
	if now.Full || now.Hits > before.Hits {
		s.reached = memoryLimit
	}
	if time.Since(s.reachedAt) > noticed {
		s.unnamed = 0
	}
	s.unnamed += now.Kills - before.Kills
	s.reachedAt = time.Now()
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
