// Package processes opens shells and starts programs in a session's sandbox, beside its interpreter, and talks to them.
package processes

import (
	"context"
	"fmt"
	"sync"
	"time"

	"talaria/api"
	"talaria/kernel/command"
	"talaria/kernel/record"
)

const (
	// outputWait bounds one wait for output at the host, which lasts even if the client leaves; a reader that wants
	// more asks again.
	outputWait = 10 * time.Second
	// answerTime bounds every other question to a host; the host itself answers earlier.
	answerTime = 30 * time.Second
	// inputBytes is how much is written at once.
	inputBytes = 64 << 10
	// inputCounts is how often, at most, input is recorded as use of the session.
	inputCounts = time.Second
)

// ErrTooOld means for a client that its kernel runs under a host of an earlier release.
var ErrTooOld = api.Errorf(api.CodeNotImplemented,
	"this session's kernel was started by an earlier version of the server that does not support this; reset the session")

// Kernel is what the processes of a session need of it. Its functions are safe for concurrent use.
type Kernel struct {
	Host command.Doer
	// Key names the present kernel, or the last one.
	Key func() record.Key
	// Start returns the key of the present kernel, and first starts one if there is none. what is what needs it, for
	// the error.
	Start func(ctx context.Context, what string) (record.Key, error)
	// Used counts the session as used now, and Touch also writes that down.
	Used  func(now time.Time)
	Touch func(context.Context) error
}

// New returns the terminals and the programs of a session.
func New(k Kernel) (*Terminals, *Programs) {
	shared := &beside{Kernel: k}
	return &Terminals{shared}, &Programs{shared}
}

// beside is what terminals and programs share.
type beside struct {
	Kernel

	mu      sync.Mutex // guards inputAt
	inputAt time.Time  // when input was last recorded as use
}

// typed counts input as use at once, and records it now and then.
func (b *beside) typed(ctx context.Context) error {
	now := time.Now()
	b.Used(now)
	b.mu.Lock()
	due := now.Sub(b.inputAt) >= inputCounts
	if due {
		b.inputAt = now
	}
	b.mu.Unlock()
	if !due {
		return nil
	}
	return b.Touch(ctx)
}

// processID is unique in the session: the generation of the kernel, and the kernel's own number.
func processID(generation int64, number string) string {
	return fmt.Sprintf("%d-%s", generation, number)
}

// find returns the kernel that a process belongs to, which may have ended, and the kernel's number for it. ok is false for an
// id that no process can have.
func (b *beside) find(id string) (key record.Key, number string, ok bool) {
	key = b.Key()
	n := uint64(0)
	if _, err := fmt.Sscanf(id, "%d-%d", &key.Generation, &n); err != nil {
		return key, "", false
	}
	number = fmt.Sprint(n)
	return key, number, processID(key.Generation, number) == id
}
