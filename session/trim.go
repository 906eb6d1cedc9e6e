package session

import (
	"context"

	"talaria/api"
	"talaria/store"
)

// keepExecutions is how many of its newest executions a session never forgets.
const keepExecutions = 100

// trim shortens the log to its limit less a sixteenth, so that there is some room again: its oldest finished
// executions lose their events. When all but the newest have lost them, the oldest are removed as a whole. On the
// session's goroutine.
func (j *Journal) trim(ctx context.Context) error {
	first, excess := j.excess()
	if excess <= 0 {
		return nil
	}
	to, err := j.store.TrimTo(ctx, j.n, first, excess)
	if err != nil {
		return err
	}
	for first < to && ctx.Err() == nil {
		var bytes int64
		var unused []string
		err := j.write(ctx, store.Write{
			Apply:     func(tx *store.Tx) (err error) { first, bytes, unused, err = tx.TrimLog(j.n, to); return err },
			Committed: func() { j.trimmed(first, bytes) },
		})
		if err != nil {
			return err
		}
		j.blobs.removeSoon(unused)
	}
	for ctx.Err() == nil {
		_, excess := j.excess()
		if excess <= 0 {
			return nil
		}
		var bytes int64
		err := j.write(ctx, store.Write{
			Apply: func(tx *store.Tx) (err error) {
				bytes, err = tx.ForgetExecutions(j.n, excess, keepExecutions)
				return err
			},
			Committed: func() { j.trimmed(0, bytes) },
		})
		if err != nil || bytes == 0 {
			return err
		}
	}
	return nil
}

// excess returns where the log begins, and how many of its bytes have to be removed.
func (j *Journal) excess() (first, excess int64) {
	limit := j.limit()
	j.mu.Lock()
	defer j.mu.Unlock()
	if limit == 0 || j.kept.logBytes <= limit {
		return j.kept.firstSeq, 0
	}
	return j.kept.firstSeq, j.kept.logBytes - limit + limit/16
}

func (j *Journal) trimmed(first, bytes int64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.kept.firstSeq = max(j.kept.firstSeq, first)
	j.kept.logBytes -= bytes
}

// expired is the error for a reader that asks for events that the log no longer has.
func (j *Journal) expired() error {
	first := j.FirstSeq()
	return api.Errorf(api.CodeEventsExpired, "the log begins at seq %d; ask for after=%d", first, first-1)
}

// dropOldVersions drops as many of the oldest versions as take that much disk space, and returns how much they took.
func (j *Journal) dropOldVersions(ctx context.Context, excess int64) (freed int64, err error) {
	var digests []string
	err = j.store.OldVersions(ctx, j.n, func(r store.Ref) bool {
		digests = append(digests, r.Digest)
		freed += r.Bytes
		return freed < excess
	})
	if err != nil || freed < excess {
		return 0, err
	}
	if err := j.commit(context.WithoutCancel(ctx), change{drops: digests}); err != nil {
		return 0, err
	}
	j.blobs.removeSoon(digests)
	return freed, nil
}
