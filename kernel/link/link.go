// Package link is the socket between a server and the hosts that own its kernels. [Serve] offers a [host.Host] to
// servers. A [Client] presents all hosts of a state directory, living and dead, as one host; its user cannot tell it
// from a [host.Host] of its own.
//
// A host has a folder of its own, named by its id, a UUIDv7:
//
//	lock       held with flock for the host's life: a process that can share it knows that the host is dead
//	host.json  what the host is, written when it is ready; for information, never for deciding whether it lives
//	socket     where servers connect
//	spool/     records of its kernels that nobody has acknowledged
//	log        the host's stderr, if its starter wants that
//
// A connection carries frames: a length, a type, and a payload. The first frame of the server is a request that makes
// it a control connection ("hello"), the connection of one kernel ("start", "attach"), or that of one run ("run"). Requests have numbers, which
// their replies repeat. On the connection of a kernel "read" begins the flow of its records, which are passed on
// encoded; "taken" lets the host send more, and "ack" says which records it may drop.
package link

import (
	"errors"
	"time"

	"talaria/kernel/record"
)

// ErrTakenOver reports that another server has attached to the kernel.
var ErrTakenOver = errors.New("another server has taken the kernel over")

var (
	errRetired  = errors.New("the host takes no new kernels")
	errProtocol = errors.New("no common version of the host protocol")
)

const (
	// window is how many bytes of records a host sends that the server has not yet taken, if more than one frame.
	window = 4 << 20
	// drainTime is how long a host that is ending waits for its servers to acknowledge the last records.
	drainTime = 2 * time.Second
	// helloTime bounds the first request of a connection and its reply, except for starting a kernel and attaching to one.
	helloTime = 10 * time.Second
	// attachTime is how long a host may take to hand a kernel over. It first completes what came on the kernel's earlier
	// connection, and some of that cannot be cut short: saving the variables of a copy may take more than a minute.
	attachTime = 2 * time.Minute
	// hostPatience is how long a new server waits for a host that lives and does not answer.
	hostPatience = time.Minute
	// DefaultOrphanTTL is how long a host lives without a server.
	DefaultOrphanTTL = 24 * time.Hour
)

// Versions is a range of versions of the host protocol. The requests hello and stop are the same in all of them.
type Versions struct {
	Min int `json:"min"`
	Max int `json:"max"`
}

// supported are the versions that this program speaks. Version 1 has records in encoding 1; the commands of later
// versions name theirs ([kernel.Spec]); versions 3, 5 and 7 have further kinds of records. Version 6
// has the request usages, version 8 one-shot runs, version 9 the standard input of programs, version 10
// copies of interpreters, with a record of their own, version 12 saving a copy's variables, version 13 programs
// that end with their process groups, version 14 interpreters that step aside, and version 15 kernels in the sandbox of another one.
var supported = Versions{Min: 1, Max: 15}

// sinceBeside is the first version with kernels in the sandbox of another one.
const sinceBeside = 15

// A new encoding of records requires a new version of the protocol: this line then fails to compile.
var _ = [1]struct{}{}[record.Encoding-1]

// common returns the highest version in both, or 0.
func (s Versions) common(other Versions) int {
	if v := min(s.Max, other.Max); v >= max(s.Min, other.Min) {
		return v
	}
	return 0
}
