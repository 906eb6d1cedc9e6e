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

// cpuPeriod is the time in microseconds in which a CPU limit is counted.
const cpuPeriod = 100_000

// fullMargin is how far from its limit a group may stay when the next allocation does not fit.
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

// SocketShare is the part of the memory limit that the buffers of internet sockets may take beside it, one in so many: this
// version counts them apart, and only once they have a limit.
const SocketShare = 4

const socketLimit = "memory.kmem.tcp.limit_in_bytes"

// HoldsSockets reports whether a group is of this version, and its kernel counts sockets.
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
		sockets = math.MaxInt64 &^ 0xfff // no limit, and counted nevertheless
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
	// With swap counted in, its limit is never below the one without, also in between. Not every kernel counts it.
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
		quota = max(1000, int64(cpus*cpuPeriod)) // what the kernel takes at least
	}
	if err := writeControl(dir, "cpu.cfs_period_us", strconv.Itoa(cpuPeriod)); err != nil {
		return err
	}
	return writeControl(dir, "cpu.cfs_quota_us", strconv.FormatInt(quota, 10))
}

func (legacy) memory(dir string) (used, peak int64, err error) {
	usage, err := readNumber(dir, "memory.usage_in_bytes")
	if err != nil {
		return 0, 0, err
	}
	stat, err := ReadKeyed(dir, "memory.stat")
	if err != nil {
		return 0, 0, err
	}
	sockets, err := readNumber(dir, "memory.kmem.tcp.usage_in_bytes")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return 0, 0, err
	}
	peak, err = readNumber(dir, "memory.max_usage_in_bytes")
	return max(0, usage-stat["total_inactive_file"]) + sockets, peak, err
}

func (legacy) peak(dir string) (int64, error) { return readNumber(dir, "memory.max_usage_in_bytes") }

func (legacy) cpu(dir string) (time.Duration, error) {
	nanoseconds, err := readNumber(dir, "cpuacct.usage")
	return time.Duration(nanoseconds), err
}

func (legacy) resetPeak(dir string) error { return writeControl(dir, "memory.max_usage_in_bytes", "0") }

func (legacy) ooms(dir string) (OOMCount, error) {
	control, err := ReadKeyed(dir, "memory.oom_control")
	if err != nil {
		return OOMCount{}, err
	}
	if control["oom_kill"] == 0 {
		return OOMCount{}, nil
	}
	// memory.failcnt stays 0 on Linux 6.18 and others.
	limit, err := readNumber(dir, "memory.limit_in_bytes")
	if err != nil {
		return OOMCount{}, err
	}
	peak, err := readNumber(dir, "memory.max_usage_in_bytes")
	return OOMCount{Kills: control["oom_kill"], Full: peak >= limit-fullMargin}, err
}
