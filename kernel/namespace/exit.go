package namespace

import (
	"syscall"

	"talaria/kernel"
)

// The limits that an Exit can name.
const (
	memoryLimit = "memory_limit"
	outOfMemory = "out_of_memory"
)

// exit is how a process ended, with the limit that made it.
func (s *Sandbox) exit(p *Process, r reply) kernel.Exit {
	exit := kernel.Exit{Code: r.Code, Signal: syscall.Signal(r.Signal)}
	if exit.Signal == syscall.SIGKILL && !p.killed.Load() {
		exit.Limit = s.limitReached()
	}
	return exit
}

// limitReached names the limit that something inside was killed for since it was last looked at, or is "".
func (s *Sandbox) limitReached() string {
	now := s.countOOMs()
	s.mu.Lock()
	before, closing := s.ooms, s.closing
	s.ooms = now
	s.mu.Unlock()
	switch {
	case closing || now.kills <= before.kills:
		return ""
	case now.full || now.hits > before.hits:
		return memoryLimit
	}
	return outOfMemory
}

// countOOMs counts kills in the sandbox, or on the whole machine where no control group counts them.
func (s *Sandbox) countOOMs() oomCount {
	if count, err := s.group.ooms(); err == nil {
		return count
	}
	vmstat, err := readKeyed("/proc", "vmstat")
	if err != nil {
		return oomCount{}
	}
	return oomCount{kills: vmstat["oom_kill"]}
}
