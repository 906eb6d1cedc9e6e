// Package cgroup bounds and accounts for the processes of a sandbox through control groups, version 1 and 2.
package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"talaria/kernel"
)

// parentGroup holds the groups of all instances.
const parentGroup = "talaria"

// The controllers that sandboxes are put under. In version 1, CPU time is accounted for by a controller of its own.
const (
	Memory  = "memory"
	PIDs    = "pids"
	CPU     = "cpu"
	cpuacct = "cpuacct"
)

// ErrNotHeld reports that no control group bounds or accounts for the resource in question.
var ErrNotHeld = errors.New("no control group for it")

// Hierarchy is one way to bound and account for the processes in a directory of control groups: version 1 or version
// 2.
type Hierarchy interface {
	// version is the name shown to people: "cgroup v1".
	Version() string
	// base is the directory of this process's own group; the groups of sandboxes are made below it.
	Base() string
	// controllers lists the controllers of this hierarchy.
	Controllers() []string
	// prepare makes the controllers usable in the groups below dir.
	prepare(dir string) error

	setMemory(dir string, bytes int64) error
	setCPUs(dir string, cpus float64) error
	memory(c *controls) (used, peak int64, err error)
	anonymous(c *controls) (int64, error)
	// bound returns the limit of memory of a group, 0 if it has none, and what processes of it and the groups below use.
	bound(dir string) (limit, used int64, err error)
	// charged returns the memory that the kernel counts for the group, which is much quicker to read.
	charged(c *controls) (int64, error)
	// peak returns the peak of memory only, which is much quicker to read; 0 if the kernel keeps none.
	peak(c *controls) (int64, error)
	cpu(c *controls) (time.Duration, error)
	resetPeak(c *controls) error
	ooms(c *controls) (OOMCount, error)
}

// OOMCount counts what happened in a group: how many processes were killed for lack of memory, how often the group hit
// its own limit, and, if the kernel does not count that, whether its use has reached the limit.
type OOMCount struct {
	Kills, Hits int64
	Full        bool
}

// Groups makes the control groups of one server. It is safe for concurrent use.
type Groups struct {
	instance    string
	Hierarchies []Hierarchy
	Unusable    []Unusable

	mu   sync.Mutex // guards used, and is held while groups, and with them their parents, are made and removed
	used map[string]bool
}

func (g *Groups) inUse(id string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.used[id]
}

// Unusable is a hierarchy that this process cannot make groups in.
type Unusable struct {
	Dir string
	Err error
}

// Group is one sandbox's directory in each hierarchy. A group with no hierarchies bounds nothing.
type Group struct {
	owner *Groups
	id    string
	byDir map[string]Hierarchy
	files map[string]*controls // by directory
	order []string
	held  map[string]string // directory by controller
}

// Find looks for hierarchies in which this process may make groups.
func Find(root, instance string) (*Groups, error) {
	g := &Groups{instance: instance, used: make(map[string]bool)}
	all, err := hierarchies(root)
	if err != nil {
		return nil, fmt.Errorf("find control groups: %w", err)
	}
	for _, one := range all {
		if err := unix.Faccessat(unix.AT_FDCWD, one.Base(), unix.W_OK, unix.AT_EACCESS); err != nil {
			g.Unusable = append(g.Unusable, Unusable{Dir: one.Base(), Err: err})
		} else {
			g.Hierarchies = append(g.Hierarchies, one.Hierarchy)
		}
	}
	return g, nil
}

// mounted is a hierarchy and where it is mounted.
type mounted struct {
	Hierarchy
	point string
}

// hierarchies returns those that have this process's own group, or the group root, and controllers for sandboxes. A kernel without
// control groups has none.
func hierarchies(root string) (all []mounted, err error) {
	mounts, err := cgroupMounts()
	if err != nil {
		return nil, err
	}
	own, err := os.ReadFile("/proc/self/cgroup")
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(own)) {
		_, rest, _ := strings.Cut(strings.TrimSpace(line), ":")
		names, path, _ := strings.Cut(rest, ":")
		if root != "" {
			path = root
		}
		for _, mount := range mounts {
			dir, ok := mount.dir(path)
			if !ok {
				continue
			}
			if h := mount.hierarchy(dir, names); h != nil {
				all = append(all, mounted{h, mount.point})
				break
			}
		}
	}
	return all, nil
}

// recognise returns the hierarchy of a directory that a program of the instance may have made, or nil.
func recognise(dir, instance string) Hierarchy {
	parent := filepath.Dir(dir)
	if dir != filepath.Clean(dir) || filepath.Base(parent) != instance ||
		filepath.Base(filepath.Dir(parent)) != parentGroup {
		return nil
	}
	var stat unix.Statfs_t
	if err := unix.Statfs(dir, &stat); err != nil {
		return nil
	}
	switch int64(stat.Type) {
	case unix.CGROUP2_SUPER_MAGIC:
		return unified{dir: filepath.Dir(filepath.Dir(parent))}
	case unix.CGROUP_SUPER_MAGIC:
		return legacy{dir: filepath.Dir(filepath.Dir(parent))}
	}
	return nil
}

func wanted(names []string) []string {
	all := []string{Memory, PIDs, CPU, cpuacct}
	return slices.DeleteFunc(slices.Clone(names), func(n string) bool { return !slices.Contains(all, n) })
}

// Create makes the directories of a sandbox.
func (g *Groups) Create(id string) (*Group, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.used[id] = true
	made := &Group{owner: g, id: id, byDir: make(map[string]Hierarchy), files: make(map[string]*controls), held: make(map[string]string)}
	for _, h := range g.Hierarchies {
		dir := filepath.Join(h.Base(), parentGroup, g.instance, id)
		if err := g.makeDir(h, dir); err != nil {
			return nil, errors.Join(fmt.Errorf("make control group: %w", err), made.removeLocked())
		}
		made.byDir[dir], made.files[dir] = h, &controls{dir: dir}
		made.order = append(made.order, dir)
		for _, c := range h.Controllers() {
			made.held[c] = dir
		}
	}
	return made, nil
}

func (g *Groups) makeDir(h Hierarchy, dir string) error {
	const attempts = 10 // another instance may remove the common parent at this moment
	var err error
	for range attempts {
		if err = os.MkdirAll(dir, 0o755); !errors.Is(err, fs.ErrNotExist) {
			break
		}
	}
	if err != nil {
		return err
	}
	return h.prepare(dir)
}

// Dirs lists the directories of the group, one for each hierarchy.
func (g *Group) Dirs() []string { return slices.Clone(g.order) }

// Add moves a process into the group.
func (g *Group) Add(pid int) error {
	for _, dir := range g.order {
		if err := writeControl(dir, "cgroup.procs", strconv.Itoa(pid)); err != nil {
			return fmt.Errorf("move process into control group: %w", err)
		}
	}
	return nil
}

// Holder returns the hierarchy and directory through which a controller bounds the group.
func (g *Group) Holder(controller string) (Hierarchy, string) {
	dir := g.held[controller]
	return g.byDir[dir], dir
}

// Holds reports whether a controller bounds and accounts for the group.
func (g *Group) Holds(controller string) bool { return g.held[controller] != "" }

// Limit applies the limits that the group's controllers can enforce; a limit of 0 removes the bound.
func (g *Group) Limit(l kernel.Limits) error {
	if h, dir := g.Holder(Memory); h != nil {
		if err := h.setMemory(dir, l.MemoryBytes); err != nil {
			return fmt.Errorf("limit memory: %w", err)
		}
	}
	if h, dir := g.Holder(PIDs); h != nil {
		limit := "max"
		if l.PIDs > 0 {
			limit = strconv.FormatInt(l.PIDs+1, 10) // plus pid 1
		}
		if err := writeControl(dir, "pids.max", limit); err != nil {
			return fmt.Errorf("limit processes: %w", err)
		}
	}
	if h, dir := g.Holder(CPU); h != nil {
		if err := h.setCPUs(dir, l.CPUs); err != nil {
			return fmt.Errorf("limit CPU time: %w", err)
		}
	}
	return nil
}

// Memory returns the memory in use now, and the most since ResetPeak, in bytes; or ErrNotHeld without the controller.
func (g *Group) Memory() (used, peak int64, err error) {
	h, dir := g.Holder(Memory)
	if h == nil {
		return 0, 0, ErrNotHeld
	}
	return h.memory(g.files[dir])
}

// Charged returns the bytes that the kernel counts for the group, also those that it can take back at once, or ErrNotHeld. It is
// much quicker than Memory.
func (g *Group) Charged() (int64, error) {
	h, dir := g.Holder(Memory)
	if h == nil {
		return 0, ErrNotHeld
	}
	return h.charged(g.files[dir])
}

// Anonymous returns the part of the memory in use that is no file's, not even one of a file system in memory, or ErrNotHeld.
func (g *Group) Anonymous() (int64, error) {
	h, dir := g.Holder(Memory)
	if h == nil {
		return 0, ErrNotHeld
	}
	return h.anonymous(g.files[dir])
}

// Peak returns the peak of the memory in use, or the memory in use now if the kernel keeps no peak.
func (g *Group) Peak() (int64, error) {
	h, dir := g.Holder(Memory)
	if h == nil {
		return 0, ErrNotHeld
	}
	peak, err := h.peak(g.files[dir])
	if err == nil && peak == 0 {
		peak, _, err = h.memory(g.files[dir])
	}
	return peak, err
}

// CPU returns the CPU time that the group has used so far, or ErrNotHeld.
func (g *Group) CPU() (time.Duration, error) {
	for _, controller := range []string{cpuacct, CPU} {
		if h, dir := g.Holder(controller); h != nil {
			return h.cpu(g.files[dir])
		}
	}
	return 0, ErrNotHeld
}

// ResetPeak restarts the measurement of peak memory, or returns ErrNotHeld.
func (g *Group) ResetPeak() error {
	h, dir := g.Holder(Memory)
	if h == nil {
		return ErrNotHeld
	}
	return h.resetPeak(g.files[dir])
}

// OOMs counts what happened in the group for lack of memory, or returns ErrNotHeld.
func (g *Group) OOMs() (OOMCount, error) {
	h, dir := g.Holder(Memory)
	if h == nil {
		return OOMCount{}, ErrNotHeld
	}
	return h.ooms(g.files[dir])
}

// PIDs lists the processes in the group.
func (g *Group) PIDs() ([]int, error) {
	if len(g.order) == 0 {
		return nil, ErrNotHeld
	}
	return groupPIDs(g.order[0])
}

// Remove removes the directories once their processes are dead, and the parents that are empty then.
func (g *Group) Remove() error {
	// A dead process may stay a member for a moment longer. It leaves all hierarchies at once, and version 2 reports
	// it.
	for _, dir := range g.order {
		if _, ok := g.byDir[dir].(unified); ok {
			if err := waitEmpty(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return fmt.Errorf("remove control group: %w", err)
			}
		}
	}
	g.owner.mu.Lock()
	defer g.owner.mu.Unlock()
	return g.removeLocked()
}

func (g *Group) removeLocked() error {
	delete(g.owner.used, g.id)
	for _, files := range g.files {
		files.close()
	}
	var errs []error
	for _, dir := range g.order {
		errs = append(errs, removeGroup(dir))
		for range 2 { // the instance's directory and the common one, unless others use them
			dir = filepath.Dir(dir)
			_ = unix.Rmdir(dir)
		}
	}
	return errors.Join(errs...)
}

func removeGroup(dir string) error {
	if err := unix.Rmdir(dir); err != nil && !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("remove control group %s: %w", dir, err)
	}
	return nil
}

func groupPIDs(dir string) ([]int, error) {
	// Not from a file that stays open: version 1 would return the list of its last reading for up to a second.
	text, err := readControl(dir, "cgroup.procs", nil)
	if err != nil {
		return nil, err
	}
	var pids []int
	for _, field := range strings.Fields(string(text)) {
		pid, err := strconv.Atoi(field)
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", dir, err)
		}
		if pid > 0 { // 0 is a process that this pid namespace cannot see
			pids = append(pids, pid)
		}
	}
	return pids, nil
}
