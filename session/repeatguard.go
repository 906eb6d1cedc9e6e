package session

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"log/slog"
	"regexp"
	"strings"
	"sync"

	"talaria/api"
	"talaria/store"
)

const (
	guardHistory   = 64 // executions that a failure is compared with
	guardTold      = 2  // the failure from which on the client is told
	guardRefused   = 5  // the one that is refused in a session that blocks
	guardErrorSize = 64 << 10
)

// guard recognises a cell that fails again in the same way. It is safe for concurrent use.
type guard struct {
	journal *Journal
	log     *slog.Logger

	mu     sync.Mutex // guards the fields below; comes after Session.mu
	mode   api.GuardMode
	loaded bool
	recent []signature // of the last executions, oldest first
}

// setting returns what the guard does.
func (g *guard) setting() api.GuardMode {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.mode
}

func (g *guard) set(mode api.GuardMode) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.mode = mode
}

// isNew tells the guard of a new session that nothing has failed in it.
func (g *guard) isNew() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.loaded = true
}

// signature names what ran and how it failed: a digest of the code, and one of the error or "" if it succeeded. ""
// stands for an execution that did not run to an end, such as an interrupted one.
type signature string

// sign makes the signature of an execution that has ended.
func sign(code string, status api.ExecutionStatus, reason string, failure *api.ErrorOutput) signature {
	switch {
	case status == api.StatusOK:
		return signature(codeDigest(code) + "/")
	case status == api.StatusError && failure != nil:
		text := failure.Ename + ": " + failure.Evalue
		return signature(codeDigest(code) + "/" + digest(withoutNoise(text[:min(len(text), guardErrorSize)])))
	case status == api.StatusTimeout, status == api.StatusDied:
		return signature(codeDigest(code) + "/" + digest(string(status)+" "+reason))
	}
	return ""
}

func (s signature) code() string {
	code, _, _ := strings.Cut(string(s), "/")
	return code
}

func (s signature) failed() bool { return s != "" && !strings.HasSuffix(string(s), "/") }

// codeDigest is the same for code that differs in blank lines and in spaces at the ends of lines.
func codeDigest(code string) string {
	h := sha256.New()
	for line := range strings.Lines(code) {
		if line = strings.TrimRight(line, " \t\r\n"); line != "" {
			_, _ = h.Write([]byte(line + "\n")) // never fails
		}
	}
	return hex.EncodeToString(h.Sum(nil)[:12])
}

func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:12])
}

// noise matches what differs between two runs that fail alike: colours, addresses, times, temporary names, line
// numbers.
var noise = regexp.MustCompile(`\x1b\[[0-9;]*[A-Za-z]` +
	`|0x[0-9A-Fa-f]+` +
	`|\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:?\d\d)?)?` +
	`|\d\d:\d\d:\d\d(?:\.\d+)?` +
	`|\d+(?:\.\d+)?(?:e-?\d+)? ?(?:ns|µs|us|ms|s|secs?|seconds?|min|minutes?)\b` +
	`|/tmp/tmp\w+` +
	`|\bline \d+`)

// withoutNoise returns the text of an error without what differs by chance.
func withoutNoise(text string) string {
	return strings.Join(strings.Fields(noise.ReplaceAllString(text, "~")), " ")
}

// repeats counts the failures among recent that are like s, back to the last success of the same code.
func repeats(recent []signature, s signature) (count int64) {
	for i := len(recent) - 1; i >= 0; i-- {
		switch {
		case recent[i] == s:
			count++
		case recent[i].code() == s.code() && !recent[i].failed():
			return count
		}
	}
	return count
}

// observe notes how an execution ended, and returns what to tell its client about a failure that repeats itself, or
// nil. The caller is the session's goroutine.
func (g *guard) observe(ctx context.Context, signed signature) *api.Guard {
	recent, mode := g.history(ctx)
	if mode == api.GuardOff || signed == "" {
		return nil
	}
	recent = append(recent, signed)
	recent = recent[max(0, len(recent)-guardHistory):]
	g.mu.Lock()
	g.recent = recent
	g.mu.Unlock()
	if !signed.failed() {
		return nil
	}
	count := repeats(recent, signed)
	if count < guardTold {
		return nil
	}
	return &api.Guard{Kind: api.GuardRepeatedFailure, Count: count, Hint: guardHint(mode, count)}
}

func guardHint(mode api.GuardMode, count int64) string {
	hint := fmt.Sprintf("this cell has failed %d times with the same error; look at the error and change the code before you run it again", count)
	if mode == api.GuardBlock && count >= guardRefused-1 {
		hint += "; unchanged, it will be refused"
	}
	return hint
}

// history returns the signatures of the session's last executions, read from the store the first time.
func (g *guard) history(ctx context.Context) ([]signature, api.GuardMode) {
	g.mu.Lock()
	recent, mode, loaded := g.recent, g.mode, g.loaded
	g.mu.Unlock()
	if loaded || mode == api.GuardOff {
		return recent, mode
	}
	stored, err := g.journal.store.Signatures(ctx, g.journal.n, guardHistory)
	if err != nil {
		g.log.Warn("read how executions ended; repeated failures are not recognised yet", "error", err)
		return recent, mode
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.loaded {
		g.loaded, g.recent = true, nil
		for _, one := range stored {
			g.recent = append(g.recent, signature(one))
		}
	}
	return g.recent, mode
}

// refuse returns an error if the session refuses code that failed too often in the same way.
func (g *guard) refuse(ctx context.Context, code string, force bool) error {
	recent, mode := g.history(ctx)
	if mode != api.GuardBlock || force {
		return nil
	}
	wanted := codeDigest(code)
	for i := len(recent) - 1; i >= 0; i-- {
		if recent[i].code() != wanted {
			continue
		}
		if count := repeats(recent, recent[i]); recent[i].failed() && count >= guardRefused-1 {
			return api.Errorf(api.CodeGuardRepeatedFailure,
				"this code failed %d times with the same error; change it, reset the session, or send \"force\": true to run it again", count)
		}
		return nil
	}
	return nil
}

// forget returns the change after which no failure so far counts as repeated: a reset is a fresh start.
func (g *guard) forget() change {
	return change{
		also: func(tx *store.Tx) error { return tx.ForgetSignatures(g.journal.n) },
		done: func() {
			g.mu.Lock()
			defer g.mu.Unlock()
			g.loaded, g.recent = true, nil
		},
	}
}
