package session

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"regexp"
	"strings"

	"talaria/api"
	"talaria/store"
)

const (
	guardHistory   = 64 // executions that a failure is compared with
	guardTold      = 2  // the failure from which on the client is told
	guardRefused   = 5  // the one that is refused in a session that blocks
	guardErrorSize = 64 << 10
)

// guardState recognises a cell that fails again in the same way. Guarded by Session.mu.
type guardState struct {
	mode   api.GuardMode
	loaded bool
	recent []signature // of the last executions, oldest first
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
func (s *Session) observe(ctx context.Context, signed signature) *api.Guard {
	recent, mode := s.recentSignatures(ctx)
	if mode == api.GuardOff || signed == "" {
		return nil
	}
	recent = append(recent, signed)
	recent = recent[max(0, len(recent)-guardHistory):]
	s.mu.Lock()
	s.guard.recent = recent
	s.mu.Unlock()
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

// recentSignatures returns the signatures of the session's last executions, read from the store the first time.
func (s *Session) recentSignatures(ctx context.Context) ([]signature, api.GuardMode) {
	s.mu.Lock()
	recent, mode, loaded := s.guard.recent, s.guard.mode, s.guard.loaded
	s.mu.Unlock()
	if loaded || mode == api.GuardOff {
		return recent, mode
	}
	stored, err := s.m.cfg.Store.Signatures(ctx, s.n, guardHistory)
	if err != nil {
		s.log.Warn("read how executions ended; repeated failures are not recognised yet", "error", err)
		return recent, mode
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.guard.loaded {
		s.guard.loaded, s.guard.recent = true, nil
		for _, one := range stored {
			s.guard.recent = append(s.guard.recent, signature(one))
		}
	}
	return s.guard.recent, mode
}

// refuseRepeated returns an error if the session refuses code that failed too often in the same way.
func (s *Session) refuseRepeated(ctx context.Context, code string, force bool) error {
	recent, mode := s.recentSignatures(ctx)
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

// forgetFailures returns the change after which no failure so far counts as repeated: a reset is a fresh start.
func (s *Session) forgetFailures() change {
	return change{
		also: func(tx *store.Tx) error { return tx.ForgetSignatures(s.n) },
		done: func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.guard.loaded, s.guard.recent = true, nil
		},
	}
}
