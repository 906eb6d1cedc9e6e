package sandbox

import (
	"syscall"
	"time"

	"talaria/kernel"
	"talaria/kernel/cgroup"
	"talaria/kernel/procfs"
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
		s.mu.Lock()
		interpreter := p.id == s.interpreter
		s.mu.Unlock()
		exit.Limit = s.limitReached(interpreter)
	}
	return exit
}

// noticed is how long after a kill for a limit the end of the process is noticed at most, on a busy machine.
const noticed = 5 * time.Second

// limitReached names the limit for which a process inside has just been killed, or returns "". Where several have been, as many calls
// name it, if they come soon. For the interpreter, only kills count that it has not outlived.
func (s *Sandbox) limitReached(interpreter bool) string {
	s.noteOOMs()
	s.mu.Lock()
	defer s.mu.Unlock()
	kills := s.unnamed
	if interpreter {
		kills -= s.outlived
	}
	if s.closing || kills == 0 || time.Since(s.reachedAt) > noticed {
		return ""
	}
	s.unnamed--
	if !interpreter {
		s.outlived = max(0, s.outlived-1)
	}
	return s.reached
}

// noteOOMs keeps how many processes have been killed since the last time, for limitReached: their ends may be noticed later.
func (s *Sandbox) noteOOMs() {
	now := s.countOOMs()
	s.mu.Lock()
	more := now.Kills > s.ooms.Kills
	s.mu.Unlock()
	outlived := more && s.interpreterLives() // asked after the kills were counted
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
		s.unnamed, s.outlived = 0, 0
	}
	s.unnamed += now.Kills - before.Kills
	if outlived {
		s.outlived = s.unnamed
	}
	s.reachedAt = time.Now()
}

// interpreterLives reports whether the interpreter runs, and has not been killed.
func (s *Sandbox) interpreterLives() bool {
	s.mu.Lock()
	runner := s.runner
	s.mu.Unlock()
	pid, err := s.onHost(runner)
	if err != nil {
		return false
	}
	p, err := procfs.Read(pid)
	return err == nil && !p.Ending
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
