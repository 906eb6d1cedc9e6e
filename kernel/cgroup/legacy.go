package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// cpuPeriod is the period, in microseconds, to which a CPU limit applies.
const cpuPeriod = 100_000

// fullMargin is how far below its limit a group may stay when the next allocation does not fit.
const fullMargin = 4 << 20

// legacy is a version 1 hierarchy.
type legacy struct {
	dir   string
	names []string
}

func (legacy) Version() string         { return "cgroup v1" }
func (l legacy) Base() string          { return l.dir }
func (l legacy) Controllers() []string { return l.names }
func (legacy) prepare(string) error    { return nil }

// SocketShare is the divisor of the memory limit that gives what the buffers of internet sockets may use on top of it:
// version 1 counts them separately, and only once they have a limit.
const SocketShare = 4

const socketLimit = "memory.kmem.tcp.limit_in_bytes"

// HoldsSockets reports whether a group is of version 1 and its kernel counts sockets.
func HoldsSockets(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, socketLimit))
	return err == nil
}

func (l legacy) setMemory(dir string, bytes int64) error {
	if err := l.setMemoryOfProcesses(dir, bytes); err != nil {
		return err
	}
	sockets := bytes / SocketShare
	if bytes <= 0 {
		sockets = math.MaxInt64 &^ 0xfff // no limit, but counted all the same
	}
	err := writeControl(dir, socketLimit, strconv.FormatInt(sockets, 10))
	switch {
	case errors.Is(err, fs.ErrNotExist): // a kernel that does not count them
		return nil
	case errors.Is(err, unix.EBUSY):
		return fmt.Errorf("more than %d bytes are in use by sockets: %w", sockets, err)
	}
	return err
}

func (legacy) setMemoryOfProcesses(dir string, bytes int64) error {
	if bytes <= 0 {
		bytes = -1
	}
	old, err := readNumber(dir, "memory.limit_in_bytes")
	if err != nil {
		return err
	}
	// The limit that includes swap must never be below the one without, not even in between. Not every kernel counts
	// swap.
	files := []string{"memory.limit_in_bytes", "memory.memsw.limit_in_bytes"}
	if bytes < 0 || bytes > old {
		files[0], files[1] = files[1], files[0]
	}
	for _, file := range files {
		err := writeControl(dir, file, strconv.FormatInt(bytes, 10))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if errors.Is(err, unix.EBUSY) {
			return fmt.Errorf("more than %d bytes are in use: %w", bytes, err)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (legacy) setCPUs(dir string, cpus float64) error {
	quota := int64(-1)
	if cpus > 0 {
		quota = max(1000, int64(cpus*cpuPeriod)) // the least that the kernel accepts
	}
	if err := writeControl(dir, "cpu.cfs_period_us", strconv.Itoa(cpuPeriod)); err != nil {
		return err
	}
	return writeControl(dir, "cpu.cfs_quota_us", strconv.FormatInt(quota, 10))
}

// unlimited is the least number that version 1 may show for no limit. It shows the largest one, rounded down to a page.
const unlimited = math.MaxInt64 - 1<<20

func (l legacy) bound(dir string) (limit, used int64, err error) {
	limit, err = readNumber(dir, "memory.limit_in_bytes")
	if err != nil || limit >= unlimited {
		return 0, 0, err
	}
	c := &controls{dir: dir}
	defer c.close()
	used, err = l.inUse(c)
	return limit, used, err
}

func (legacy) charged(c *controls) (int64, error) { return c.number("memory.usage_in_bytes") }

// inUse returns the memory in use, without what the system can take back at once.
func (l legacy) inUse(c *controls) (int64, error) {
	usage, err := l.charged(c)
	if err != nil {
		return 0, err
	}
	inactive, err := c.value("memory.stat", "total_inactive_file")
	return max(0, usage-inactive), err
}

func (l legacy) memory(c *controls) (used, peak int64, err error) {
	if used, err = l.inUse(c); err != nil {
		return 0, 0, err
	}
	sockets, err := c.number("memory.kmem.tcp.usage_in_bytes")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return 0, 0, err
	}
	peak, err = l.peak(c)
	return used + sockets, peak, err
}

func (legacy) anonymous(c *controls) (int64, error) {
	return c.value("memory.stat", "total_rss")
}

func (legacy) peak(c *controls) (int64, error) { return c.number("memory.max_usage_in_bytes") }

func (legacy) cpu(c *controls) (time.Duration, error) {
	nanoseconds, err := c.number("cpuacct.usage")
	return time.Duration(nanoseconds), err
}

func (legacy) resetPeak(c *controls) error { return c.write("memory.max_usage_in_bytes", "0") }

func (l legacy) ooms(c *controls) (OOMCount, error) {
	control, err := c.keyed("memory.oom_control")
	if err != nil {
		return OOMCount{}, err
	}
	if control["oom_kill"] == 0 {
		return OOMCount{}, nil
	}
	// memory.failcnt stays 0 on Linux 6.18 and others.
	limit, err := c.number("memory.limit_in_bytes")
	if err != nil {
		return OOMCount{}, err
	}
	peak, err := l.peak(c)
	return OOMCount{Kills: control["oom_kill"], Full: peak >= limit-fullMargin}, err
}
