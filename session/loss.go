package session

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"talaria/store"
)

// loss is the end of a kernel that had run cells: what happened to the variables of the session.
type loss struct {
	reason string
	at     time.Time
}

// lossBefore returns the loss that a generation of a session began after, or nil if none is known. It reads the log, so
// that the answer survives the server. An error is only written to log, and counts as none: nobody may fail to start for a hint.
func (j *Journal) lossBefore(ctx context.Context, generation int64, log *slog.Logger) *loss {
	if generation <= 1 {
		return nil
	}
	reason, at, err := j.store.LastDeath(ctx, j.n, generation, reasonStart)
	if err != nil {
		if !errors.Is(err, store.ErrNotFound) {
			log.Error("read when the variables were lost", "error", err)
		}
		return nil
	}
	return &loss{reason: reason, at: time.UnixMilli(at).UTC()}
}

// lossNotice returns the line at the head of the text of an execution: of a kernel's first one, unless it is silent or a
// user wanted the loss. Otherwise it is "".
func (j *Journal) lossNotice(ctx context.Context, e store.Execution, log *slog.Logger) string {
	if e.ExecutionCount == nil || *e.ExecutionCount != 1 {
		return ""
	}
	return j.lossBefore(ctx, e.Generation, log).notice()
}

// String says what was lost, when and why, without a full stop. It is "" for nil.
func (l *loss) String() string {
	if l == nil {
		return ""
	}
	return fmt.Sprintf("variables from before %s are gone: %s", l.at.Format("2006-01-02 15:04:05 UTC"), l.cause())
}

// notice returns the line at the head of the text of the next cell, "" if a user wanted the loss.
func (l *loss) notice() string {
	if l == nil || l.reason == reasonReset {
		return ""
	}
	return "[" + strings.ToUpper(l.String()[:1]) + l.String()[1:] + "; files are kept]"
}

// cause says in a clause why the kernel ended.
func (l *loss) cause() string {
	if said, ok := causes[l.reason]; ok {
		return said
	}
	kind, detail, _ := strings.Cut(l.reason, ":")
	switch kind {
	case "exit":
		return "Python exited with status " + detail
	case "signal":
		return "Python was killed by " + detail
	}
	return fmt.Sprintf("the kernel ended (%s)", l.reason)
}

var causes = map[string]string{
	reasonReset:     "the session was reset",
	reasonIdle:      "the kernel was stopped because the session was idle",
	reasonShutdown:  "the server was shut down",
	reasonHostCrash: "the process that ran the kernel ended unexpectedly",
	reasonLost:      "the server could not read what the kernel reported",
	"beside_ended":  "the kernel ended with the one whose sandbox it shared",
	reasonRefused:   "the kernel stopped accepting cells",
	"timeout":       "a cell ran past its time limit and ignored the interrupt",
	"memory_limit":  "the kernel exceeded its memory limit (limits.memory_bytes)",
	"out_of_memory": "the machine ran out of memory",
	"disk_limit":    "the kernel exceeded its disk limit (limits.disk_bytes)",
	"cpu_limit":     "a cell exceeded its CPU time limit",
}
