// Package kernel defines the contract of isolation providers: what a [Backend] must offer so that package host can run
// live interpreters in its sandboxes, and the limits, networks and handles that both use. It knows nothing of
// sessions.
package kernel

import (
	"context"
	"errors"
	"io"
	"os"
	"syscall"
	"time"
)

// Backend provides isolation. Each implementation is in a folder of its own, and all pass kernel/kerneltest. A Backend
// is safe for concurrent use.
type Backend interface {
	// Name is the tier that sessions report, such as "namespace".
	Name() string
	// Create makes a parked sandbox: its namespaces and common mounts exist, and only our own code has run in it. It
	// may be kept ready for any session of that environment. A fresh sandbox shares no process, no memory and no
	// random seed with any other; one that is not fresh may come from a process that has imported the environment's
	// libraries. Both have the same layers. ctx bounds the creation, not the sandbox's life.
	Create(ctx context.Context, env Environment, fresh bool) (Sandbox, error)
}

// Warmer is implemented by backends that can import an environment's libraries ahead of time.
type Warmer interface {
	// Warm returns once sandboxes of the environment that are not fresh come with its libraries imported, and keeps it
	// so until the backend is closed. ctx bounds the wait; calling it again changes nothing.
	Warm(ctx context.Context, env Environment) error
}

// Sandbox is one isolated place. Its methods are safe for concurrent use.
type Sandbox interface {
	// Handle identifies the sandbox after a crash of this program.
	Handle() Handle
	// Seal binds the workspace and packages, and applies limits, environment, user id and every layer of
	// isolation. It is called once, before the first Start; a sealed sandbox is never given other parameters.
	Seal(ctx context.Context, spec Spec) error
	// Layers names each layer of isolation that is in force, in words for people. It is empty before Seal.
	Layers() []string
	// Start runs a program inside. It may be called many times: first for the interpreter, then for shells.
	Start(ctx context.Context, p Program) (Process, error)
	// Usage returns what all processes inside use together, as the operating system reports it.
	Usage(ctx context.Context) (Usage, error)
	// Close kills everything inside and returns when no process is left and nothing of the sandbox remains on
	// the machine. It is idempotent; a later call waits for the first.
	Close() error
}

// Process is a role inside a sandbox, not a pid.
type Process interface {
	// Control is the stream of the runner's frames; it is nil for other commands. The caller closes it.
	Control() io.ReadWriteCloser
	// Stdout and Stderr are the read ends of the pipes on fd 1 and 2, in non-blocking mode. The caller closes them.
	Stdout() *os.File
	Stderr() *os.File
	// Signal sends a signal to this process only, or to its process group if it was started with Group.
	Signal(sig syscall.Signal) error
	// Done is closed when the process has ended.
	Done() <-chan struct{}
	// Exit says how the process ended. It is valid once Done is closed.
	Exit() Exit
}

// Exit is how a process ended, as the operating system reports it.
type Exit struct {
	Code   int            // exit status; 0 if Signal is set
	Signal syscall.Signal // the signal that ended it, or 0
	// Limit is the limit that ended it: "memory_limit" for the sandbox's own, "out_of_memory" for the machine's,
	// or "".
	Limit string
	// Lost reports that the sandbox itself is gone, so that Code and Signal are unknown.
	Lost bool
}

// GroupSignaler is implemented by processes that lead a process group.
type GroupSignaler interface {
	// SignalGroup sends a signal to the process and to those of its descendants that have not left its process group. It
	// returns os.ErrProcessDone if the process has ended.
	SignalGroup(sig syscall.Signal) error
}

// ProcessMeter is implemented by processes that know what they have used.
type ProcessMeter interface {
	// Used returns the CPU time and the peak memory of the process and the children that it waited for, the peak being
	// that of the largest of them. It is valid once Done is closed.
	Used() (cpu time.Duration, peakMemoryBytes int64)
}

// ProcessLocator is implemented by processes that know their pids.
type ProcessLocator interface {
	// Locate returns where the process is. Of one that has ended, only the PID is known.
	Locate() ProcessPlace
}

// ProcessPlace names a process in both worlds.
type ProcessPlace struct {
	PID       int    // as seen inside
	HostPID   int    // as this program sees it; 0: it has ended
	StartTime uint64 // field 22 of /proc/HostPID/stat
}

// DirMaker is implemented by backends that keep directories for sandboxes that belong to no session. What a program
// that has crashed left of them is swept with its sandboxes.
type DirMaker interface {
	// MakeDir makes a directory in which everybody may open what they know the name of.
	MakeDir() (path string, err error)
	// RemoveDir removes it with everything in it.
	RemoveDir(path string) error
}

// Program is what Start runs.
type Program struct {
	// Args is the program and its arguments. Empty means the runner, which speaks on Control.
	Args []string
	// Script is a file of Python that the environment's interpreter runs instead, with Args as its arguments. It
	// starts fastest in an environment with EngineScript.
	Script string
	// Stdin is the standard input of a program or script; nil means none. The caller keeps ownership of it.
	Stdin *os.File
	Env   map[string]string // in addition to the sandbox's own
	Dir   string            // default: the workspace
	// Group has signals go to the whole process group of a program, which is killed when the program ends.
	Group bool
	// Beside is of a runner that is not the first one of its sandbox. The sandbox does not end with it, and what it has started
	// ends with it. If Dir is not there, it begins in the workspace.
	Beside bool
	// Terminal is the inner end of a terminal that replaces all three standard streams; the process runs in its
	// foreground. nil means none. The caller keeps ownership of it.
	Terminal *os.File
}

// Environment is a configured Python, as discovery found it.
type Environment struct {
	Name    string   // the configured name
	Python  string   // path of the interpreter, absolute and resolved as far as its prefix needs
	Version string   // such as "3.11.2"
	Prefix  []string // directories outside /usr that the interpreter needs, to be bound read-only
	Path    []string // its sys.path without the script's folder
	Modules []string // which of the data libraries are installed, with versions: "numpy 1.24.2"
	Preload []string // modules that kernels have imported when they start, unless they are fresh
	Engine  string   // EngineStdlib, EngineIPython or EngineScript; empty is EngineStdlib
}

// Spec holds everything that sealing a sandbox for a session needs.
type Spec struct {
	// UID owns the session's files and processes on the host; 0 means the server's own user (not root).
	UID int
	// Workspace and Packages are directories, open with O_PATH; the caller keeps them open until Seal returns.
	Workspace *os.File
	Packages  *os.File
	// Disk says what holds the workspace to its limit. With DiskImage, Workspace is a mount that has no path anywhere.
	Disk     DiskEnforcement
	Env      map[string]string // the session's variables, secrets included
	TZ       string
	Limits   Limits
	Hostname string
	Strict   bool // a fresh sandbox, in the sense of Backend.Create
	Mounts   []Mount
	Network  Network
	// OOMOnly bounds memory by the control group alone if there is one: a process is killed at the limit and does not
	// get an error before.
	OOMOnly bool `json:",omitempty"`
	// NoInstalls says why nobody inside may ask for packages, as a phrase for people; "" if they may.
	NoInstalls string
	// NoTools says why nobody inside may call tools, as a sentence for people; "" if they may.
	NoTools string
	// NoAfter says why nobody inside may ask for something to be done after a cell, as a sentence for people; "" if they may.
	NoAfter string `json:",omitempty"`
	// Loss says when and why the variables of an earlier kernel of the session were lost, as a clause for people; "" if
	// none were.
	Loss string `json:",omitempty"`
	// Beside is the session in whose sandbox the kernel runs, beside the kernel of that session and until that one ends; "": it has a
	// sandbox of its own. Besides this, such a kernel has a Loss, a NoInstalls and a Dir; all else is that of the sandbox.
	Beside string `json:",omitempty"`
	// Dir is where the interpreter begins, if that directory is there; "": in the workspace. Only with Beside.
	Dir string `json:",omitempty"`
}

// Mount is a directory of the host that a sandbox sees at Target. Path is "." or a path beneath Root, which is one of
// the directories that the backend was configured with. The directory there must turn out to have this Inode and
// Device.
type Mount struct {
	Root     string
	Path     string
	Target   string
	Writable bool
	Device   uint64
	Inode    uint64
}

// Limits bound a sandbox. Zero means no limit.
type Limits struct {
	MemoryBytes int64
	CPUs        float64
	PIDs        int64
	DiskBytes   int64
	TmpBytes    int64 // /tmp, /dev/shm and the home directory, each
}

// The reasons why a kernel that reached a limit of its own has ended. LimitMemory is also the Limit of an [Exit].
const (
	LimitMemory = "memory_limit"
	LimitDisk   = "disk_limit"
	LimitCPU    = "cpu_limit"
)

const (
	minInodes     = 4096
	bytesPerInode = 4096
)

// Inodes returns how many files, folders and links the workspace may have: one for each 4 KiB of DiskBytes, at least
// 4096; 0 means no limit.
func (l Limits) Inodes() int64 {
	if l.DiskBytes <= 0 {
		return 0
	}
	return max(minInodes, l.DiskBytes/bytesPerInode)
}

// Usage is what a sandbox uses now.
type Usage struct {
	MemoryBytes     int64
	PeakMemoryBytes int64 // since the last ResetPeak, if the operating system can tell
	CPU             time.Duration
	PIDs            int64
	Processes       []ProcessInfo
	DiskBytes       int64 // of the workspace when it was last measured; filled in by the host, 0 if nobody measures it
}

// ProcessInfo is one process, with its pid as seen inside.
type ProcessInfo struct {
	PID  int
	Name string
}

// Networker is implemented by sandboxes that can be given egress to a network. Without egress they have no network.
type Networker interface {
	// OpenEgress opens the egress of a sealed sandbox. It is called at most once. The caller owns the files.
	OpenEgress(ctx context.Context) (Egress, error)
}

// Egress is the host's end of a sandbox's egress: either a TUN device, or sockets on the sandbox's own loopback.
type Egress struct {
	Device *os.File
	// HTTP and SOCKS listen for programs that use a proxy, as Env tells them to; Why says why no device could be made.
	HTTP, SOCKS *os.File
	Env         map[string]string
	Why         string
}

// TerminalMaker is implemented by sandboxes that may have terminals of their own.
type TerminalMaker interface {
	// MakeTerminal makes a terminal whose inner end has a name inside the sandbox. Closing the master ends a read from
	// it. It returns errors.ErrUnsupported if the machine's terminals are to be used.
	MakeTerminal() (master, slave *os.File, err error)
}

// PeakResetter is implemented by sandboxes that can restart the measurement of peak memory.
type PeakResetter interface{ ResetPeak() error }

// Meter is implemented by sandboxes that can read CPU time and peak memory without looking at each process, which
// makes Usage too slow to call for every small execution. Meter leaves the other fields out.
type Meter interface {
	Meter(ctx context.Context) (Usage, error)
}

// Watched is implemented by sandboxes some of whose limits hold only while somebody watches them.
type Watched interface {
	// StopWrites forbids, or allows again, every process inside to make a file longer, files in memory included.
	StopWrites(ctx context.Context, stop bool) error
	// Unlinked returns what regular files on that device use that are open inside and have no name any more. It leaves
	// out those of processes that hide their files. With an error, nothing is known.
	Unlinked(ctx context.Context, device uint64) (bytes, inodes int64, err error)
	// CPU is what all processes inside have used so far; it is a cheap way to see whether anything has run.
	CPU(ctx context.Context) (time.Duration, error)
	// MemoryUnheld reports whether nothing bounds the memory of all processes together.
	MemoryUnheld() bool
	// KillLargest kills the process that uses the most memory, except for interpreters and the processes that keep
	// the sandbox alive, and returns its name; "" if there is none. used is what all together use, without those that
	// have been killed and have not ended yet; if it is no more than limit, none is killed.
	KillLargest(ctx context.Context, limit int64) (name string, used int64, err error)
}

// TmpMeter is implemented by sandboxes that can report the free space of /tmp, /dev/shm and the home directory;
// TmpFree returns the smallest of the three.
type TmpMeter interface{ TmpFree() (int64, error) }

// Scratcher is implemented by sandboxes that may keep their temporary files in a directory of the machine, which then
// counts against the workspace. Scratch is its path, on the workspace's file system, or "".
type Scratcher interface{ Scratch() string }

// Copier is implemented by sandboxes whose interpreter can be replaced by a copy that it has made of itself. The copy has
// inherited the interpreter's control stream and pipes.
type Copier interface {
	// Adopt returns the copy with that pid, as it is seen inside, as a process without streams of its own. The copy waits,
	// and is the first to be killed when the sandbox runs out of memory.
	Adopt(ctx context.Context, pid int) (Process, error)
	// SetAside notes that the interpreter waits now, as a copy does, and is one of those that are killed first.
	SetAside(interpreter Process) error
	// Wake kills the interpreter, unless it is set aside, and everything that it has started, and makes the copy go on in its place.
	// The copy may be the interpreter itself, if that is set aside. An error that wraps os.ErrProcessDone means that one of both has
	// ended, and that nothing was changed.
	Wake(ctx context.Context, interpreter, copied Process) error
	// SaveIn has a copy do what the letter in the workspace wants (see package runner), and returns when it has, or has failed to;
	// it waits as before then. An error that wraps os.ErrProcessDone means that the copy has ended.
	SaveIn(ctx context.Context, copied Process) error
	// Memory returns the bytes that the interpreter and its copies use together, files in memory not counted. Other processes
	// inside are left out as if they shared nothing with the interpreter, so that it is a lower bound. interpreter is the memory
	// that the interpreter has alone or shares with its copies and with the process that it was forked from.
	Memory() (used, interpreter int64, err error)
}

// OOMCounter is implemented by sandboxes that can tell how many processes inside were killed for their memory limit since
// the last ResetPeak.
type OOMCounter interface{ OOMKills() int64 }

// LimitChanger is implemented by sandboxes whose limits can change while they live. A limit that cannot change makes
// it return an error that wraps ErrNeedsReset, and then no limit has changed.
type LimitChanger interface {
	ChangeLimits(ctx context.Context, limits Limits) error
}

// ErrNeedsReset reports that only a fresh kernel can have the requested limits.
var ErrNeedsReset = errors.New("needs a fresh kernel")

// Handle identifies a sandbox across restarts of this program, by pid, start time and boot, never by pid alone.
type Handle struct {
	Backend   string   `json:"backend"`
	PID       int      `json:"pid"`        // of pid 1 of the sandbox, on the host
	StartTime uint64   `json:"start_time"` // field 22 of /proc/PID/stat
	BootID    string   `json:"boot_id"`
	Cgroups   []string `json:"cgroups,omitempty"`
}

// Probe is what a backend found out about the machine.
type Probe struct {
	OK       bool
	Findings []Finding
}

// Finding is one line of the probe. Remedy says what the operator can do; it is empty if nothing is wrong.
type Finding struct {
	Name   string
	OK     bool
	Detail string
	Remedy string
}

// Network is what a session may reach, in the terms of package network. The zero value allows nothing.
type Network struct {
	Mode           string   // "" and "none", "allow" or "full"
	Allow          []string // entries as [network.ParseRule] reads them
	MaxConnections int      // open at a time; 0: network.DefaultMaxConnections
	MaxBytes       int64    // in both directions, over the life of the kernel; 0: any number
	NameServer     string   // HOST:PORT of the server that resolves names; "": as this machine resolves them
	// Hosts maps names to sockets of the host's machine, each "unix:" and an absolute path. They are reached by
	// exactly these names, at every port, unless the session may reach nothing. Only we set them, never a client.
	Hosts map[string]string `json:",omitempty"`
}
