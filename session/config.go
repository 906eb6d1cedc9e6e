// Package session gives kernels identity, order and life: sessions, their queue of executions, their log of events,
// their workspace, and their end.
package session

import (
	"context"
	"log/slog"
	"regexp"
	"time"

	"talaria/api"
	"talaria/artifacts"
	"talaria/kernel"
	"talaria/kernel/command"
	"talaria/kernel/disk"
	"talaria/kernel/record"
	"talaria/session/packages"
	"talaria/session/settings"
	"talaria/store"
)

// Host runs kernels. [talaria/kernel/host.Host] is one.
type Host interface {
	Start(ctx context.Context, key record.Key, env kernel.Environment, spec kernel.Spec) (command.KernelInfo, error)
	command.Doer
	Next(ctx context.Context, key record.Key, after uint64) ([]record.Record, error)
	Ack(key record.Key, kseq uint64)
	Stop(ctx context.Context, key record.Key, reason string) error
	// Attach adopts a kernel that an earlier server started; Kernels lists all known ones.
	Attach(ctx context.Context, key record.Key) (command.Attachment, error)
	Kernels(ctx context.Context) ([]record.Key, error)
	// Usages returns what each of these kernels uses now. It leaves out those that it cannot tell of.
	Usages(ctx context.Context, keys []record.Key) ([]command.KernelUsage, error)
	// Sweep removes what a crashed server's sandboxes left on the machine.
	Sweep(ctx context.Context, handles []kernel.Handle) error
}

// Readier is implemented by hosts that may be unable to start kernels for a while. Ready returns nil, or why that is
// so. It may try to become ready first; ctx bounds that.
type Readier interface {
	Ready(ctx context.Context) error
}

// Config is what a [Manager] needs. Everything is required but what says otherwise, and Redact.
type Config struct {
	Store     *store.Store
	Artifacts *artifacts.Store
	Host      Host
	Log       *slog.Logger
	Version   string

	SessionsDir  string               // holds a folder for each session
	Disk         *disk.Store          // of SessionsDir, which the caller closes; optional: plain directories
	Environments []kernel.Environment // the first is the default
	Tier         string               // of isolation, of new kernels
	NoMounts     string               // why sessions can mount nothing; "": they can
	NoNetwork    string               // why no session can have a network; "": they can
	UIDBase      int                  // first user id of sessions' files and processes; 0: all belong to the server's user
	// UserProcesses lists what a user runs, in a tier that may fail to end it; optional.
	UserProcesses func(uid int) ([]int, error)
	TZ            string // of kernels
	BootID        string // of the machine

	Defaults    api.Limits // if ArtifactBytes is 0, it is twice DiskBytes
	Ceilings    api.Limits // the most that a session may ask for; 0: no ceiling
	IdleTimeout time.Duration
	OnIdle      api.OnIdle // of sessions that do not say; "": hibernate
	// Checkpoints is the mode of sessions that do not say; "": auto.
	Checkpoints api.CheckpointMode
	// CopiesBytes is what the copies of interpreters that checkpoints keep may take together; 0: an eighth of the memory.
	CopiesBytes int64
	// ApprovalTimeout is how long a person has to decide; 0: [api.ApprovalTimeoutS].
	ApprovalTimeout time.Duration
	// ToolGrace is how long the tools of a client with a client_id stay after its socket has closed; 0: [api.ToolGraceS].
	ToolGrace time.Duration

	DiskReserve int64 // of the state disk, that new work may not take; 0: a twentieth, 64 MiB to 1 GiB
	// MemoryReserve is what has to be left of the memory, or idle kernels hibernate; 0: a twentieth, 128 MiB to 1 GiB.
	MemoryReserve int64
	MaxSessions   int64 // with a kernel, all owners together; 0: no limit
	// OwnerSessions and OwnerKernels bound what one owner has; 0: no limit.
	OwnerSessions, OwnerKernels int64
	InlineBytes                 int64 // largest file whose bytes travel in its artifact event; MaxInlineBytes is the most for all of a cell
	Redact                      []*regexp.Regexp
	RedactKnown                 bool                           // secrets that are recognised by their form, too
	Network                     settings.NetworkBounds         // optional: no session may have one
	Packages                    packages.Config                // optional: as if Off said so
	Remote                      RemoteTools                    // optional
	MountRoots                  []settings.MountRoot           // whose folders sessions may mount; optional
	Pool                        func(context.Context) api.Pool // counts ready kernels; optional
}

// The defaults of an operator who configures nothing.
var (
	DefaultLimits = api.Limits{
		MemoryBytes:       2 << 30,
		CPUs:              1,
		PIDs:              256,
		DiskBytes:         2 << 30,
		ExecutionTimeoutS: 300,
		OutputBytes:       8 << 20,
		DisplayBytes:      64 << 20,
		LogBytes:          1 << 30,
		ToolCalls:         50,
	}
	DefaultCeilings = api.Limits{
		MemoryBytes:   16 << 30,
		CPUs:          64,
		PIDs:          4096,
		DiskBytes:     64 << 30,
		OutputBytes:   64 << 20,
		DisplayBytes:  1 << 30,
		LogBytes:      64 << 30,
		ArtifactBytes: 128 << 30,
		ToolCalls:     10000,
	}
)

// DefaultIdleTimeout and DefaultInlineBytes go with them.
const (
	DefaultIdleTimeout = 30 * time.Minute
	DefaultInlineBytes = 1 << 20
	// DefaultOwnerSessions and DefaultOwnerKernels are far more than people need, and less than breaks a server.
	DefaultOwnerSessions = 10_000
	DefaultOwnerKernels  = 2_000
)
