package batch

import (
	"context"
	"errors"
	"strconv"

	"talaria/api"
	"talaria/store"
)

// maxDeadlineS is the longest deadline of a job: a year.
const maxDeadlineS = 365 * 24 * 3600

// check makes the rows of a request. Those of items without a session have none yet.
func (m *Manager) check(ctx context.Context, owner string, req api.BatchRequest) (row store.Batch, items []store.BatchItem, err error) {
	switch n := len(req.Items); {
	case n == 0:
		return row, nil, api.Invalid("items is missing or empty")
	case n > api.MaxBatchItems:
		return row, nil, api.Errorf(api.CodeLimitExceeded, "the batch has %d items, and the limit is %d; split it", n, api.MaxBatchItems)
	}
	if c := req.Concurrency; c != nil {
		if *c < 1 {
			return row, nil, api.Invalid("concurrency must be at least 1")
		}
		row.Concurrency = *c
	}
	if d := req.DeadlineS; d != nil && !(*d > 0 && *d <= maxDeadlineS) {
		return row, nil, api.Invalid("deadline_s must be above 0 and at most %d", maxDeadlineS)
	}
	known := map[string]bool{}
	items = make([]store.BatchItem, len(req.Items))
	for i, item := range req.Items {
		if items[i], err = m.checkItem(ctx, owner, "items."+strconv.Itoa(i), item, known); err != nil {
			return row, nil, err
		}
		items[i].Index = i
	}
	return row, items, nil
}

// checkItem makes the row of an item. known are sessions that were found.
func (m *Manager) checkItem(ctx context.Context, owner, at string, item api.BatchItemRequest, known map[string]bool) (row store.BatchItem, err error) {
	if item.Code == nil {
		return row, api.Invalid("%s.code is missing", at)
	}
	if n := len(item.Files); n > api.MaxBatchFiles {
		return row, api.Errorf(api.CodeLimitExceeded, "%s.files has %d files, and the limit is %d; upload them to the session instead", at, n, api.MaxBatchFiles)
	}
	row = store.BatchItem{Fresh: item.Session == nil, Code: *item.Code, Files: item.Files}
	var named string
	switch {
	case item.Session != nil && item.ForkOf != nil:
		return row, api.Invalid("%s has both session and fork_of; give only one", at)
	case item.Session != nil:
		row.Session, named = *item.Session, *item.Session
	case item.ForkOf != nil:
		row.ForkOf, named = *item.ForkOf, *item.ForkOf
	default:
		return row, nil
	}
	if known[named] {
		return row, nil
	}
	if _, _, err := m.cfg.Store.FindSession(ctx, owner, named); errors.Is(err, store.ErrNotFound) {
		return row, api.Errorf(api.CodeSessionNotFound, "%s: you have no session %.140q", at, named)
	} else if err != nil {
		return row, err
	}
	known[named] = true
	return row, nil
}
