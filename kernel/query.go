package kernel

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"talaria/api"
)

// AnswerTime is how long a kernel has for the answer to a query. What is left of the 200 ms that clients are promised
// is for the way there and back.
const AnswerTime = 180 * time.Millisecond

const (
	// maxQueries is how many queries of one kernel wait for an answer.
	maxQueries = 32
	// maxQueued is how many bytes a runner that does not read may leave unread before it is asked no more: an
	// interrupt must not have to wait behind questions.
	maxQueued = 1 << 20
)

// ErrTooOld tells that the host which owns the kernel is of an earlier version and cannot do this.
var ErrTooOld = errors.New("the kernel's host is of an earlier version")

// QueryKind is what a query asks.
type QueryKind string

// The kinds of queries.
const (
	QueryComplete   QueryKind = "complete"
	QueryInspect    QueryKind = "inspect"
	QueryIsComplete QueryKind = "is_complete"
	QueryVariables  QueryKind = "variables"
	QueryTable      QueryKind = "table"
)

// Query is the command that asks about the names in a kernel, or about a table that it has shown, also while a cell runs.
// It is answered with an [Answer], or with ErrKernelBusy where none came within AnswerTime. What a kernel answers is only
// as true as its user wants it to be, but within its bounds. Cursor is a place in Code, in code points.
type Query struct {
	Kind   QueryKind   `json:"kind"`
	Code   string      `json:"code,omitzero"`
	Cursor int64       `json:"cursor,omitzero"`
	Detail int64       `json:"detail,omitzero"`
	Table  *TableQuery `json:"table,omitzero"`
}

// TableQuery asks for rows of a table in an order. Table is the table_id that was shown with it.
type TableQuery struct {
	Table  string          `json:"table"`
	Filter string          `json:"filter"`
	Sort   []api.TableSort `json:"sort"`
	Offset int64           `json:"offset"`
	Count  int64           `json:"count"`
}

// TableState says whether there is a page.
type TableState string

// The words of TableState.
const (
	TableOK         TableState = "ok"
	TableGone       TableState = "gone"    // the object does not exist any more, or never did
	TableChanged    TableState = "changed" // it has other rows or columns
	TableUnsortable TableState = "unsortable"
)

// TablePage is a page, if State is TableOK. Reason says why a table cannot be sorted so.
type TablePage struct {
	State  TableState     `json:"state"`
	Reason string         `json:"reason,omitzero"`
	Page   api.TableReply `json:"page,omitzero"`
}

// Answer is that to a query: the field of its kind is set.
type Answer struct {
	Completion   *api.CompleteReply   `json:"completion,omitzero"`
	Inspection   *api.InspectReply    `json:"inspection,omitzero"`
	Completeness *api.IsCompleteReply `json:"completeness,omitzero"`
	Variables    *api.VariablesReply  `json:"variables,omitzero"`
	Table        *TablePage           `json:"table,omitzero"`
}

// kind is that of the queries that it answers.
func (a Answer) kind() QueryKind {
	switch {
	case a.Completion != nil:
		return QueryComplete
	case a.Inspection != nil:
		return QueryInspect
	case a.Completeness != nil:
		return QueryIsComplete
	case a.Table != nil:
		return QueryTable
	default:
		return QueryVariables
	}
}

// query is one that waits.
type query struct {
	kind     QueryKind
	answered chan Answer // has room for one
}

// ask asks a kernel about its names, also while a cell runs in it. It is ErrNoKernel, or ErrKernelBusy where no answer
// came within AnswerTime, or the kernel cannot answer yet.
func (k *interpreter) ask(ctx context.Context, q Query) (Answer, error) {
	id, answered, err := k.pose(q)
	if err != nil {
		return Answer{}, err
	}
	defer k.withdraw(id)
	patience := time.NewTimer(AnswerTime)
	defer patience.Stop()
	select {
	case a := <-answered:
		return a, nil
	case <-patience.C:
		return Answer{}, ErrKernelBusy
	case <-k.killed:
		return Answer{}, ErrNoKernel
	case <-k.controlEnded:
		return Answer{}, ErrNoKernel
	case <-ctx.Done():
		return Answer{}, fmt.Errorf("ask the kernel: %w", context.Cause(ctx))
	}
}

// pose sends the query.
func (k *interpreter) pose(q Query) (id string, answered <-chan Answer, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case k.phase == starting, len(k.queries) >= maxQueries, k.frames.backlog() > maxQueued:
		return "", nil, ErrKernelBusy
	case k.phase != serving, k.cause != nil:
		return "", nil, ErrNoKernel
	}
	k.posed++
	id = strconv.FormatUint(k.posed, 10)
	if err := k.frames.send(q.out(id)); err != nil {
		return "", nil, errors.Join(ErrKernelBusy, err)
	}
	asked := query{kind: q.Kind, answered: make(chan Answer, 1)}
	if k.queries == nil {
		k.queries = map[string]query{}
	}
	k.queries[id] = asked
	return id, asked.answered, nil
}

// out is the frame that asks the runner.
func (q Query) out(id string) any {
	if t := q.Table; q.Kind == QueryTable && t != nil {
		return tableOut{string(q.Kind), id, t.Table, t.Filter, t.Sort, t.Offset, t.Count}
	}
	return queryOut{string(q.Kind), id, q.Code, q.Cursor, q.Detail}
}

func (k *interpreter) withdraw(id string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.queries, id)
}

// answered takes what the runner says for an answer. The caller holds mu.
func (k *interpreter) answered(f answerFrame) error {
	asked, ok := k.queries[f.requestID]
	if !ok || asked.kind != f.answer.kind() {
		return errUnexpected // it came too late, or nobody asked
	}
	delete(k.queries, f.requestID)
	asked.answered <- f.answer
	return nil
}
