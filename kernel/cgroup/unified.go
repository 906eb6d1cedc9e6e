package cgroup

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// ownLeaf is the group that this process moves into when its own group is to give controllers to groups below it: a
// group cannot do that while it has processes.
const ownLeaf = "talaria.host"

// unified is the version 2 hierarchy. Next to version 1 it may have no controllers, but it can still kill.
type unified struct {
	dir   string
	names []string
}

func newUnified(dir string) unified {
	text, _ := os.ReadFile(filepath.Join(dir, "cgroup.controllers"))
	return unified{dir: dir, names: wanted(strings.Fields(string(text)))}
}

func (unified) Version() string         { return "cgroup v2" }
func (u unified) Base() string          { return u.dir }
func (u unified) Controllers() []string { return u.names }

func (u unified) prepare(dir string) error {
	if len(u.names) == 0 {
		return nil
	}
	all := "+" + strings.Join(u.names, " +")
	for _, parent := range []string{u.dir, filepath.Dir(filepath.Dir(dir)), filepath.Dir(dir)} {
		err := writeControl(parent, "cgroup.subtree_control", all)
		if errors.Is(err, unix.EBUSY) && parent == u.dir {
			if err = u.moveOut(); err == nil {
				err = writeControl(parent, "cgroup.subtree_control", all)
			}
		}
		if err != nil {
			return fmt.Errorf("enable controllers: %w", err)
		}
	}
	return nil
}

// moveOut moves this process from the base into a leaf if it is alone there: other processes are not ours to move.
func (u unified) moveOut() error {
	pids, err := groupPIDs(u.dir)
	if err != nil {
		return err
	}
	if !slices.Equal(pids, []int{os.Getpid()}) {
		return fmt.Errorf("%s has other processes; give the server its own control group: %w", u.dir, unix.EBUSY)
	}
	leaf := filepath.Join(u.dir, ownLeaf)
	if err := os.Mkdir(leaf, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return writeControl(leaf, "cgroup.procs", strconv.Itoa(os.Getpid()))
}

func (u unified) setMemory(dir string, bytes int64) error {
	limit := "max"
	if bytes > 0 {
		// Given a limit below the current use, the kernel would kill to get below it.
		c := &controls{dir: dir}
		defer c.close()
		used, err := u.inUse(c)
		if err != nil {
			return err
		}
		if used > bytes {
			return fmt.Errorf("more than %d bytes are in use: %w", bytes, unix.EBUSY)
		}
		limit = strconv.FormatInt(bytes, 10)
	}
	if err := writeControl(dir, "memory.max", limit); err != nil {
		return err
	}
	if err := writeControl(dir, "memory.swap.max", "0"); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

func (unified) setCPUs(dir string, cpus float64) error {
	quota := "max"
	if cpus > 0 {
		quota = strconv.FormatInt(max(1000, int64(cpus*cpuPeriod)), 10)
	}
	return writeControl(dir, "cpu.max", fmt.Sprintf("%s %d", quota, cpuPeriod))
}

func (u unified) memory(c *controls) (used, peak int64, err error) {
	if used, err = u.inUse(c); err != nil {
		return 0, 0, err
	}
	peak, err = u.peak(c)
	return used, peak, err
}

func (unified) anonymous(c *controls) (int64, error) {
	return c.value("memory.stat", "anon")
}

// bound counts the limit from which on the kernel slows a group down, too.
func (u unified) bound(dir string) (limit, used int64, err error) {
	for _, file := range []string{"memory.max", "memory.high"} {
		var buffer [64]byte
		text, err := readControl(dir, file, buffer[:])
		if err != nil {
			return 0, 0, err
		}
		if string(bytes.TrimSpace(text)) == "max" {
			continue
		}
		bytes, err := parseNumber(text)
		if err != nil {
			return 0, 0, err
		}
		if limit == 0 || bytes < limit {
			limit = max(bytes, 1)
		}
	}
	if limit == 0 {
		return 0, 0, nil
	}
	c := &controls{dir: dir}
	defer c.close()
	used, err = u.inUse(c)
	return limit, used, err
}

func (unified) charged(c *controls) (int64, error) { return c.number("memory.current") }

// inUse returns the memory in use, without what the system can take back at once.
func (u unified) inUse(c *controls) (int64, error) {
	usage, err := u.charged(c)
	if err != nil {
		return 0, err
	}
	inactive, err := c.value("memory.stat", "inactive_file")
	return max(0, usage-inactive), err
}

// peak returns 0 before Linux 5.19.
func (unified) peak(c *controls) (int64, error) {
	peak, err := c.number("memory.peak")
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	return peak, err
}

func (unified) cpu(c *controls) (time.Duration, error) {
	used, err := c.value("cpu.stat", "usage_usec")
	return time.Duration(used) * time.Microsecond, err
}

// resetPeak needs Linux 6.12, which resets the peak for the open file that is written to: the one that peak reads.
func (unified) resetPeak(c *controls) error {
	err := c.write("memory.peak", "reset")
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.EBADF) || errors.Is(err, unix.EINVAL) { // an older kernel
		return errors.ErrUnsupported
	}
	return err
}

func (unified) ooms(c *controls) (OOMCount, error) {
	events, err := c.keyed("memory.events")
	return OOMCount{Kills: events["oom_kill"], Hits: events["oom"]}, err
}

// waitEmpty waits until the last process has left a group, which may happen a moment after its death.
func waitEmpty(dir string) error {
	events, err := os.Open(filepath.Join(dir, "cgroup.events"))
	if err != nil {
		return err
	}
	defer events.Close()
	const wait = 10_000 // milliseconds
	buffer := make([]byte, 4096)
	for {
		n, err := events.ReadAt(buffer, 0)
		if n == 0 {
			return err
		}
		if strings.Contains(string(buffer[:n]), "populated 0") {
			return nil
		}
		ready, err := unix.Poll([]unix.PollFd{{Fd: int32(events.Fd()), Events: unix.POLLPRI}}, wait)
		if err != nil && !errors.Is(err, unix.EINTR) {
			return err
		}
		if ready == 0 {
			return fmt.Errorf("%s still has processes: %w", dir, unix.EBUSY)
		}
	}
}
