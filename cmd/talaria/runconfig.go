package main

import (
	"cmp"
	"context"
	"log/slog"
	"runtime"
	"strings"
	"time"

	"talaria/batch"
	"talaria/kernel"
	"talaria/kernel/host"
	"talaria/kernel/oneshot"
	"talaria/run"
	"talaria/session"
	"talaria/store"
)

// runs bounds programs that run outside of sessions.
type runs struct {
	Concurrency int64         `config:"concurrency"` // 0: twice the CPUs
	OwnerRuns   int           `config:"owner_runs"`
	TotalRuns   int           `config:"total_runs"`
	MaxTime     time.Duration `config:"max_time"`
}

func defaultRuns() runs { return runs{OwnerRuns: 64, TotalRuns: 256, MaxTime: 5 * time.Minute} }

// programRuns returns what runs programs outside of sessions.
func (c config) programRuns(runner oneshot.Runner, env kernel.Environment) *run.Manager {
	concurrency := c.Run.Concurrency
	if concurrency == 0 {
		concurrency = int64(2 * runtime.NumCPU())
	}
	return run.New(run.Config{
		Runner: runner, Environment: env, Toolchains: run.Toolchains(env.Python), Concurrency: concurrency,
		OwnerRuns: c.Run.OwnerRuns, TotalRuns: c.Run.TotalRuns, MaxTime: c.Run.MaxTime,
		MaxMemory: c.Ceilings.MemoryBytes, MaxPIDs: c.Ceilings.PIDs, CPUs: c.Limits.CPUs,
	})
}

// batches says how jobs of many cells are run.
type batches struct {
	Concurrency int `config:"concurrency"` // 0: twice the CPUs
}

// openBatches continues the jobs of the last server.
func (c config) openBatches(ctx context.Context, db *store.Store, sessions *session.Manager, log *slog.Logger) (*batch.Manager, error) {
	return batch.Open(ctx, batch.Config{Sessions: sessions, Store: db, Log: log, Slots: cmp.Or(c.Batch.Concurrency, 2*runtime.NumCPU())})
}

// leastUIDBase leaves room below the user ids of sessions for those of runs and of the server itself.
const leastUIDBase = host.RunUIDs + 1000

// runUID is the first user id of runs, which lie below those of sessions and the two that a backend has for itself.
func (c config) runUID() int { return c.UIDBase - 2 - host.RunUIDs }

// toolchainFinding says which languages programs can have, and what to install for the others.
func toolchainFinding(python string) kernel.Finding {
	f := kernel.Finding{Name: "languages of /v1/run", OK: true}
	var found, missing, packages []string
	for _, t := range run.Toolchains(python) {
		if t.Missing == "" {
			found = append(found, t.Language)
			continue
		}
		missing, packages = append(missing, t.Language), append(packages, t.Package)
	}
	f.Detail = strings.Join(found, ", ")
	if len(missing) > 0 {
		f.Detail += "; not installed: " + strings.Join(missing, ", ") + " (apt-get install " + strings.Join(packages, " ") + ")"
	}
	return f
}
