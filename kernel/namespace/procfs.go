package namespace

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// clockTick is the unit of times in /proc/PID/stat, the same on every Linux of today.
const clockTick = 10 * time.Millisecond

// process is what /proc tells of a process.
type process struct {
	name       string
	state      byte
	startTime  uint64 // in clock ticks since boot
	cpu        time.Duration
	reaped     time.Duration // CPU time of the children it waited for
	insidePID  int
	threads    int64
	private    int64 // memory that is backed by no file, with the tables of its pages
	shared     int64 // pages of tmpfs and of memory in common that it has mapped
	peakMemory int64
	status     map[string]string
}

// readProcess reads a process; an error that wraps fs.ErrNotExist tells that it is gone.
func readProcess(pid int) (process, error) {
	p, err := readStat(pid)
	if err != nil {
		return process{}, err
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return process{}, gone(err)
	}
	p.status = make(map[string]string)
	for line := range strings.Lines(string(status)) {
		name, value, _ := strings.Cut(line, ":")
		p.status[name] = strings.TrimSpace(value)
	}
	p.name = p.status["Name"]
	p.private = p.bytes("RssAnon") + p.bytes("VmPTE")
	p.shared = p.bytes("RssShmem")
	p.peakMemory = p.bytes("VmHWM")
	p.threads, _ = strconv.ParseInt(p.status["Threads"], 10, 64)
	if pids := strings.Fields(p.status["NSpid"]); len(pids) > 0 {
		p.insidePID, _ = strconv.Atoi(pids[len(pids)-1])
	}
	return p, nil
}

func readStat(pid int) (process, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return process{}, gone(err)
	}
	// The name, in parentheses, may have spaces and parentheses of its own.
	_, rest, ok := bytes.Cut(stat[max(0, bytes.LastIndexByte(stat, ')')):], []byte(") "))
	fields := strings.Fields(string(rest))
	if !ok || len(fields) < 20 {
		return process{}, fmt.Errorf("/proc/%d/stat is not understood", pid)
	}
	number := func(field int) uint64 { // numbered as in proc(5), where the state is field 3
		n, _ := strconv.ParseUint(fields[field-3], 10, 64)
		return n
	}
	return process{
		state:     fields[0][0],
		startTime: number(22),
		cpu:       time.Duration(number(14)+number(15)) * clockTick,
		reaped:    time.Duration(number(16)+number(17)) * clockTick,
	}, nil
}

// memory is what the process alone has mapped.
func (p process) memory() int64 { return p.private + p.shared }

// bytes is a field of /proc/PID/status that is given in kB.
func (p process) bytes(field string) int64 {
	number, _, _ := strings.Cut(p.status[field], " ")
	n, _ := strconv.ParseInt(number, 10, 64)
	return n << 10
}

// gone makes an error of reading a process that ends just now one that wraps fs.ErrNotExist.
func gone(err error) error {
	if errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("%w: %w", fs.ErrNotExist, err)
	}
	return err
}

// descendants are the pids of a process and all below it. Below pid 1 of a sandbox that is the whole sandbox.
func descendants(pid int) []int {
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

// idMappings gives a sandbox's user namespace the ids of this one, whichever these are; an ordinary user can give
// only its own.
func idMappings(kind string) ([]syscall.SysProcIDMap, error) {
	if os.Geteuid() != 0 {
		own := os.Geteuid()
		if kind == "gid" {
			own = os.Getegid()
		}
		return []syscall.SysProcIDMap{{ContainerID: 0, HostID: own, Size: 1}}, nil
	}
	path := "/proc/self/" + kind + "_map"
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var mappings []syscall.SysProcIDMap
	for line := range strings.Lines(string(text)) {
		var inside, outside, size int
		if _, err := fmt.Sscan(line, &inside, &outside, &size); err != nil {
			return nil, fmt.Errorf("read %s: %w", path, err)
		}
		mappings = append(mappings, syscall.SysProcIDMap{ContainerID: inside, HostID: inside, Size: size})
	}
	return mappings, nil
}
