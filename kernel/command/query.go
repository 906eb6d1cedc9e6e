package command

import (
	"talaria/api"
)

// QueryKind names what a query asks.
type QueryKind string

// The kinds of queries.
const (
	QueryComplete   QueryKind = "complete"
	QueryInspect    QueryKind = "inspect"
	QueryIsComplete QueryKind = "is_complete"
	QueryVariables  QueryKind = "variables"
	QueryTable      QueryKind = "table"
	QueryPing       QueryKind = "ping" // of the command [Ping]
	QueryCopy       QueryKind = "copy" // of the command [MakeCopy]
	QuerySave       QueryKind = "save" // of the command [SaveVariables]
	QueryLoad       QueryKind = "load" // of the command [LoadVariables]
)

// Query is the command that asks about the names in a kernel, or about a table that it has shown, also while a cell
// runs. The reply is an [Answer], or ErrKernelBusy if none came within AnswerTime. An answer is only as true as the
// kernel's user wants it to be, but it keeps within its bounds. Cursor is a position in Code, in code points.
type Query struct {
	Kind   QueryKind   `json:"kind"`
	Code   string      `json:"code,omitzero"`
	Cursor int64       `json:"cursor,omitzero"`
	Detail int64       `json:"detail,omitzero"`
	Table  *TableQuery `json:"table,omitzero"`
}

// TableQuery asks for rows of a table in a given order. Table is the table_id that was shown with the table.
type TableQuery struct {
	Table  string          `json:"table"`
	Filter string          `json:"filter"`
	Sort   []api.TableSort `json:"sort"`
	Offset int64           `json:"offset"`
	Count  int64           `json:"count"`
}

// TableState says whether there is a page.
type TableState string

// The values of TableState.
const (
	TableOK         TableState = "ok"
	TableGone       TableState = "gone"    // the object no longer exists, or never did
	TableChanged    TableState = "changed" // it has other rows or columns
	TableUnsortable TableState = "unsortable"
)

// TablePage is a page of a table, if State is TableOK. Reason says why the table cannot be sorted this way.
type TablePage struct {
	State  TableState     `json:"state"`
	Reason string         `json:"reason,omitzero"`
	Page   api.TableReply `json:"page,omitzero"`
}

// Answer is the answer to a query: the field of its kind is set.
type Answer struct {
	Completion   *api.CompleteReply   `json:"completion,omitzero"`
	Inspection   *api.InspectReply    `json:"inspection,omitzero"`
	Completeness *api.IsCompleteReply `json:"completeness,omitzero"`
	Variables    *api.VariablesReply  `json:"variables,omitzero"`
	Table        *TablePage           `json:"table,omitzero"`
	Pong         *Pong                `json:"pong,omitzero"`
	Copied       *Copied              `json:"copied,omitzero"`
	Saved        *SavedVariables      `json:"saved,omitzero"`
	Loaded       *LoadedVariables     `json:"loaded,omitzero"`
	// Later answers a wish for which a cell left no time.
	Later bool `json:"later,omitzero"`
}

// Pong is the answer to a [Ping].
type Pong struct{}

// Kind returns the kind of query that the answer belongs to.
func (a Answer) Kind() QueryKind {
	switch {
	case a.Completion != nil:
		return QueryComplete
	case a.Inspection != nil:
		return QueryInspect
	case a.Completeness != nil:
		return QueryIsComplete
	case a.Table != nil:
		return QueryTable
	case a.Pong != nil:
		return QueryPing
	case a.Copied != nil:
		return QueryCopy
	case a.Saved != nil:
		return QuerySave
	case a.Loaded != nil:
		return QueryLoad
	default:
		return QueryVariables
	}
}
