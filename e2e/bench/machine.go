package main

import (
	"context"
	"os"
	"os/exec"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"
)

// machine is what the figures were measured on.
type machine struct {
	CPU         string `json:"cpu"`
	Cores       int    `json:"cores"`
	MemoryBytes int64  `json:"memory_bytes"`
	System      string `json:"system"`
	Kernel      string `json:"kernel"`
	Go          string `json:"go"`
	Load        string `json:"load_before"` // the average of 1, 5 and 15 minutes
}

func describeMachine() machine {
	m := machine{CPU: lineOf("/proc/cpuinfo", "model name", ":"), Cores: runtime.NumCPU(), Go: runtime.Version(),
		System: strings.Trim(lineOf("/etc/os-release", "PRETTY_NAME", "="), `"`)}
	m.MemoryBytes, _ = kilobytes("/proc/meminfo", "MemTotal") // 0 says that it is not known
	var u unix.Utsname
	if unix.Uname(&u) == nil {
		m.Kernel = unix.ByteSliceToString(u.Release[:])
	}
	load, _ := os.ReadFile("/proc/loadavg")
	m.Load = strings.Join(strings.Fields(string(load) + " - - -")[:3], " ")
	return m
}

// lineOf is the value of the first line of a key; "" where there is none.
func lineOf(path, key, separator string) string {
	b, _ := os.ReadFile(path)
	for line := range strings.Lines(string(b)) {
		name, value, ok := strings.Cut(line, separator)
		if ok && strings.TrimSpace(name) == key {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// commit is the commit of the tree in the present folder, with a mark where files differ from it.
func commit(ctx context.Context) string {
	out, err := exec.CommandContext(ctx, "git", "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*").Output()
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(out))
}
