package run

import (
	"bytes"
	"fmt"
	"strings"

	"talaria/api"
	"talaria/kernel"
	"talaria/kernel/oneshot"
)

// lastWords is how much of the end of standard error is searched for what a language says about memory.
const lastWords = 8 << 10

// verdictOf returns a judge's word for how a program ended, and the reason in the words of executions.
func (l *language) verdictOf(o oneshot.Outcome) (api.Verdict, string) {
	switch o.Limit {
	case oneshot.LimitOutput:
		return api.VerdictOutputLimit, o.Limit
	case oneshot.LimitTime, oneshot.LimitCPU:
		return api.VerdictTimeLimit, o.Limit
	}
	if o.OK() {
		return api.VerdictOK, ""
	}
	switch {
	case o.Limit == kernel.LimitMemory || o.OOMKills > 0 || l.refusedMemory(o.Stderr):
		return api.VerdictMemoryLimit, kernel.LimitMemory
	case o.Limit != "":
		return api.VerdictRuntimeError, o.Limit
	case o.Signal != 0:
		return api.VerdictRuntimeError, "signal:" + o.SignalName()
	}
	return api.VerdictRuntimeError, fmt.Sprintf("exit:%d", o.Code)
}

// refusedMemory reports whether a program ended because it got no memory, by its own last words. It decides only between
// two words for the same failure.
func (l *language) refusedMemory(stderr []byte) bool {
	end := stderr[max(0, len(stderr)-lastWords):]
	for _, words := range l.noMemory {
		if bytes.Contains(end, []byte(words)) {
			return true
		}
	}
	return false
}

// stepOf returns an outcome as clients see it.
func stepOf(o oneshot.Outcome, reason string) api.RunStep {
	s := api.RunStep{
		Stdout: text(o.Stdout), Stderr: text(o.Stderr), ExitCode: o.Code, Reason: reason,
		Usage: api.ExecutionUsage{DurationMS: o.Duration.Milliseconds(), CPUMS: o.CPU.Milliseconds(), PeakMemoryBytes: o.PeakMemoryBytes},
	}
	if o.Signal != 0 {
		s.Signal = o.SignalName()
		s.ExitCode = 128 + int(o.Signal)
	}
	return s
}

func text(b []byte) string { return strings.ToValidUTF8(string(b), "\uFFFD") }
