package main

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// process is one that ran at some time; the start makes sure that its pid is not another's now.
type process struct {
	pid, parent int
	start       string
	name        string
}

func (p process) String() string { return fmt.Sprintf("%d (%s)", p.pid, p.name) }

// alive reports whether the process has not ended; one that only waits to be reaped has.
func (p process) alive() bool {
	present, state, err := readProcess(p.pid)
	return err == nil && present.start == p.start && state != "Z" && state != "X"
}

func readProcess(pid int) (p process, state string, err error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return process{}, "", err
	}
	open, end := bytes.IndexByte(stat, '('), bytes.LastIndexByte(stat, ')')
	fields := strings.Fields(string(stat[end+1:]))
	parent, err := strconv.Atoi(fields[1])
	return process{pid, parent, fields[19], string(stat[open+1 : end])}, fields[0], err
}

// allProcesses are the living processes of the machine.
func allProcesses() []process {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	var all []process
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if p, state, err := readProcess(pid); err == nil && state != "Z" && state != "X" { // else it ended meanwhile
			all = append(all, p)
		}
	}
	return all
}

// descendants are the living processes below one.
func descendants(root int) []process {
	children := map[int][]process{}
	for _, p := range allProcesses() {
		children[p.parent] = append(children[p.parent], p)
	}
	var found []process
	for todo := []int{root}; len(todo) > 0; todo = todo[1:] {
		for _, p := range children[todo[0]] {
			todo = append(todo, p.pid)
			found = append(found, p)
		}
	}
	return found
}

// adoptOrphans makes every process whose parent dies a child of this one, so that none is lost from sight.
func adoptOrphans() error { return unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) }

// awaitEnd waits until the processes have ended and returns those that have not when the time is over.
func awaitEnd(all []process, atMost time.Duration) (left []process) {
	deadline := time.Now().Add(atMost)
	for _, p := range all {
		if !p.ended(time.Until(deadline)) {
			left = append(left, p)
		}
	}
	return left
}

// ended waits for the end of a process, and reaps it where it is an orphan that became a child of this one.
func (p process) ended(atMost time.Duration) bool {
	fd, err := unix.PidfdOpen(p.pid, 0)
	if err != nil {
		return !p.alive()
	}
	defer unix.Close(fd)
	if p.alive() {
		poll := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		for deadline := time.Now().Add(atMost); ; {
			_, err := unix.Poll(poll, int(max(time.Until(deadline).Milliseconds(), 0)))
			if err != unix.EINTR {
				break
			}
		}
	}
	if p.alive() {
		return false
	}
	_, _ = unix.Wait4(p.pid, nil, unix.WNOHANG, nil) // a child of another process reaps itself
	return true
}

// killAll kills processes that nothing else ended.
func killAll(all []process) {
	for _, p := range all {
		if p.alive() {
			_ = unix.Kill(p.pid, unix.SIGKILL) // it may have ended meanwhile
		}
	}
	awaitEnd(all, 10*time.Second)
}

// namespaceOf is the pid namespace of a process, such as "pid:[4026531836]".
func namespaceOf(pid int) (string, error) { return os.Readlink(fmt.Sprintf("/proc/%d/ns/pid", pid)) }
