package host

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"talaria/kernel/command"
	"talaria/kernel/frame"
)

// AnswerTime is how long a kernel has to answer a query. The rest of the 200 ms that clients are promised is for the
// way there and back.
const AnswerTime = 180 * time.Millisecond

const (
	// maxQueries is how many queries of one kernel may wait for an answer.
	maxQueries = 32
	// maxQueued is how many bytes a runner may leave unread before it is sent no more queries: an interrupt must not
	// have to wait behind them.
	maxQueued = 1 << 20
)

// query is a query that waits for its answer.
type query struct {
	kind     command.QueryKind
	answered chan command.Answer // has room for one value
}

// ask asks a kernel about its names, also while a cell runs in it. It returns ErrNoKernel, or ErrKernelBusy if no
// answer came within AnswerTime or the kernel cannot answer yet.
func (k *interpreter) ask(ctx context.Context, q command.Query) (command.Answer, error) {
	id, answered, err := k.pose(q)
	if err != nil {
		return command.Answer{}, err
	}
	defer k.withdraw(id)
	patience := time.NewTimer(AnswerTime)
	defer patience.Stop()
	select {
	case a := <-answered:
		return a, nil
	case <-patience.C:
		return command.Answer{}, command.ErrKernelBusy
	case <-k.killed:
		return command.Answer{}, command.ErrNoKernel
	case <-k.controlEnded:
		return command.Answer{}, command.ErrNoKernel
	case <-ctx.Done():
		return command.Answer{}, fmt.Errorf("ask the kernel: %w", context.Cause(ctx))
	}
}

// pose sends the query.
func (k *interpreter) pose(q command.Query) (id string, answered <-chan command.Answer, err error) {
	return k.poseFrame(q.Kind, func(id string) any { return frame.ForQuery(q, id) })
}

// poseFrame sends the frame that frameOf returns for the id of a query.
func (k *interpreter) poseFrame(kind command.QueryKind, frameOf func(id string) any) (id string, answered <-chan command.Answer, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case k.phase == starting, len(k.queries) >= maxQueries, k.frames.Backlog() > maxQueued:
		return "", nil, command.ErrKernelBusy
	case k.phase != serving, k.cause != nil:
		return "", nil, command.ErrNoKernel
	}
	k.posed++
	id = strconv.FormatUint(k.posed, 10)
	if err := k.frames.Send(frameOf(id)); err != nil {
		return "", nil, errors.Join(command.ErrKernelBusy, err)
	}
	asked := query{kind: kind, answered: make(chan command.Answer, 1)}
	if k.queries == nil {
		k.queries = map[string]query{}
	}
	k.queries[id] = asked
	return id, asked.answered, nil
}

// isWish reports whether a query of that kind is one that the interpreter answers between two cells.
func isWish(kind command.QueryKind) bool {
	return kind == command.QueryCopy || kind == command.QuerySave || kind == command.QueryLoad
}

// wish has the interpreter do something that it does between two cells, and waits as long as ctx lasts. It returns
// ErrKernelBusy if a cell came first.
func (k *interpreter) wish(ctx context.Context, kind command.QueryKind, frameOf func(id string) any) (command.Answer, error) {
	id, answered, err := k.poseFrame(kind, frameOf)
	if err != nil {
		return command.Answer{}, err
	}
	defer k.withdraw(id)
	select {
	case a := <-answered:
		if a.Later {
			return a, command.ErrKernelBusy
		}
		return a, nil
	case <-k.killed:
		return command.Answer{}, command.ErrNoKernel
	case <-k.controlEnded:
		return command.Answer{}, command.ErrNoKernel
	case <-ctx.Done():
		return command.Answer{}, context.Cause(ctx)
	}
}

func (k *interpreter) withdraw(id string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.queries, id)
}

// answered handles an answer of the runner. The caller holds mu.
func (k *interpreter) answered(f frame.QueryAnswer) error {
	asked, ok := k.queries[f.RequestID]
	if !ok || asked.kind != f.Answer.Kind() && !(f.Answer.Later && isWish(asked.kind)) {
		return errUnexpected // it came too late, or nobody asked
	}
	delete(k.queries, f.RequestID)
	asked.answered <- f.Answer
	return nil
}
