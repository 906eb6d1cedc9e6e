// Package procfs reads processes from /proc, and holds them by descriptors that never come to mean another process.
package procfs

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// clockTick is the unit of times in /proc/PID/stat, the same on every current Linux.
const clockTick = 10 * time.Millisecond

// exiting is PF_EXITING of Linux's include/linux/sched.h, in the flags of a process.
const exiting = 0x4

// Identity is what a process is called, by itself and inside its pid namespace, and how many threads it has.
type Identity struct {
	Name      string
	InsidePID int
	Threads   int64
}

// Process is what /proc says about a process.
type Process struct {
	Identity
	State      byte
	StartTime  uint64 // in clock ticks since boot
	CPU        time.Duration
	Reaped     time.Duration // CPU time of the children it waited for
	Parent     int           // its pid, as seen by the reader
	Anonymous  int64         // memory that is backed by no file
	Private    int64         // the same with the tables of its pages
	Shared     int64         // pages of tmpfs and shared memory that it has mapped
	PeakMemory int64
	Ending     bool // it is exiting, or was killed and has not had a CPU since: its memory is about to be freed
	Status     map[string]string
}

// Read reads a process; an error that wraps fs.ErrNotExist means that the process is gone.
func Read(pid int) (Process, error) {
	p, err := ReadStat(pid)
	if err != nil {
		return Process{}, err
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return Process{}, Gone(err)
	}
	p.Status = make(map[string]string)
	for line := range strings.Lines(string(status)) {
		name, value, _ := strings.Cut(line, ":")
		p.Status[name] = strings.TrimSpace(value)
	}
	p.Identity = identify(status)
	p.Anonymous = p.bytes("RssAnon")
	p.Private = p.Anonymous + p.bytes("VmPTE")
	p.Shared = p.bytes("RssShmem")
	p.PeakMemory = p.bytes("VmHWM")
	p.Ending = p.Ending || p.pending("SigPnd", syscall.SIGKILL) || p.pending("ShdPnd", syscall.SIGKILL)
	return p, nil
}

// ReadIdentity reads only the identity of a process, which takes half the time of [Read]. An error that wraps
// fs.ErrNotExist means that the process is gone.
func ReadIdentity(pid int) (Identity, error) {
	var buffer [4096]byte
	status, err := ReadFile("/proc/"+strconv.Itoa(pid)+"/status", buffer[:])
	if err != nil {
		return Identity{}, Gone(err)
	}
	return identify(status), nil
}

// ReadFile reads a file of /proc or another file system of the kernel, into buffer if that is large enough, with fewer system calls
// than package os.
func ReadFile(path string, buffer []byte) ([]byte, error) {
	fd, err := again(func() (int, error) { return unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0) })
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	defer unix.Close(fd)
	if len(buffer) == 0 {
		buffer = make([]byte, 4096)
	}
	length := 0
	for {
		n, err := again(func() (int, error) { return unix.Read(fd, buffer[length:]) })
		switch {
		case err != nil:
			return nil, &os.PathError{Op: "read", Path: path, Err: err}
		case n == 0: // less than fits may be read before the end
			return buffer[:length], nil
		}
		if length += n; length == len(buffer) {
			buffer = append(buffer, make([]byte, len(buffer))...)
		}
	}
}

// again repeats a call that a signal has interrupted.
func again(call func() (int, error)) (int, error) {
	for {
		if n, err := call(); !errors.Is(err, unix.EINTR) {
			return n, err
		}
	}
}

// identify takes the identity out of a process's status.
func identify(status []byte) (id Identity) {
	for line := range bytes.Lines(status) {
		name, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimSpace(value)
		switch string(name) {
		case "Name":
			id.Name = string(value)
		case "NSpid":
			id.InsidePID, _ = strconv.Atoi(string(value[bytes.LastIndexByte(value, '\t')+1:]))
		case "Threads":
			id.Threads, _ = strconv.ParseInt(string(value), 10, 64)
		}
	}
	return id
}

// OfUser lists the processes that run with a user id, be it their real, effective or saved one. Those that have ended and wait for
// their parents are left out.
func OfUser(uid int) ([]int, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	var found []int
	var buffer [4096]byte
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		status, err := ReadFile("/proc/"+entry.Name()+"/status", buffer[:])
		if err == nil && runsAs(uid, status) { // otherwise it is gone
			found = append(found, pid)
		}
	}
	return found, nil
}

func runsAs(uid int, status []byte) bool {
	same, ended, threads := false, false, identify(status).Threads
	for line := range bytes.Lines(status) {
		name, value, _ := bytes.Cut(line, []byte(":"))
		switch fields := bytes.Fields(value); string(name) {
		case "State":
			ended = len(fields) > 0 && (fields[0][0] == 'Z' || fields[0][0] == 'X')
		case "Uid":
			same = slices.ContainsFunc(fields[:min(3, len(fields))], func(id []byte) bool { return string(id) == strconv.Itoa(uid) })
		}
	}
	return same && (!ended || threads > 1) // its first thread can end before the others
}

// ReadStat reads only /proc/PID/stat of a process, which takes less time than [Read].
func ReadStat(pid int) (Process, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return Process{}, Gone(err)
	}
	// The name, in parentheses, may have spaces and parentheses of its own.
	_, rest, ok := bytes.Cut(stat[max(0, bytes.LastIndexByte(stat, ')')):], []byte(") "))
	fields := strings.Fields(string(rest))
	if !ok || len(fields) < 20 {
		return Process{}, fmt.Errorf("/proc/%d/stat is not understood", pid)
	}
	number := func(field int) uint64 { // numbered as in proc(5), where the state is field 3
		n, _ := strconv.ParseUint(fields[field-3], 10, 64)
		return n
	}
	return Process{
		State:     fields[0][0],
		Parent:    int(number(4)),
		StartTime: number(22),
		Ending:    number(9)&exiting != 0,
		CPU:       time.Duration(number(14)+number(15)) * clockTick,
		Reaped:    time.Duration(number(16)+number(17)) * clockTick,
	}, nil
}

// Memory returns what this process has mapped: its private memory and its shared pages.
func (p Process) Memory() int64 { return p.Private + p.Shared }

// pending reports whether a signal is waiting to be delivered, according to a set of signals in /proc/PID/status.
func (p Process) pending(set string, signal syscall.Signal) bool {
	signals, _ := strconv.ParseUint(p.Status[set], 16, 64)
	return signals&(1<<(signal-1)) != 0
}

// bytes returns a field of /proc/PID/status that is given in kB.
func (p Process) bytes(field string) int64 {
	number, _, _ := strings.Cut(p.Status[field], " ")
	n, _ := strconv.ParseInt(number, 10, 64)
	return n << 10
}

// Gone turns the error of reading a process that is just ending into one that wraps fs.ErrNotExist.
func Gone(err error) error {
	if errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("%w: %w", fs.ErrNotExist, err)
	}
	return err
}

// Descendants lists the pids of a process and of all its descendants. For pid 1 of a sandbox that is the whole
// sandbox.
func Descendants(pid int) []int {
	found := []int{pid}
	for i := 0; i < len(found); i++ {
		tasks, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", found[i]))
		if err != nil {
			continue
		}
		for _, task := range tasks {
			children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%s/children", found[i], task.Name()))
			if err != nil {
				continue
			}
			for _, child := range strings.Fields(string(children)) {
				if n, err := strconv.Atoi(child); err == nil {
					found = append(found, n)
				}
			}
		}
	}
	return found
}
